"""Reads features or images from NumPy files."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ict.base.array_types import Array
from ict.base.errors import UserError
from ict.base.reading import reading
from ict.data.array_inputs import has_channels_last
from ict.data.labels import is_label_column
from ict.data.numpy_file import load_npy, load_npz
from ict.data.user.records import ANY, Chunk, Items, ReadOptions, Stream, StreamOptions, UserData, label_strings
from ict.data.user.remarks import listed, unlabeled_rows, unlike_the_model
from ict.data.user.rows import RowBlock, finite, joined
from ict.data.user.text_files import csv_rows, text_of

ITEMS: Items = "numbers"
X_NAMES = ("x", "X", "images", "features", "data")
Y_NAMES = ("y", "labels", "targets")


def read(path: Path, options: ReadOptions) -> UserData:
    """Read a .npz with x and optionally y, or a .npy with x. A .npy of float32 or uint8 is memory-mapped."""
    labels = options.labels
    if options.label_column is not None:
        raise UserError(f"--label-column {options.label_column} needs a table, but {path} holds arrays: leave it out.")
    raw, known = _inputs_and_labels(path)
    if known is not None and labels is not None:
        raise UserError(f"{path} already contains labels: leave out {labels}, or remove the labels from {path}.")
    if labels is not None:
        given = _label_file(labels, len(raw))
    elif known is not None:
        given = _label_array(known, path)
    else:
        given = [None] * len(raw)
    y = label_strings(given)
    if len(y) != len(raw):
        raise UserError(
            f"{labels or path} has {len(y)} labels for the {len(raw)} rows of {path}: give one label a row."
        )
    data = joined(path, [_block(raw, y, 0, path, options.skip_bad)], ())
    return replace(data, remarks=(*data.remarks, *unlabeled_rows(given)))


def stream(path: Path, options: StreamOptions) -> Stream:
    raw, _ = _inputs_and_labels(path)
    size, shape = options.chunk, options.shape

    def chunks() -> Iterator[Chunk]:
        for start in range(0, max(len(raw), 1), size):  # one chunk even if there are no rows, for the same error as fit
            some = raw[start : start + size]
            rows = _block(some, label_strings([None] * len(some)), start, path, options.skip_bad, options.pixels)
            x = rows.x
            if x.ndim == 3 and len(shape) == 3:
                x = np.repeat(x[..., None], shape[-1], axis=3)  # gray images for a model of colored ones
            if shape != ANY and x.shape[1:] != shape:
                raise unlike_the_model(path, f"examples of the shape {x.shape[1:]}", shape)
            yield Chunk(x, rows.names, rows.bad)

    return Stream(chunks(), len(raw), [])


def _inputs_and_labels(path: Path) -> tuple[Array, Array | None]:
    """The inputs unchanged, and the labels if there are any."""
    if path.suffix.lower() == ".npy":
        arrays, names = {"x": load_npy(path)}, ["x"]
    else:
        arrays, names = load_npz(path, X_NAMES + Y_NAMES)
    raw = next((arrays[name] for name in X_NAMES if name in arrays), None)
    if raw is None:
        has = listed(names) or "nothing"
        raise UserError(f"{path} has no array named {' or '.join(X_NAMES)} but {has}: rename the array of inputs.")
    if raw.dtype.kind not in "buif" or raw.ndim not in (2, 3, 4) or 0 in raw.shape:
        raise UserError(
            f"{path} has inputs of {raw.dtype!s:.60} {raw.shape}: "
            "give numbers as [n, features], [n, h, w] or [n, h, w, 3]."
        )
    return raw, next((arrays[name] for name in Y_NAMES if name in arrays), None)


def _block(raw: Array, y: NDArray[np.object_], start: int, path: Path, skip_bad: bool, pixels: bool = True) -> RowBlock:
    """The rows of an array from row `start` on. `pixels`: those of images are whole numbers from 0 to 255."""
    x = _pixels_or_features(raw, path, pixels)
    numbers = range(start + 1, start + 1 + len(x))
    return finite(x, y, numbers, [str(i + 1) for i in range(x.shape[1])], path, skip_bad)


def _pixels_or_features(raw: Array, path: Path, pixels: bool) -> Array:
    if raw.ndim == 2:
        with np.errstate(over="ignore"):  # numbers too large for float32 become infinite, an error later
            return raw.astype(np.float32, copy=False)
    if raw.ndim == 4:
        if not has_channels_last(raw.shape):
            raw = raw.transpose(0, 2, 3, 1)
        if raw.shape[3] not in (1, 3):
            raise UserError(f"{path} has images of shape {raw.shape}: give one channel (gray) or three (RGB).")
        raw = raw[..., 0] if raw.shape[3] == 1 else raw
    if raw.dtype == np.uint8:
        return raw
    if not pixels:
        with np.errstate(over="ignore"):
            return raw.astype(np.float32, copy=False)
    with np.errstate(invalid="ignore"):
        whole = raw.astype(np.uint8)
    if not np.array_equal(whole, raw):
        raise UserError(f"{path} has pixels that are not whole numbers from 0 to 255: scale and round them to uint8.")
    return whole


def _label_array(raw: Array, path: Path) -> list[Any]:
    if raw.dtype.kind not in "buifUS" or raw.ndim not in (1, 2) or (raw.ndim == 2 and raw.shape[1] != 1):
        raise UserError(
            f"{path} has labels of {raw.dtype!s:.60} {raw.shape}: give one number or string for each example."
        )
    with reading(path, "labels"):  # a damaged string need not be one
        labels: list[Any] = raw.ravel().tolist()
    return labels


def _label_file(path: Path, n: int) -> list[Any]:
    """Labels from a .npy, or from a text file with one label per line; a blank line is an unknown label."""
    if path.suffix.lower() == ".npy":
        return _label_array(load_npy(path), path)
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
    return lines
