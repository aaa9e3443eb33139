"""Features or images from NumPy files, and features from tables."""

import csv
import importlib
import io
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ict.data.own import OwnData, counted, label_texts, listed, no_labels, text_of
from ict.errors import UserError

X_NAMES = ("x", "X", "images", "features", "data")
Y_NAMES = ("y", "labels", "targets")
LABEL_COLUMNS = ("label", "class", "target", "y")  # the first of these that a table has


def read_arrays(path: Path, labels: Path | None, skip_bad: bool) -> OwnData:
    """A .npz with x and perhaps y, or a .npy with x; a .npy of float32 or uint8 stays on disk, memory-mapped."""
    arrays = _load(path)
    raw = next((arrays[name] for name in X_NAMES if name in arrays), None)
    if raw is None:
        has = ", ".join(arrays) or "nothing"
        raise UserError(f"{path} has no array named {' or '.join(X_NAMES)} but {has}: rename the array of inputs.")
    known = next((arrays[name] for name in Y_NAMES if name in arrays), None)
    if known is not None and labels is not None:
        raise UserError(f"{path} holds labels itself: leave out {labels}, or remove the labels from {path}.")
    x = _inputs(raw, path)
    if labels is not None:
        y = _label_file(labels, len(x))
    elif known is not None:
        y = _label_array(known, path)
    else:
        y = label_texts([None] * len(x))
    if len(y) != len(x):
        raise UserError(f"{labels or path} has {len(y)} labels for the {len(x)} rows of {path}: give one label a row.")
    bad = np.empty(0, np.int64)
    if x.dtype != np.uint8:
        bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
        if bad.size and not skip_bad:
            column = int(np.flatnonzero(~np.isfinite(x[bad[0]]))[0])
            raise UserError(
                f"{path} has {x[bad[0], column]} in row {bad[0] + 1}, column {column + 1} of the features: "
                "fill it in or set skip_bad to leave such rows out."
            )
    return _own(path, x, y, bad, [])


def read_table(path: Path, label_column: str | None, skip_bad: bool) -> OwnData:
    """Every column but the label's as a feature."""
    pandas = _pandas(path)
    frame, label = _frame(pandas, path, label_column)
    if not len(frame):
        raise UserError(f"{path} has no rows: give one for each example.")
    features = frame.drop(columns=[label])
    if not len(features.columns):
        raise UserError(f"{path} has only the label column '{label}': add columns with features.")
    for name in features.columns:
        _check_numeric(pandas, features[name], path)
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite and counts as bad
        x = np.stack([c.to_numpy(np.float32, na_value=np.nan) for _, c in features.items()], axis=1)
    bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if bad.size and not skip_bad:
        column = features.columns[int(np.flatnonzero(~np.isfinite(x[bad[0]]))[0])]
        raise UserError(
            f"{path} has no finite number in row {bad[0] + 1}, column '{column}': "
            "fill it in or set skip_bad to leave such rows out."
        )
    values = frame[label].astype(object)
    y = label_texts(values.where(values.notna(), None))
    good = np.delete(x, bad, axis=0)
    constant = (
        [f"'{features.columns[i]}'" for i in np.flatnonzero((good == good[:1]).all(axis=0))] if len(good) > 1 else []
    )
    remarks = []
    if constant:
        remarks.append(f"{counted(len(constant), 'column is', 'columns are')} constant: {', '.join(constant)}")
    return _own(path, x, y, bad, remarks)


def _own(path: Path, x: NDArray[Any], y: NDArray[np.object_], bad: NDArray[np.int64], remarks: list[str]) -> OwnData:
    """The rows that are not bad, under the numbers they have in the file."""
    names = [f"row {i + 1}" for i in range(len(x))]
    if bad.size:
        if bad.size == len(x):
            raise UserError(f"every row of {path} has a feature that is not a finite number: fill them in.")
        rows = listed([names[i] for i in bad])
        left = f"{counted(bad.size, 'row was', 'rows were')} left out for lack of a finite number: {rows}"
        remarks = [left, *remarks]
        x, y = np.delete(x, bad, axis=0), np.delete(y, bad)
        left_out = set(bad.tolist())
        names = [name for i, name in enumerate(names) if i not in left_out]
    return OwnData(x, y, tuple(names), (*remarks, *no_labels(y)))


def _load(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file by name. Nothing is ever unpickled: that could run any code."""
    try:
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
        if raw.shape[3] not in (1, 3) and raw.shape[1] in (1, 3):
            raw = raw.transpose(0, 2, 3, 1)  # channels first, as torch has them
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
    if len(lines) == n + 1 and lines[0].strip().casefold() in LABEL_COLUMNS:
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


def _frame(pandas: Any, path: Path, label_column: str | None) -> tuple[Any, str]:
    """The table and the name of its label column."""
    try:
        if path.suffix.lower() == ".parquet":
            frame = pandas.read_parquet(path)
            frame.columns = [str(name) for name in frame.columns]
            return frame, _label_column(list(frame.columns), path, label_column)
        label = _label_column(list(pandas.read_csv(path, nrows=0, index_col=False).columns), path, label_column)
        with warnings.catch_warnings():
            # Without these, a line with too many cells would shift the columns or lose a cell in silence.
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            # A converter keeps labels such as NA and 01 as they are written.
            return pandas.read_csv(path, index_col=False, low_memory=False, converters={label: str}), label
    except UserError:
        raise
    except ImportError:
        raise UserError(f"reading {path} needs pyarrow: install it with `pip install pyarrow`.") from None
    except (OSError, ValueError, pandas.errors.ParserWarning) as error:
        reason = str(error).strip().split("\n")[0].rstrip(".")
        raise UserError(f"{path} cannot be read as a table ({reason}): mend it or save it again.") from None


def _label_column(columns: list[str], path: Path, wanted: str | None) -> str:
    if wanted is None:
        by_name = {name.strip().casefold(): name for name in reversed(columns)}
        found = next((by_name[name] for name in LABEL_COLUMNS if name in by_name), None)
    else:
        found = wanted if wanted in columns else None
    if found is None:
        what = f"'{wanted}'" if wanted is not None else "label, class, target or y"
        raise UserError(f"{path} has no column {what}: name the one with the labels by label_column, of {columns}.")
    return found


def _check_numeric(pandas: Any, column: Any, path: Path) -> None:
    if pandas.api.types.is_numeric_dtype(column) and not pandas.api.types.is_complex_dtype(column):
        return
    numbers = pandas.to_numeric(column.astype(str).where(column.notna()), errors="coerce")
    texts = np.flatnonzero(numbers.isna() & column.notna())
    example = f", such as '{column.iloc[texts[0]]}' in row {texts[0] + 1}" if texts.size else ""
    raise UserError(f"{path} has the column '{column.name}' that is not numeric{example}: encode or remove it.")
