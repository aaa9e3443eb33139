"""Features or images from NumPy files, and features from tables."""

import csv
import importlib
import io
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ict.base.errors import UserError
from ict.data.array_inputs import has_channels_last
from ict.data.labels import LABEL_COLUMNS, find_label_column, is_label_column
from ict.data.user.read import OwnData, counted, label_texts, listed, rows_left_out, text_of

X_NAMES = ("x", "X", "images", "features", "data")
Y_NAMES = ("y", "labels", "targets")
CHUNK = 65536  # rows of a table read at a time
_ARRAY, _ARCHIVE = b"\x93NUMPY", b"PK"  # how files begin
MARK = "\0"  # before the label while a CSV is read


@dataclass(frozen=True)
class Rows:
    """Rows that can be used, and the names of those that cannot."""

    x: NDArray[Any]
    y: NDArray[np.object_]
    names: list[str]
    bad: list[str]


def read_arrays(path: Path, labels: Path | None, skip_bad: bool) -> OwnData:
    """A .npz with x and perhaps y, or a .npy with x; a .npy of float32 or uint8 stays on disk, memory-mapped."""
    raw, known = load_arrays(path)
    if known is not None and labels is not None:
        raise UserError(f"{path} holds labels itself: leave out {labels}, or remove the labels from {path}.")
    if labels is not None:
        y = _label_file(labels, len(raw))
    elif known is not None:
        y = _label_array(known, path)
    else:
        y = label_texts([None] * len(raw))
    if len(y) != len(raw):
        raise UserError(
            f"{labels or path} has {len(y)} labels for the {len(raw)} rows of {path}: give one label a row."
        )
    return _own(path, [array_rows(raw, y, 0, path, skip_bad)], ())


