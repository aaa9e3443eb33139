"""A user's own data in memory: a folder of images, NumPy arrays, or a table."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ict.base.errors import UserError
from ict.data.labels import is_unlabeled_text

Progress = Callable[[int, int | None], None]  # how many are done, and of how many where that is known


@dataclass(frozen=True)
class OwnData:
    """What `read_own` found: features float32 [n, f], or images uint8 [n, h, w] (gray) or [n, h, w, 3]."""

    x: NDArray[Any]
    y: NDArray[np.object_]  # the label of each example as text, None where unknown
    names: tuple[str, ...]  # a path relative to the folder, or "row 17" counted from 1
    remarks: tuple[str, ...]  # what the user should know, in plain words
    columns: tuple[str, ...] = ()  # of a table: the names of the features

    @cached_property
    def twins(self) -> NDArray[np.int64]:
        """For every example the first one with the same content, often itself."""
        first: dict[bytes, int] = {}
        digests = (hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in self.x)
        return np.array([first.setdefault(digest, i) for i, digest in enumerate(digests)], np.int64)


def read_own(
    path: Path,
    *,
    labels: Path | None = None,
    label_column: str | None = None,
    size: int | None = None,
    gray: bool | None = None,
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> OwnData:
    """Read a folder of images, a .npz or .npy of arrays, or a .csv or .parquet table.

    `labels` is a file of labels for a folder or arrays; `size`, `gray` and `progress` are for images, which are gray
    if all their files are, unless `gray` says what they must be.
    """
    data = _read(path, labels, label_column, size, gray, skip_bad, progress)
    counts = Counter(label for label in data.y if label is not None)
    single = sorted(label for label, n in counts.items() if n == 1)
    remarks = list(data.remarks)
    if single:
        have = counted(len(single), "class has", "classes have")
        remarks.append(f"{have} a single labeled example: {listed(single)}")
    if not counts:
        remarks.append("no example has a label")  # enough to predict on, not to learn from
    return replace(data, remarks=(*remarks, *_torn(data)))


def _read(
    path: Path,
    labels: Path | None,
    label_column: str | None,
    size: int | None,
    gray: bool | None,
    skip_bad: bool,
    progress: Progress | None,
) -> OwnData:
    if not path.exists():
        raise UserError(f"{path} does not exist: give a folder of images or a .npz, .npy, .csv or .parquet file.")
    if labels is not None and not labels.is_file():
        raise UserError(f"the labels {labels} are not a file: give one that exists.")
    kind = path.suffix.lower()
    if not path.is_dir() and size is not None:
        raise UserError(f"size={size} is for a folder of images, which {path} is not: leave it out.")
    # Imported here because the readers import this file, and pillow is needed for images only.
    if path.is_dir():
        from ict.data.user.images import read_images

        if label_column is not None and labels is None:
            raise UserError(f"label_column '{label_column}' needs a table, but {path} is a folder: pass labels too.")
        return read_images(path, labels, label_column, size, gray, skip_bad, progress)

    from ict.data.user.tables import read_arrays, read_table

    if kind in (".npz", ".npy"):
        if label_column is not None:
            raise UserError(f"label_column '{label_column}' needs a table, but {path} holds arrays: leave it out.")
        return read_arrays(path, labels, skip_bad)
    if kind in (".csv", ".parquet"):
        if labels is not None:
            raise UserError(f"{path} is a table with its own label column: leave out the labels {labels}.")
        return read_table(path, label_column, skip_bad)
    raise UserError(f"{path} is of an unknown kind: give a folder of images or a .npz, .npy, .csv or .parquet file.")


def label_texts(values: Iterable[Any]) -> NDArray[np.object_]:
    """Labels as stripped texts, None where unknown."""
    found = [_label_text(value) for value in values]
    texts = np.empty(len(found), dtype=object)
    texts[:] = found
    return texts


def _label_text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # whole labels become floats where some are missing
    text = str(value).strip()
    return None if is_unlabeled_text(text) else text


def listed(names: Sequence[str]) -> str:
    """Up to five names, and how many more there are."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    shown = ", ".join(names[:5]).encode("utf-8", "backslashreplace")  # a file's name need not be UTF-8
    return shown.decode() + more


def counted(n: int, singular: str, plural: str) -> str:
    """'1 image was' or '2 images were'."""
    return f"{n} {singular if n == 1 else plural}"


def images_left_out(names: Sequence[str]) -> list[str]:
    could = counted(len(names), "image could not be read and was", "images could not be read and were")
    return [f"{could} left out: {listed(names)}"] if names else []


def rows_left_out(names: Sequence[str]) -> list[str]:
    were = counted(len(names), "row was", "rows were")
    return [f"{were} left out for lack of a finite number or for too many cells: {listed(names)}"] if names else []


def made_gray(names: Sequence[str]) -> list[str]:
    were = counted(len(names), "image in color was", "images in color were")
    return [f"{were} made gray: {listed(names)}"] if names else []


def _torn(data: OwnData) -> list[str]:
    """The remark on examples that are the same but labeled differently."""
    groups: dict[int, list[int]] = {}
    for i in np.flatnonzero([label is not None for label in data.y]):
        groups.setdefault(int(data.twins[i]), []).append(int(i))
    torn = [" = ".join(data.names[i] for i in rows) for rows in groups.values() if len({data.y[i] for i in rows}) > 1]
    if not torn:
        return []
    return [
        f"{counted(len(torn), 'example is', 'examples are')} in different classes with the same content: {listed(torn)}"
    ]


def text_of(path: Path) -> str:
    """A text file's contents, with or without the mark that spreadsheets put first."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{path} cannot be read as text: save it as UTF-8.") from None
