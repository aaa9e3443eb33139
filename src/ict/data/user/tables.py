"""Reads features from tables, CSV or Parquet."""

import importlib
import re
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ict.base.errors import UserError
from ict.base.reading import reading
from ict.data.labels import LABEL_COLUMNS, find_label_column, is_label_column
from ict.data.user.records import Chunk, Items, ReadOptions, Stream, StreamOptions, UserData, label_strings
from ict.data.user.remarks import counted, listed, unlike_the_model
from ict.data.user.rows import Block, finite, joined

ITEMS: Items = "numbers"
CHUNK = 65536  # rows read at a time
MARK = "\0"  # before the label while a CSV is read


def read(path: Path, options: ReadOptions) -> UserData:
    """Read every column except the labels as a feature."""
    if options.labels is not None:
        raise UserError(f"{path} is a table with its own label column: leave out the labels {options.labels}.")
    names = table_columns(path)
    label = _label_column(names, path, options.label_column, options.unlabeled)
    columns = [name for name in names if name not in (label, options.group_column)]
    if not columns:
        raise UserError(f"{path} has only the label column '{label}': add columns with features.")
    return joined(path, list(table_rows(path, columns, label, options.skip_bad)), tuple(columns))


def stream(path: Path, options: StreamOptions) -> Stream:
    names, shape = table_columns(path), options.shape
    if missing := [name for name in options.columns if name not in names]:
        raise UserError(f"{path} lacks columns that the model was fitted to: add {listed(missing)}.")
    if options.columns:
        wanted = list(options.columns)
    else:
        wanted = names if (len(names),) == shape else [name for name in names if name != find_label_column(names)]
    if (len(wanted),) != shape:
        raise unlike_the_model(path, f"{len(wanted)} features", shape)
    remarks = []
    if unknown := [f"'{name}'" for name in names if name not in wanted and not is_label_column(name)]:
        were = counted(
            len(unknown), "column that the model does not use was", "columns that the model does not use were"
        )
        remarks = [f"{were} ignored: {listed(unknown)}"]
    rows = table_rows(path, wanted, None, options.skip_bad, options.chunk)
    return Stream((Chunk(some.x, some.names, some.bad) for some in rows), n_rows(path), remarks)


def table_columns(path: Path) -> list[str]:
    """The names of a table's columns."""
    pandas = _pandas(path)
    with _table(path):
        if _is_parquet(path):
            frame = _parquet(path).schema_arrow.empty_table().to_pandas()
        else:
            frame = pandas.read_csv(path, nrows=0, index_col=False)
        names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise UserError(f"{path} has two columns named '{twice}': rename one of them.")
    return names


def n_rows(path: Path) -> int | None:
    """The number of rows of a table, if its header has it."""
    if not _is_parquet(path):
        return None
    with _table(path):
        return int(_parquet(path).metadata.num_rows)


def table_rows(
    path: Path, columns: list[str], label: str | None, skip_bad: bool, chunk: int = CHUNK
) -> Iterator[Block]:
    """The rows of a table in blocks of `chunk` rows. Labels are unknown without a label column."""
    pandas = _pandas(path)
    for frame, numbers, lines in _numbered(pandas, path, label, skip_bad, chunk):
        wanted = columns if label is None else [*columns, label]
        if missing := [name for name in wanted if name not in frame]:
            raise UserError(f"{path} has no column {listed(missing)} in some of its rows: save it again.")
        with _table(path), np.errstate(over="ignore"):  # numbers too large for float32 become infinite: bad rows
            x = np.stack([_numbers(pandas, frame[name], numbers, path, skip_bad) for name in columns], axis=1)
        y = label_strings(_as_written(frame, label))
        rows = finite(x, y, numbers, [f"'{name}'" for name in columns], path, skip_bad)
        bad = [*rows.bad, *(f"row {i}" for i in lines)]
        yield replace(rows, bad=sorted(bad, key=lambda name: int(name.removeprefix("row "))))


def row_groups(path: Path, column: str, names: tuple[str, ...]) -> NDArray[np.object_]:
    """The values of a column as text for the rows with these names; a row without a value is a group of its own."""
    columns = table_columns(path)
    if column not in columns:
        raise UserError(f"{path} has no column '{column}': name the one with the groups by group_column, of {columns}.")
    values: dict[str, Any] = {}
    for frame, numbers, _ in _numbered(_pandas(path), path, column, True, CHUNK):
        values |= zip((f"row {i}" for i in numbers), _as_written(frame, column), strict=True)
    groups = np.empty(len(names), dtype=object)
    groups[:] = [(name,) if values[name] is None else str(values[name]) for name in names]
    return groups


