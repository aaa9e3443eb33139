"""The types of the readers' arguments and results. Every reader imports this file, and it imports none of them."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ict.base.array_types import Array
from ict.base.errors import UserError
from ict.data.columns.kinds import Asked
from ict.data.columns.table_inputs import TableInputs
from ict.data.labels import is_unlabeled_text

Items = Literal["photos", "texts", "numbers"]  # the content of a file or folder
Progress = Callable[[str, int, int | None], None]  # gets the stage, the number done and the total, if known


def digest(content: bytes | Array) -> str:
    """A hash of an example's content."""
    raw = content if isinstance(content, bytes) else content.tobytes()
    return hashlib.blake2b(raw, digest_size=16).hexdigest()


@dataclass(frozen=True)
class UserData:
    """Examples in memory: features float32 [n, f], or images uint8 [n, h, w] (gray) or [n, h, w, 3]."""

    x: Array
    y: NDArray[np.object_]  # the label of each example as a string, None where unknown
    names: tuple[str, ...]  # a path relative to the folder, or "row 17" counted from 1
    remarks: tuple[str, ...]  # messages for the user
    columns: tuple[str, ...] = ()  # of a table: the names of the features
    beside: tuple[int, ...] = ()  # shape of the pixels that follow a backbone's features, if any
    image: Callable[[int], NDArray[np.uint8]] | None = None  # a row as an image, if x has features of images
    groups: NDArray[np.object_] | None = None  # of a table with a group column: the group of each example
    contents: tuple[str, ...] | None = None  # the digest of each file or text; None: rows of x are the content
    texts: tuple[str, ...] | None = None  # each example's text, if x has features of texts
    items: Items = "numbers"  # what the examples are
    table: TableInputs | None = None  # how a table's columns became the features
    checks: tuple[int, ...] = ()  # rows that the labeling page asked for at random: a test, never trained on

    @property
    def units(self) -> tuple[float, ...]:
        """What counts as one deviation of each feature of a table; see `TableInputs.units`."""
        return self.table.units if self.table is not None else ()

    @cached_property
    def digests(self) -> tuple[str, ...]:
        """A digest of the content of each example, whatever backbone it is embedded by."""
        return self.contents or tuple(map(digest, self.x))

    @cached_property
    def twins(self) -> NDArray[np.int64]:
        """For every example the index of the first one with the same content, often its own."""
        first: dict[str, int] = {}
        return np.array([first.setdefault(digest(row), i) for i, row in enumerate(self.x)], np.int64)


@dataclass(frozen=True)
class Chunk:
    """A chunk of the examples of a stream, uint8 or float32."""

    x: Array
    names: list[str]
    bad: list[str] = field(default_factory=list)  # the names of skipped examples
    made_gray: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Stream:
    """Examples to predict on in chunks, so that memory does not grow with their number."""

    chunks: Iterator[Chunk]
    total: int | None  # the number of examples, if known
    remarks: list[str]


class Embed(Protocol):
    """Turns photos and texts into features while they are read. Implemented in a higher folder."""

    @property
    def side(self) -> int:
        """The side of the squares to which photos are decoded."""

    def photos(
        self,
        digests: Sequence[bytes],
        squares: Callable[[Sequence[int]], Iterator[NDArray[np.uint8] | str]],
        source: Path,
        progress: Progress | None,
    ) -> tuple[NDArray[np.float32], dict[int, str]]:
        """The features of files with these hashes, and by position the reasons why the others cannot be read.

        `squares` decodes the files at some positions. Features are cached, so it is not called for all.
        """

    def squares(self, squares: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """The features of decoded photos, without the cache."""

    def texts(self, texts: Sequence[str], source: Path, progress: Progress | None) -> NDArray[np.float32]:
        """Features of texts, remembered."""

    def texts_now(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Features of texts, which are not remembered."""


@dataclass(frozen=True)
class ReadOptions:
    """How to read data to learn from."""

    labels: Path | None = None  # a file of labels, for images and arrays
    label_column: str | None = None  # of a table, or of the file of labels of a folder
    size: int | None = None  # side of images in pixels; none: chosen from their sizes
    gray: bool | None = None  # none: images are gray if all their files are
    skip_bad: bool = False  # leave out what cannot be read, with a remark
    progress: Progress | None = None
    embed: Embed | None = None  # computes features of photos and texts
    beside: tuple[int, ...] | None = None  # shape of the pixels after features of images; none: by their sizes
    text_column: str | None = None  # of a table of texts
    group_column: str | None = None  # of a table: rows with the same value are held out together
    unlabeled: bool = False  # a table may lack a column of labels
    columns: Mapping[str, Asked] = field(default_factory=dict)  # what columns of a table are; others are recognized
    table: TableInputs | None = None  # of the table that this one belongs to; none: learned from it


ANY: tuple[int, ...] = ()


@dataclass(frozen=True)
class StreamOptions:
    """How to read data to predict on."""

    shape: tuple[int, ...]  # of the examples that the model was fitted to; ANY: whatever an array holds
    columns: tuple[str, ...]  # of the table that it was fitted to, if it was one of numbers alone
    skip_bad: bool
    chunk: int  # examples
    embed: Embed | None = None
    beside: tuple[int, ...] = ()
    text_column: str | None = None
    table: TableInputs | None = None  # how the columns of the table became the features, if it was one
    pixels: bool = True  # the model's images hold pixels from 0 to 255


class Reader(Protocol):
    """The interface of a module that reads one kind of data."""

    ITEMS: Items

    def read(self, path: Path, options: ReadOptions) -> UserData: ...

    def stream(self, path: Path, options: StreamOptions) -> Stream: ...


def label_strings(values: Iterable[Any]) -> NDArray[np.object_]:
    """Labels as stripped strings, None where unknown."""
    labels = [_label_string(value) for value in values]
    strings = np.empty(len(labels), dtype=object)
    strings[:] = labels
    return strings


def _is_writable(text: str) -> bool:
    """Whether a string can be encoded in UTF-8; a folder's name may contain other bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _label_string(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # labels that are integers become floats if some are missing
    text = str(value).strip()
    if not _is_writable(text):
        raise UserError(f"the label {text[:60]!a} is not UTF-8: rename it.")
    return None if is_unlabeled_text(text) else text
