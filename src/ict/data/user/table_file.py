"""Reads a CSV or Parquet file as data frames of some rows each, with the numbers of the rows in the file."""

import importlib
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ict.base.errors import UserError
from ict.base.reading import check_unpacked, reading
from ict.data.columns.cells import GAPS
from ict.data.columns.frames import check_names, pandas_for
from ict.data.user.remarks import listed

CHUNK = 65536  # rows read at a time
_MARK = "\0"  # before the label while a CSV is read
_CELL = 4  # bytes of a number in memory
_SAMPLE = 65536  # characters of a CSV that show how it is written


@dataclass(frozen=True)
class Cells:
    """How the cells of a CSV are read: with a type for each column if it is known, otherwise with pandas' guess.

    Labels and words stay as they are written: NA may be Namibia and 01 a code.
    """

    label: str | None = None
    words: Collection[str] = ()
    numbers: Collection[str] = ()

    @property
    def options(self) -> dict[str, Any]:
        # pandas would read NA as missing even after a converter, if the converter returned it unchanged
        found: dict[str, Any] = {"converters": {self.label: _MARK.__add__}} if self.label is not None else {}
        if self.words:
            found |= {"dtype": dict.fromkeys(self.words, object), "keep_default_na": False}
            found["na_values"] = {name: [*GAPS] for name in self.numbers}
        return found


@dataclass(frozen=True)
class Piece:
    """Some rows of a table, their numbers in the file, and the numbers of rows with too many cells."""

    frame: Any
    numbers: list[int]
    too_wide: list[int]

    def as_written(self, label: str | None) -> list[Any]:
        """The labels of the rows, None where missing."""
        if label is None:
            return [None] * len(self.frame)
        values = self.frame[label].astype(object)
        values = values.where(values.notna(), None)
        return [text.removeprefix(_MARK) if isinstance(text, str) else text for text in values]


def table_columns(path: Path) -> list[str]:
    """The names of a table's columns."""
    pandas = pandas_for(path)
    with _table(path):
        if is_parquet(path):
            frame = _parquet(path).schema_arrow.empty_table().to_pandas()
        else:
            frame = pandas.read_csv(path, nrows=0, index_col=False, **_written(path))
        names = [str(name) for name in frame.columns]
    check_names(names, path)
    return names


def n_rows(path: Path) -> int | None:
    """The number of rows of a table, if its header has it."""
    if not is_parquet(path):
        return None
    with _table(path):
        return int(_parquet(path).metadata.num_rows)


def check_size(path: Path) -> None:
    """A UserError if a table that is read at once claims far more cells than its file could hold uncompressed."""
    if is_parquet(path):
        with _table(path):
            about = _parquet(path).metadata
        check_unpacked(path, _CELL * about.num_rows * about.num_columns, "save it as a .csv")


def is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


def pieces(path: Path, cells: Cells, skip_bad: bool, chunk: int = CHUNK, wanted: Sequence[str] = ()) -> Iterator[Piece]:
    """The rows of a table in pieces of `chunk` rows, each with the `wanted` columns and the labels."""
    wanted = wanted if cells.label is None else [*wanted, cells.label]
    too_wide, number, reported = set[int](), 0, 0
    for frame in _frames(path, cells, skip_bad, chunk, too_wide):
        if missing := [name for name in wanted if name not in frame]:
            raise UserError(f"{path} has no column {listed(missing)} in some of its rows: save it again.")
        numbers = []
        for _ in range(len(frame)):
            number += 1
            while number in too_wide:  # so that a row keeps its number in the file
                number += 1
            numbers.append(number)
        yield Piece(frame, numbers, sorted(too_wide)[reported:])
        reported = len(too_wide)


def _frames(path: Path, cells: Cells, skip_bad: bool, chunk: int, too_wide: set[int]) -> Iterator[Any]:
    """Tables of `chunk` rows. Rows with too many cells are left out, and their numbers are added to `too_wide`."""
    pandas = pandas_for(path)
    if is_parquet(path):
        with _table(path):
            for batch in _parquet(path).iter_batches(chunk):
                yield batch.to_pandas().rename(columns=str)
        return
    with _table(path):
        wide = "warn" if skip_bad else "error"
        options = {"index_col": False, "low_memory": False, "chunksize": chunk, "on_bad_lines": wide} | cells.options
        reader = pandas.read_csv(path, **options, **_written(path))
        with reader:
            frame: Any = None
            more = True
            while more:
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    following = next(reader, None)
                for message in (str(warning.message) for warning in caught):
                    lines = re.findall(r"Skipping line (\d+)", message)
                    if not lines:  # such as a first row with too many cells: it would silently lose one
                        raise ValueError(message)
                    too_wide |= {int(line) - 1 for line in lines}  # without the header
                more = following is not None
                frame = following if more else frame.iloc[:0]  # so that the last skipped lines are reported
                yield frame


def _written(path: Path) -> dict[str, str]:
    """How a CSV separates cells, by its header, and decimals: some spreadsheets write semicolons and commas."""
    with path.open(encoding="utf-8", errors="replace") as file:
        sample = file.read(_SAMPLE)
    header, _, rows = re.sub(r'"[^"]*"', "", sample).partition("\n")
    separator = max(",;\t", key=header.count)
    points = re.search(rf"(?:^|[{separator}])-?\d+\.\d+(?:[{separator}\n]|$)", rows, re.MULTILINE)
    return {"sep": separator, "decimal": "," if separator == ";" and not points else "."}


def _parquet(path: Path) -> Any:
    try:
        return importlib.import_module("pyarrow.parquet").ParquetFile(path)
    except ImportError:
        raise UserError(f"reading {path} needs pyarrow: install it with `pip install pyarrow`.") from None


def _table(path: Path) -> AbstractContextManager[None]:
    return reading(path, "a table", "repair it or save it again, a CSV in UTF-8")