def load_arrays(path: Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """The inputs as they are in the file, and labels if there are any."""
    arrays = _load(path)
    raw = next((arrays[name] for name in X_NAMES if name in arrays), None)
    if raw is None:
        with np.load(path, allow_pickle=False) as archive:
            has = listed(archive.files) or "nothing"
        raise UserError(f"{path} has no array named {' or '.join(X_NAMES)} but {has}: rename the array of inputs.")
    return raw, next((arrays[name] for name in Y_NAMES if name in arrays), None)


def array_rows(raw: NDArray[Any], y: NDArray[np.object_], start: int, path: Path, skip_bad: bool) -> Rows:
    """Rows from number `start` of an array on."""
    x = _inputs(raw, path)
    numbers = range(start + 1, start + 1 + len(x))
    return _finite(x, y, numbers, [str(i + 1) for i in range(x.shape[1])], path, skip_bad)


def read_table(path: Path, label_column: str | None, skip_bad: bool) -> OwnData:
    """Every column but the label's as a feature."""
    names = table_columns(path)
    label = _label_column(names, path, label_column)
    columns = [name for name in names if name != label]
    if not columns:
        raise UserError(f"{path} has only the label column '{label}': add columns with features.")
    return _own(path, list(table_rows(path, columns, label, skip_bad)), tuple(columns))


def table_columns(path: Path) -> list[str]:
    """The names of a table's columns."""
    pandas = _pandas(path)
    with _readable(path, pandas):
        if path.suffix.lower() == ".parquet":
            frame = _parquet(path).schema_arrow.empty_table().to_pandas()
        else:
            frame = pandas.read_csv(path, nrows=0, index_col=False)
        return [str(name) for name in frame.columns]


def n_rows(path: Path) -> int | None:
    """How many rows a table has, if it says so itself."""
    if path.suffix.lower() != ".parquet":
        return None
    return int(_parquet(path).metadata.num_rows)


def table_rows(path: Path, columns: list[str], label: str | None, skip_bad: bool, chunk: int = CHUNK) -> Iterator[Rows]:
    """The rows of a table, so many at a time; labels are unknown without a label column."""
    pandas, too_wide, number, told = _pandas(path), set[int](), 0, 0
    for frame in _frames(pandas, path, label, skip_bad, chunk, too_wide):
        numbers = []
        for _ in range(len(frame)):
            number += 1
            while number in too_wide:  # so that a row keeps its number in the file
                number += 1
            numbers.append(number)
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite and counts as bad
            x = np.stack([_numbers(pandas, frame[name], numbers, path, skip_bad) for name in columns], axis=1)
        y: list[Any] = [None] * len(frame)
        if label is not None:
            values = frame[label].astype(object)
            y = [
                text.removeprefix(MARK) if isinstance(text, str) else text
                for text in values.where(values.notna(), None)
            ]
        rows = _finite(x, label_texts(y), numbers, [f"'{name}'" for name in columns], path, skip_bad)
        lines, told = sorted(too_wide)[told:], len(too_wide)
        bad = [*rows.bad, *(f"row {i}" for i in lines)]
        yield replace(rows, bad=sorted(bad, key=lambda name: int(name.removeprefix("row "))))


def _finite(
    x: NDArray[Any], y: NDArray[np.object_], numbers: Sequence[int], columns: list[str], path: Path, skip_bad: bool
) -> Rows:
    """Rows without those that hold something other than finite numbers."""
    names = [f"row {i}" for i in numbers]
    if x.dtype == np.uint8:
        return Rows(x, y, names, [])
    bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if not bad.size:
        return Rows(x, y, names, [])
    if not skip_bad:
        column = columns[int(np.flatnonzero(~np.isfinite(x[bad[0]]))[0])]
        raise UserError(
            f"{path} has no finite number in {names[bad[0]]}, column {column}: "
            "fill it in or set skip_bad to leave such rows out."
        )
    left = set(bad.tolist())
    kept = [name for i, name in enumerate(names) if i not in left]
    return Rows(np.delete(x, bad, axis=0), np.delete(y, bad), kept, [names[i] for i in bad])


def _own(path: Path, parts: list[Rows], columns: tuple[str, ...]) -> OwnData:
    """All rows as one, with remarks."""
    names, bad = ([name for part in parts for name in getattr(part, of)] for of in ("names", "bad"))
    if not names:
        if bad:
            raise UserError(f"every row of {path} has a feature that is not a finite number: fill them in.")
        raise UserError(f"{path} has no rows: give one for each example.")
    x = parts[0].x if len(parts) == 1 else np.concatenate([part.x for part in parts])
    remarks = rows_left_out(bad)
    if x.ndim == 2 and len(x) > 1 and (constant := np.flatnonzero((x == x[:1]).all(axis=0))).size:
        shown = [f"'{columns[i]}'" if columns else str(i + 1) for i in constant]
        remarks.append(f"{counted(len(shown), 'column is', 'columns are')} constant: {listed(shown)}")
    return OwnData(x, np.concatenate([part.y for part in parts]), tuple(names), tuple(remarks), columns)


def _load(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file that have a use, by name. Nothing is ever unpickled: that could run any code."""
    try:
        with path.open("rb") as file:
            if not file.read(len(_ARRAY)).startswith((_ARRAY, _ARCHIVE)):  # numpy takes anything else for a pickle
                raise EOFError
        if path.suffix.lower() == ".npy":
            loaded = np.load(path, mmap_mode="r", allow_pickle=False)
            if not isinstance(loaded, np.ndarray):
                raise ValueError
            return {"x": loaded}
        # opened here: numpy forgets to close a file that turns out to be damaged
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files if name in X_NAMES + Y_NAMES}
    except (OSError, ValueError, EOFError, KeyError, TypeError, zipfile.BadZipFile, zlib.error, MemoryError) as error:
        # as in "Object arrays cannot be loaded" and "Python objects in dtype"
        if isinstance(error, ValueError) and "bject" in str(error):
            raise UserError(
                f"{path} holds Python objects, which are not read because they can run code: "
                "save arrays of numbers or texts."
            ) from None
        raise UserError(f"{path} is damaged or not a NumPy file: save it again with numpy.save or savez.") from None


def _inputs(raw: NDArray[Any], path: Path) -> NDArray[Any]:
    if raw.dtype.kind not in "buif" or raw.ndim not in (2, 3, 4) or 0 in raw.shape:
        raise UserError(
            f"{path} has inputs of {raw.dtype} {raw.shape}: give numbers as [n, features], [n, h, w] or [n, h, w, 3]."
        )
    if raw.ndim == 2:
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite and is refused later
            return raw.astype(np.float32, copy=False)
    if raw.ndim == 4:
        if not has_channels_last(raw.shape):
            raw = raw.transpose(0, 2, 3, 1)
        if raw.shape[3] not in (1, 3):
            raise UserError(f"{path} has images of shape {raw.shape}: give one channel (gray) or three (RGB).")
        raw = raw[..., 0] if raw.shape[3] == 1 else raw
    if raw.dtype == np.uint8:
        return raw
    with np.errstate(invalid="ignore"):
        pixels = raw.astype(np.uint8)
    if not np.array_equal(pixels, raw):
        raise UserError(f"{path} has pixels that are not whole numbers from 0 to 255: scale and round them to uint8.")
    return pixels


def _label_array(raw: NDArray[Any], path: Path) -> NDArray[np.object_]:
    if raw.dtype.kind not in "buifUS" or raw.ndim not in (1, 2) or (raw.ndim == 2 and raw.shape[1] != 1):
        raise UserError(f"{path} has labels of {raw.dtype} {raw.shape}: give one number or text for each example.")
    return label_texts(raw.ravel().tolist())


def _label_file(path: Path, n: int) -> NDArray[np.object_]:
    """A .npy, or one label a line, where a blank line is an unknown label."""
    if path.suffix.lower() == ".npy":
        return _label_array(_load(path)["x"], path)
    text = text_of(path)
    if path.suffix.lower() == ".csv":
        rows = csv_rows(path, text)
        wide = next((i for i, row in enumerate(rows) if len(row) > 1), None)
        if wide is not None:
            raise UserError(f"{path} has {len(rows[wide])} columns in line {wide + 1}: give one label a line.")
        lines = ["".join(row) for row in rows]
    else:
        lines = text.removesuffix("\n").split("\n")
    if len(lines) == n + 1 and is_label_column(lines[0]):
        lines = lines[1:]  # a header
    return label_texts(lines)


def csv_rows(path: Path, text: str) -> list[list[str]]:
    """The cells of each line, none for a blank one."""
    try:
        return list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise UserError(f"{path} is not a readable CSV file ({error}): mend it or save it again.") from None


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
    """Tables of so many rows each; the numbers of rows with too many cells go into `too_wide` and into no table."""
    if path.suffix.lower() == ".parquet":
        with _readable(path, pandas):
            for batch in _parquet(path).iter_batches(chunk):
                yield batch.to_pandas().rename(columns=str)
        return
    with _readable(path, pandas):
        # Labels such as NA and 01 stay as they are written: pandas would take NA for missing, even after a converter.
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
                for said in (str(warning.message) for warning in caught):
                    lines = re.findall(r"Skipping line (\d+)", said)
                    if not lines:  # such as a first row that is too wide: it would lose a cell in silence
                        raise ValueError(said)
                    too_wide |= {int(line) - 1 for line in lines}  # less the header
                more = following is not None
                frame = following if more else frame.iloc[:0]  # so that the last lines that are too wide are told
                yield frame


@contextmanager
def _readable(path: Path, pandas: Any) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except (OSError, ValueError, NotImplementedError, pandas.errors.ParserWarning) as error:
        reason = str(error).strip().split("\n")[0].rstrip(".")
        raise UserError(f"{path} cannot be read as a table ({reason}): mend it or save it again.") from None


def _label_column(columns: list[str], path: Path, wanted: str | None) -> str:
    found = find_label_column(columns) if wanted is None else wanted
    if found is None or found not in columns:
        what = " or ".join(LABEL_COLUMNS) if wanted is None else f"'{wanted}'"
        raise UserError(f"{path} has no column {what}: name the one with the labels by label_column, of {columns}.")
    return found


def _numbers(pandas: Any, column: Any, rows: list[int], path: Path, skip_bad: bool) -> NDArray[np.float32]:
    """A column as numbers; other cells make the column an error, or are missing where bad rows are left out."""
    kinds = pandas.api.types
    if len(column) and (not kinds.is_numeric_dtype(column) or kinds.is_complex_dtype(column)):
        numbers = pandas.to_numeric(column.astype(str).where(column.notna()), errors="coerce")
        if not skip_bad or not numbers.notna().any():
            texts = np.flatnonzero(numbers.isna() & column.notna())
            example = f", such as '{column.iloc[texts[0]]}' in row {rows[texts[0]]}" if texts.size else ""
            raise UserError(f"{path} has the column '{column.name}' that is not numeric{example}: encode or remove it.")
        column = numbers
    found: NDArray[np.float32] = column.to_numpy(np.float32, na_value=np.nan)
    return found
