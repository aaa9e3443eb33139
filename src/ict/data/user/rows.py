"""Rows of numbers from arrays and tables: the usable rows, and the names of the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ict.base.array_types import Array
from ict.base.errors import UserError
from ict.data.user.records import UserData
from ict.data.user.remarks import counted, listed, rows_left_out


@dataclass(frozen=True)
class RowBlock:
    """Usable rows, and the names of the others."""

    x: Array
    y: NDArray[np.object_]
    names: list[str]
    bad: list[str]


def finite(
    x: Array, y: NDArray[np.object_], numbers: Sequence[int], columns: list[str], path: Path, skip_bad: bool
) -> RowBlock:
    """The rows in which all numbers are finite."""
    names = [f"row {i}" for i in numbers]
    if x.dtype == np.uint8:
        return RowBlock(x, y, names, [])
    bad = np.asarray(~np.isfinite(x).all(axis=1))
    if bad.any() and not skip_bad:
        row = int(np.argmax(bad))
        column = columns[int(np.argmin(np.isfinite(x[row])))]
        raise UserError(
            f"{path} has no finite number in {names[row]}, column {column}: "
            "fill it in or add --skip-bad to leave such rows out."
        )
    return without(x, y, names, bad)


def without(x: Array, y: NDArray[np.object_], names: list[str], bad: NDArray[np.bool_]) -> RowBlock:
    """The rows that are not bad."""
    if not bad.any():
        return RowBlock(x, y, names, [])
    good, left_out = ([name for name, is_bad in zip(names, bad, strict=True) if is_bad == of] for of in (False, True))
    return RowBlock(x[~bad], y[~bad], good, left_out)


def joined(path: Path, blocks: list[RowBlock], columns: tuple[str, ...]) -> UserData:
    """Concatenate blocks of rows, and add remarks."""
    names, bad = ([name for block in blocks for name in getattr(block, of)] for of in ("names", "bad"))
    if not names:
        if bad:
            raise UserError(f"every row of {path} has a feature that is not a finite number: fill them in.")
        raise UserError(f"{path} has no rows: give some.")
    x = blocks[0].x if len(blocks) == 1 else np.concatenate([block.x for block in blocks])
    remarks = rows_left_out(bad)
    if x.ndim == 2 and len(x) > 1 and (constant := np.flatnonzero((x == x[:1]).all(axis=0))).size:
        shown = [f"'{columns[i]}'" if columns else str(i + 1) for i in constant]
        remarks.append(f"{counted(len(shown), 'column is', 'columns are')} constant: {listed(shown)}")
    return UserData(x, np.concatenate([block.y for block in blocks]), tuple(names), tuple(remarks), columns)
