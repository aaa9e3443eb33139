"""Learns medians and categories of a table's columns by scikit-learn, and stores them as plain data."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from ict.base.array_types import Array
from ict.base.errors import UserError
from ict.data.columns.cells import ISO, Mask, date_format, is_numeric, numbers, times, truths, words
from ict.data.columns.frames import as_frame, is_table, pandas_for
from ict.data.columns.kinds import USED, Asked, Kind, kinds_of
from ict.data.columns.table_inputs import PARTS, Category, Column, Date, Number, TableInputs, calendar

_MOST = 100  # features of one column of categories
_RARE, _RARE_SHARE = 10, 0.01  # a category in fewer rows, and in less than this share of them, is rare
_WHY = {  # a column is left out
    "constant": "constant",
    "identifier": "looks like an identifier",
    "text": "free text",
    "ignore": "as asked",
    "unusable": "cells of a type that cannot be used",
    "category": "no category in enough rows",
}


def learn_table(tables: list[Any], asked: Mapping[str, Asked]) -> TableInputs | None:
    """What is learned of all rows of some tables; None if they are arrays, or hold only numbers without gaps."""
    if not is_table(tables[0]):
        if asked:
            raise UserError("columns needs a table with names of columns, such as a data frame: leave it out.")
        return None
    frames = [as_frame(table) for table in tables]
    if strange := [name for frame in frames[1:] for name in {*frame.columns} ^ {*frames[0].columns}]:
        raise UserError(f"the unlabeled table differs in the column '{strange[0]}': give both the same columns.")
    frame = frames[0] if len(frames) == 1 else pandas_for("X").concat(frames, ignore_index=True)
    kinds = kinds_of(frame, asked)
    return None if is_plain(frame, kinds, asked) else learn(frame, kinds)


def is_plain(frame: Any, kinds: Mapping[str, Kind], asked: Mapping[str, Asked]) -> bool:
    """Whether all columns are numbers without gaps, which are features as they are."""
    if asked or set(kinds.values()) != {"number"}:
        return False
    return all(is_numeric(frame[name]) and not frame[name].isna().any() for name in frame.columns)


def learn(frame: Any, kinds: Mapping[str, Kind]) -> TableInputs:
    """What is learned of the columns, each being of a known kind."""
    columns: list[Column] = []
    left_out = []
    for name, kind in kinds.items():
        column = _learn_column(frame[name], name, kind) if kind in USED else None
        if column is None:
            rare = kind == "category" and frame[name].nunique() > 1
            left_out.append((name, _WHY[kind if rare or kind not in USED else "constant"]))
        else:
            columns.append(column)
    if not columns:
        shown = ", ".join(f"'{name}' ({why})" for name, why in left_out[:5])
        raise UserError(f"the table has no column to learn from, only {shown}: add one, or name its kind by columns.")
    return TableInputs(tuple(columns), tuple(left_out))


def _learn_column(column: Any, name: str, kind: Kind) -> Column | None:
    """None if nothing varies."""
    if kind == "category":
        return _learn_category(column, name)
    if kind == "date":
        form = ISO if column.dtype.kind == "M" else date_format(words(column)[1]) or ISO
        moments, bad = times(column, form)
        if np.isnat(moments[~bad]).all():
            _refuse(column, name, bad, "a date")
        parts = calendar(moments[~bad])
        found, gaps = _medians(np.stack([parts[part] for part in PARTS], axis=1))
        varied = [i for i, part in enumerate(PARTS) if np.nanmax(parts[part]) > np.nanmin(parts[part])]
        if not varied and not gaps:
            return None
        chosen = varied or [0]
        return Date(name, form, tuple(PARTS[i] for i in chosen), tuple(found[i] for i in chosen), gaps)
    values, bad = (truths if kind == "boolean" else numbers)(column)
    if bad.all() or np.isnan(values[~bad]).all():
        _refuse(column, name, bad, "a number")
    (fill,), gaps = _medians(values[~bad][:, None])
    return Number(name, fill, gaps, kind == "boolean")


def _medians(x: Array) -> tuple[tuple[float, ...], bool]:
    """The median of each column, and whether there are gaps."""
    imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True).fit(x.astype(np.float64))
    return tuple(map(float, imputer.statistics_)), bool(len(imputer.indicator_.features_))


def _learn_category(column: Any, name: str) -> Category | None:
    codes, different = words(column)
    texts = np.array([*different, ""], dtype=object)[codes][:, None]
    rare = max(min(_RARE, int(np.ceil(_RARE_SHARE * len(texts)))), 1)
    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=rare, max_categories=_MOST).fit(texts)
    (categories,), (infrequent,) = encoder.categories_, encoder.infrequent_categories_
    apart = set() if infrequent is None else set(infrequent)
    kept = tuple(str(value) for value in categories if value not in apart)
    return Category(name, kept, bool(apart)) if len(kept) + bool(apart) > 1 else None


def _refuse(column: Any, name: str, bad: Mask, kind: str) -> None:
    instead = f" but values such as '{column.iloc[int(np.argmax(bad))]}'" if bad.any() else ""
    raise UserError(f"the column '{name}' does not hold {kind}{instead}: set its kind with columns.")