def text_blocks(
    path: Path, column: str | None, label: str | None, skip_bad: bool, chunk: int = CHUNK
) -> Iterator[tuple[list[str], list[Any], list[str], list[str]]]:
    """Texts, labels, names and the names of rows without a text, in blocks of `chunk` rows.

    Without `label`, a column with one of the usual names is used; if there is none, labels are unknown.
    """
    names = table_columns(path)
    if column not in names:
        raise UserError(f"{path} has no column '{column}': name the one with the texts by text_column, of {names}.")
    if label is not None and label not in names:
        raise UserError(f"{path} has no column '{label}': name the one with the labels by label_column, of {names}.")
    label = label or find_label_column([name for name in names if name != column])
    for frame, numbers, lines in _numbered(_pandas(path), path, label, skip_bad, chunk):
        texts = frame[column].astype(object)
        present = texts.notna().to_numpy(bool)
        bad = [f"row {i}" for i, there in zip(numbers, present, strict=True) if not there]
        if bad and not skip_bad:
            raise UserError(f"{path} has no text in {bad[0]}: fill it in or set skip_bad to leave such rows out.")
        labels = _as_written(frame, label)
        yield (
            [str(text) for text in texts[present]],
            [value for value, there in zip(labels, present, strict=True) if there],
            [f"row {i}" for i, there in zip(numbers, present, strict=True) if there],
            [*bad, *(f"row {i}" for i in lines)],
        )


def _numbered(
    pandas: Any, path: Path, label: str | None, skip_bad: bool, chunk: int
) -> Iterator[tuple[Any, list[int], list[int]]]:
    """Tables of `chunk` rows, the row numbers in the file, and the numbers of rows with too many cells."""
    too_wide, number, reported = set[int](), 0, 0
    for frame in _frames(pandas, path, label, skip_bad, chunk, too_wide):
        numbers = []
        for _ in range(len(frame)):
            number += 1
            while number in too_wide:  # so that a row keeps its number in the file
                number += 1
            numbers.append(number)
        lines, reported = sorted(too_wide)[reported:], len(too_wide)
        yield frame, numbers, lines


def _as_written(frame: Any, label: str | None) -> list[Any]:
    """The labels of a table's rows, None where missing."""
    if label is None:
        return [None] * len(frame)
    values = frame[label].astype(object)
    return [text.removeprefix(MARK) if isinstance(text, str) else text for text in values.where(values.notna(), None)]


def _pandas(path: Path) -> Any:
    try:
        return importlib.import_module("pandas")
    except ImportError:
        raise UserError(f"reading {path} needs pandas: install it with `pip install pandas`.") from None


def _parquet(path: Path) -> Any:
    try:
        return importlib.import_module("pyarrow.parquet").ParquetFile(path)
    except ImportError:
        raise UserError(f"reading {path} needs pyarrow: install it with `pip install pyarrow`.") from None


def _frames(
    pandas: Any, path: Path, label: str | None, skip_bad: bool, chunk: int, too_wide: set[int]
) -> Iterator[Any]:
    """Tables of `chunk` rows. Rows with too many cells are left out, and their numbers are added to `too_wide`."""
    if _is_parquet(path):
        with _table(path):
            for batch in _parquet(path).iter_batches(chunk):
                yield batch.to_pandas().rename(columns=str)
        return
    with _table(path):
        # Labels such as NA and 01 stay unchanged: pandas would read NA as missing, even after a converter.
        options = {"converters": {label: MARK.__add__}} if label is not None else {}
        wide = "warn" if skip_bad else "error"
        reader = pandas.read_csv(path, index_col=False, low_memory=False, chunksize=chunk, on_bad_lines=wide, **options)
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


def _table(path: Path) -> AbstractContextManager[None]:
    return reading(path, "a table", "repair it or save it again")


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


def _label_column(columns: list[str], path: Path, wanted: str | None, may_lack: bool) -> str | None:
    found = find_label_column(columns) if wanted is None else wanted
    if found is None and may_lack:
        return None
    if found is None or found not in columns:
        what = " or ".join(LABEL_COLUMNS) if wanted is None else f"'{wanted}'"
        raise UserError(f"{path} has no column {what}: name the one with the labels by label_column, of {columns}.")
    return found


def _numbers(pandas: Any, column: Any, rows: list[int], path: Path, skip_bad: bool) -> NDArray[np.float32]:
    """A column as numbers. Other cells are an error, or count as missing if bad rows are skipped."""
    kinds = pandas.api.types
    if len(column) and (not kinds.is_numeric_dtype(column) or kinds.is_complex_dtype(column)):
        numbers = pandas.to_numeric(column.astype(str).where(column.notna()), errors="coerce")
        if not skip_bad or not numbers.notna().any():
            texts = np.flatnonzero(numbers.isna() & column.notna())
            example = f", such as '{column.iloc[texts[0]]}' in row {rows[texts[0]]}" if texts.size else ""
            raise UserError(f"{path} has the column '{column.name}' that is not numeric{example}: encode or remove it.")
        column = numbers
    numeric: NDArray[np.float32] = column.to_numpy(np.float32, na_value=np.nan)
    return numeric
