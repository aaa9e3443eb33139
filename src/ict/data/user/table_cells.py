"""The cells of a table as they are written: what a person sees of a row, and the digest by which it is known again.

A digest of the features would not do: what they are is learned from all rows, so that one more row would change all.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ict.base.errors import UserError
from ict.data.columns.frames import pandas_for
from ict.data.labels import find_label_column
from ict.data.user.records import digest, label_strings
from ict.data.user.table_file import Cells, check_size, pieces, table_columns

_BETWEEN = "\0"  # which no cell has


@dataclass(frozen=True)
class TableCells:
    """All rows of a table but those with too many cells: their names, labels and other columns."""

    names: tuple[str, ...]
    labels: "NDArray[Any]"  # None where unknown
    columns: tuple[str, ...]
    frame: Any

    def row(self, place: int) -> list[tuple[str, str]]:
        """The columns and cells of a row; a missing cell is blank."""
        values = ((name, self.frame[name].iat[place]) for name in self.columns)
        return [(name, "" if value is None or value != value else str(value)) for name, value in values]

    def digest(self, place: int) -> str:
        """Of the columns and cells of a row without its label, which a person may fill in."""
        cells = (part for cell in self.row(place) for part in cell)
        return digest(_BETWEEN.join(cells).encode("utf-8", "surrogatepass"))

    def digests(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the rows with these names."""
        place = {name: i for i, name in enumerate(self.names)}
        return tuple(self.digest(place[name]) for name in names)


def table_cells(path: Path, label: str | None = None) -> TableCells:
    """The cells of a table. Without `label`, the column of labels has one of the usual names, if there is one."""
    check_size(path)
    columns = table_columns(path)
    if label is not None and label not in columns:
        raise UserError(f"{path} has no column '{label}': name the one with the labels by label_column, of {columns}.")
    label = label or find_label_column(columns)
    rest = [name for name in columns if name != label]
    found = list(pieces(path, Cells(label, words=rest), skip_bad=True, wanted=rest))
    frame = pandas_for(path).concat([piece.frame for piece in found], ignore_index=True)
    if not len(frame):
        raise UserError(f"{path} has no rows: give one for each example.")
    labels = label_strings(value for piece in found for value in piece.as_written(label))
    names = tuple(f"row {i}" for piece in found for i in piece.numbers)
    return TableCells(names, labels, tuple(rest), frame[rest])
