"""Turns the columns of a table into features. Plain data, so that it can be saved: nothing of scikit-learn's is."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ict.base.array_types import Array
from ict.base.errors import UserError
from ict.base.fields import check_fields
from ict.data.columns.cells import DATE_FORMATS, Mask, numbers, share_of_numbers, times, truths, words

PARTS = ("days", "month", "day", "weekday", "hour")  # of a date; days are counted from 1970

_SHOWN = 12  # columns of a kind in one line

# What one deviation is, in a feature's own units. Measured for numbers. Divided by its own deviation, a rare word or a
# rare gap would lie farther from the other rows than any number, and distances would follow chance. So two words lie
# sqrt(2) apart, however frequent, like two rows of a number on average, and so do true and false. A gap counts less.
MEASURED = 0.0
_WORD, _TRUTH, _GAP = 1.0, 0.5**0.5, 2.0


class EncodedColumn(NamedTuple):
    """Features of some cells, and a mask of the cells that have none, being of another kind."""

    x: NDArray[np.float32]
    bad: Mask


@dataclass(frozen=True)
class Number:
    """A column of numbers or truth values. A gap gets the median, and an indicator where there were gaps in fitting."""

    name: str
    fill: float
    gaps: bool
    boolean: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        _check_finite(self.name, self.fill)

    @property
    def features(self) -> tuple[str, ...]:
        return (self.name, *_indicator(self.name, self.gaps))

    @property
    def units(self) -> tuple[float, ...]:
        return (_TRUTH if self.boolean else MEASURED, *_unit_of_gap(self.gaps))

    @property
    def kind(self) -> str:
        return "true or false" if self.boolean else "number"

    @property
    def what(self) -> str:
        return f"{self.kind}, gaps filled with {self.fill:g} and marked" if self.gaps else self.kind

    def __call__(self, column: Any) -> EncodedColumn:
        values, bad = (truths if self.boolean else numbers)(column)
        return EncodedColumn(_filled(values[:, None], np.isnan(values), (self.fill,), self.gaps), bad)


@dataclass(frozen=True)
class Category:
    """A column of words, each a feature that is 1 or 0; the empty one is a gap. Rare and unseen ones share a feature.

    Without `rest` none was rare, and one that fitting did not see leaves all features 0.
    """

    name: str
    values: tuple[str, ...]
    rest: bool
    kind: ClassVar = "category"

    def __post_init__(self) -> None:
        check_fields(self)
        if len(set(self.values)) < len(self.values):
            raise UserError(f"the column '{self.name}' has a category twice.")

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={value}" for value in self.values) + ((f"{self.name}: other",) if self.rest else ())

    @property
    def units(self) -> tuple[float, ...]:
        return (_WORD,) * len(self.features)

    @property
    def what(self) -> str:
        return f"category of {len(self.values)}" + (", rare ones together" if self.rest else "")

    def __call__(self, column: Any) -> EncodedColumn:
        codes, different = words(column)
        self._check(different)
        places = {value: place for place, value in enumerate(self.values)}
        other = len(self.values) if self.rest else -1
        index = np.array([places.get(text, other) for text in (*different, "")], np.intp)[codes]
        x = np.zeros((len(index), len(self.values) + self.rest), np.float32)
        rows = np.flatnonzero(index >= 0)
        x[rows, index[rows]] = 1
        return EncodedColumn(x, np.zeros(len(index), np.bool_))

    def _check(self, different: list[str]) -> None:
        """Numbers in place of words are another column, and not unseen categories."""
        found, known = [text for text in different if text], [value for value in self.values if value]
        if not found or not known or set(found) & set(known):
            return
        if share_of_numbers(found) == 1 and share_of_numbers(known) == 0:
            raise UserError(
                f"the column '{self.name}' has numbers such as {found[0]}, but it had words such as '{known[0]}' when "
                "the model was fitted: give it the same meaning."
            )


@dataclass(frozen=True)
class Date:
    """A column of dates or times, of which those parts are features that varied in fitting."""

    name: str
    form: str
    parts: tuple[str, ...]
    fills: tuple[float, ...]
    gaps: bool
    kind: ClassVar = "date"

    def __post_init__(self) -> None:
        check_fields(self)
        _check_finite(self.name, *self.fills)
        if self.form not in DATE_FORMATS or not set(self.parts) <= set(PARTS) or len(self.parts) != len(self.fills):
            raise UserError(f"the column '{self.name}' has an unknown format or part of a date.")

    @property
    def features(self) -> tuple[str, ...]:
        return (*(f"{self.name}: {part}" for part in self.parts), *_indicator(self.name, self.gaps))

    @property
    def units(self) -> tuple[float, ...]:
        return (*(MEASURED for _ in self.parts), *_unit_of_gap(self.gaps))

    @property
    def what(self) -> str:
        return f"date ({', '.join(self.parts)})" + (", gaps filled and marked" if self.gaps else "")

    def __call__(self, column: Any) -> EncodedColumn:
        moments, bad = times(column, self.form)
        parts = calendar(moments)
        x = np.stack([parts[part] for part in self.parts], axis=1)
        return EncodedColumn(_filled(x, np.isnat(moments), self.fills, self.gaps), bad)


Column = Number | Category | Date
_KINDS: dict[str, type[Column]] = {"number": Number, "category": Category, "date": Date}


@dataclass(frozen=True)
class TableInputs:
    """The columns that are used, in order, and by name what became of the others."""

    columns: tuple[Column, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(feature for column in self.columns for feature in column.features)

    @property
    def units(self) -> tuple[float, ...]:
        """By feature what counts as one deviation when features are scaled; `MEASURED` where the rows say it."""
        return tuple(unit for column in self.columns for unit in column.units)

    @property
    def described(self) -> tuple[tuple[str, str], ...]:
        """By name what each column became."""
        return tuple((column.name, column.what) for column in self.columns) + tuple(
            (name, f"left out, {why}") for name, why in self.left_out
        )

    def __str__(self) -> str:
        """What became of the columns, in one line."""
        groups: dict[str, list[str]] = {}
        for column in self.columns:
            groups.setdefault(column.kind, []).append(f"'{column.name}'")
        used = "; ".join(f"{kind}: {_some(names)}" for kind, names in groups.items())
        left_out = _some([f"'{name}' ({why})" for name, why in self.left_out])
        return f"columns: {used}" + (f"; left out: {left_out}" if left_out else "")

    def encode(self, frame: Any) -> tuple[NDArray[np.float32], dict[str, Mask]]:
        """Features of a data frame's rows [n, features], and by column a mask of cells of another kind, if any."""
        if missing := [name for name in self.names if name not in frame]:
            raise UserError(f"the table lacks the column {', '.join(missing)}, which the model was fitted to: add it.")
        encoded = {column.name: column(frame[column.name]) for column in self.columns}
        bad = {name: one.bad for name, one in encoded.items() if one.bad.any()}
        return np.concatenate([one.x for one in encoded.values()], axis=1), bad

    def __call__(self, frame: Any) -> Array:
        """Features of a data frame's rows; an error names the first cell of another kind."""
        x, bad = self.encode(frame)
        for name, mask in bad.items():
            row = int(np.argmax(mask))
            raise UserError(
                f"the table has {self.problem(name, frame[name].iloc[row])} in row {row}: correct or remove it, or fit "
                "with another kind for the column (columns=)."
            )
        return x

    def problem(self, name: str, cell: object) -> str:
        """What is wrong with a cell, and what to do."""
        column = next(column for column in self.columns if column.name == name)
        kind = "a date" if isinstance(column, Date) else "a finite number"
        if isinstance(column, Number) and column.boolean:
            kind = "true or false"
        return f"'{str(cell)[:60]}' instead of {kind} in the column '{name}'"

    def to_config(self) -> dict[str, Any]:
        kinds = {cls: kind for kind, cls in _KINDS.items()}
        return {
            "columns": [{"kind": kinds[type(column)], **asdict(column)} for column in self.columns],
            "left_out": [list(pair) for pair in self.left_out],
        }

    @classmethod
    def from_config(cls, config: Any) -> "TableInputs":
        """What `to_config` wrote; a ValueError or UserError says what is wrong."""
        if not isinstance(config, Mapping) or not isinstance(config.get("columns"), list):
            raise ValueError("its table has no list of columns")
        columns = tuple(map(_column, config["columns"]))
        pairs = tuple((str(name), str(why)) for name, why in config.get("left_out", ()))
        if not columns or len({column.name for column in columns}) < len(columns):
            raise ValueError("its table has no column, or one twice")
        return cls(columns, pairs)


