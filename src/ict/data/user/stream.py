"""Examples to predict on, a chunk at a time, so that memory does not grow with their number."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ict.base.errors import UserError
from ict.data.labels import find_label_column, is_label_column
from ict.data.user.read import counted, label_texts, listed

CHUNK = 1024  # examples


@dataclass(frozen=True)
class Chunk:
    x: NDArray[Any]
    names: list[str]
    bad: list[str] = field(default_factory=list)  # those that were left out
    made_gray: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Stream:
    """Examples of a shape, uint8 or float32."""

    chunks: Iterator[Chunk]
    total: int | None  # of the examples, where the file says it
    remarks: list[str]


def stream_own(path: Path, shape: tuple[int, ...], columns: tuple[str, ...], skip_bad: bool) -> Stream:
    """What a model of examples of this shape can predict on; labels and the names of folders mean nothing.

    `columns` are the features of the table that the model was fitted to, if it was one.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist: give a folder of images or a .npz, .npy, .csv or .parquet file.")
    kind = path.suffix.lower()
    if path.is_dir():
        return _images(path, shape, skip_bad)
    if kind in (".npz", ".npy"):
        return _arrays(path, shape, skip_bad)
    if kind in (".csv", ".parquet"):
        return _table(path, shape, columns, skip_bad)
    raise UserError(f"{path} is of an unknown kind: give a folder of images or a .npz, .npy, .csv or .parquet file.")


def _images(folder: Path, shape: tuple[int, ...], skip_bad: bool) -> Stream:
    from ict.data.user.image_file import decoded, in_threads  # pillow is needed for images only
    from ict.data.user.images import ignored, image_files, refuse

    if len(shape) == 1 or shape[0] != shape[1]:
        raise _unlike(folder, "square images", shape)
    names, linked, n_ignored = image_files(folder)
    linked_bad = dict.fromkeys(linked, "is a link to a folder, which is not followed")
    refuse(folder, linked_bad, skip_bad)
    gray = len(shape) == 2
    root = folder.resolve()

    def chunks() -> Iterator[Chunk]:
        found = in_threads(lambda name: decoded(folder / name, root, shape[0], gray), names)
        yield Chunk(np.empty((0, *shape), np.uint8), [], linked)
        for start in range(0, len(names), CHUNK):
            some = names[start : start + CHUNK]
            good, bad = {}, {}
            for name, image in zip(some, islice(found, len(some)), strict=True):
                if isinstance(image, str):
                    bad[name] = image
                else:
                    good[name] = image
            refuse(folder, bad, skip_bad)
            x = np.array([pixels for pixels, _ in good.values()], np.uint8).reshape(-1, *shape)
            colored = [name for name, (_, was_gray) in good.items() if gray and not was_gray]
            yield Chunk(x, list(good), list(bad), colored)

    return Stream(chunks(), len(names), ignored(n_ignored))


def _arrays(path: Path, shape: tuple[int, ...], skip_bad: bool) -> Stream:
    from ict.data.user.tables import array_rows, load_arrays

    raw, _ = load_arrays(path)

    def chunks() -> Iterator[Chunk]:
        for start in range(0, max(len(raw), 1), CHUNK):  # one chunk even of nothing, to be refused as in fitting
            some = raw[start : start + CHUNK]
            rows = array_rows(some, label_texts([None] * len(some)), start, path, skip_bad)
            x = rows.x
            if x.ndim == 3 and len(shape) == 3:
                x = np.repeat(x[..., None], shape[-1], axis=3)  # gray images for a model of colored ones
            if x.shape[1:] != shape:
                raise _unlike(path, f"examples of the shape {x.shape[1:]}", shape)
            yield Chunk(x, rows.names, rows.bad)

    return Stream(chunks(), len(raw), [])


def _table(path: Path, shape: tuple[int, ...], columns: tuple[str, ...], skip_bad: bool) -> Stream:
    from ict.data.user.tables import n_rows, table_columns, table_rows

    names = table_columns(path)
    labels = [name for name in names if is_label_column(name)]
    if missing := [name for name in columns if name not in names]:
        raise UserError(f"{path} lacks columns that the model was fitted to: add {listed(missing)}.")
    if columns:
        wanted = list(columns)
    else:
        wanted = names if (len(names),) == shape else [name for name in names if name != find_label_column(names)]
    if (len(wanted),) != shape:
        raise _unlike(path, f"{len(wanted)} features", shape)
    unknown = [f"'{name}'" for name in names if name not in wanted and name not in labels]
    remarks = []
    if unknown:
        said = counted(
            len(unknown), "column that the model does not know was", "columns that the model does not know were"
        )
        remarks = [f"{said} ignored: {listed(unknown)}"]
    rows = table_rows(path, wanted, None, skip_bad, CHUNK)
    return Stream((Chunk(some.x, some.names, some.bad) for some in rows), n_rows(path), remarks)


def _unlike(path: Path, has: str, shape: tuple[int, ...]) -> UserError:
    return UserError(f"{path} holds {has}, but the model was fitted to examples of the shape {shape}: give such.")
