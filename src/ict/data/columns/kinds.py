"""What a column of a table is, by its type and its cells."""

import importlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from ict.base.errors import UserError
from ict.data.columns.cells import date_format, is_gap, is_numeric, share_of_numbers, words

Asked = Literal["number", "category", "text", "date", "ignore"]  # what a user can say of a column
Kind = Literal[Asked, "boolean", "constant", "identifier", "unusable"]
USED: tuple[Kind, ...] = ("number", "category", "boolean", "date")
_IDENTIFIER = re.compile(r"(^|[_\W])(id|ids|uid|uuid|guid|key|index|idx|row|nr|no)$|^unnamed: ?\d+$", re.IGNORECASE)
_CAMEL = re.compile(r"[a-z](Id|ID)$")
_FEW = 10  # rows, in which all cells may differ by chance
_DIFFERENT, _WORDS, _LONG = 0.9, 2, 5  # share of cells that are unlike all others; words in a cell


def kinds_of(frame: Any, asked: Mapping[str, Asked]) -> dict[str, Kind]:
    """The kind of each column of a table; `asked` overrides what is recognized."""
    check_asked(asked, frame.columns)
    return {name: asked.get(name) or kind_of(frame[name], name) for name in frame.columns}


def kind_of(column: Any, name: str) -> Kind:
    """The kind of a column. One with only gaps, or with one value in all rows, is constant."""
    pandas = importlib.import_module("pandas")
    try:
        n_different, n_cells = int(column.nunique()), int(column.notna().sum())
    except (TypeError, NotImplementedError):  # such as lists, which cannot be compared, and structures of Arrow
        return "unusable"
    if column.dtype.kind in "cm":  # complex numbers and durations
        return "unusable"
    if n_different == 0 or (n_different == 1 and 1 < n_cells == len(column)):
        return "constant"
    if pandas.api.types.is_bool_dtype(column):
        return "boolean"
    if pandas.api.types.is_datetime64_any_dtype(column):
        return "date"
    if isinstance(column.dtype, pandas.CategoricalDtype):
        return "category"
    if is_numeric(column):
        return "identifier" if n_different == n_cells and _numbers_rows(column, name) else "number"
    return _kind_of_words(words(column)[1], n_cells)


def parse_columns(text: str) -> dict[str, Asked]:
    """`--columns zip=category,note=ignore` as a dictionary."""
    found: dict[str, Asked] = {}
    for part in filter(None, text.split(",")):
        name, sign, kind = part.rpartition("=")
        chosen = next((one for one in get_args(Asked) if one == kind.strip()), None)
        if not sign or chosen is None:
            raise UserError(f"columns has '{part}': write NAME=KIND, with a kind among {', '.join(get_args(Asked))}.")
        found[name.strip()] = chosen
    return found


def check_asked(asked: Mapping[str, str], names: Sequence[str]) -> None:
    for name, kind in asked.items():
        if name not in names:
            raise UserError(
                f"columns gives a kind, but there is no column '{name}': choose from {', '.join(map(str, names))}."
            )
        if kind not in get_args(Asked):
            raise UserError(
                f"columns gives '{name}' the unknown kind {kind}: choose from {', '.join(get_args(Asked))}."
            )


def _numbers_rows(column: Any, name: str) -> bool:
    """Whether the numbers of a column identify rows: different whole numbers in a column named like an identifier."""
    values = column.dropna().to_numpy(np.float64)
    called = _IDENTIFIER.search(name.strip()) or _CAMEL.search(name.strip())
    return called is not None and len(values) >= _FEW and bool(np.all(values == np.round(values)))


def _kind_of_words(different: list[str], n_cells: int) -> Kind:
    present = [text for text in different if not is_gap(text)]
    if share_of_numbers(present) > 0.5:
        return "number"
    if {text.casefold() for text in present} <= {"true", "false"}:
        return "boolean"
    if date_format(present) is not None:
        return "date"
    length = np.mean([len(text.split()) for text in present]) if present else 0
    if n_cells >= _FEW and len(present) > _DIFFERENT * n_cells:
        return "identifier" if length <= _WORDS else "text"
    return "text" if length > _LONG and len(present) > 0.5 * n_cells else "category"