def calendar(moments: NDArray[np.datetime64]) -> dict[str, NDArray[np.float32]]:
    """The parts of dates as numbers, NaN where there is none."""
    days, months = moments.astype("datetime64[D]"), moments.astype("datetime64[M]")
    second = moments.astype(np.int64)
    whole = {
        "days": second / 86400,
        "month": months.astype(np.int64) % 12 + 1,
        "day": (days - months.astype("datetime64[D]")).astype(np.int64) + 1,
        "weekday": (days.astype(np.int64) + 3) % 7,  # 1970 began on a Thursday; Monday is 0
        "hour": second // 3600 % 24,
    }
    return {part: np.where(np.isnat(moments), np.nan, whole[part]).astype(np.float32) for part in PARTS}


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _column(config: Any) -> Column:
    if not isinstance(config, Mapping) or config.get("kind") not in _KINDS:
        raise ValueError("a column of its table has an unknown kind")
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in config.items() if key != "kind"}
    cls: Any = _KINDS[config["kind"]]
    column: Column = cls(**values)
    if not column.features:
        raise ValueError(f"the column '{column.name}' of its table has no features")
    return column


def _filled(x: Array, missing: Mask, fills: Sequence[float], gaps: bool) -> NDArray[np.float32]:
    """Numbers with the gaps filled, and a feature that marks them where fitting saw some."""
    whole = np.where(missing[:, None], np.array(fills, np.float32), x).astype(np.float32)
    return np.concatenate([whole, missing[:, None].astype(np.float32)], axis=1) if gaps else whole


def _unit_of_gap(gaps: bool) -> tuple[float, ...]:
    return (_GAP,) if gaps else ()


def _indicator(name: str, gaps: bool) -> tuple[str, ...]:
    return (f"{name}: gap",) if gaps else ()


def _check_finite(name: str, *values: float) -> None:
    if not all(isfinite(value) for value in values):
        raise UserError(f"the column '{name}' has a median that is not finite.")
