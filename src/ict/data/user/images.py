"""Reads a folder of images, decoded to one size. Never writes into it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import prod
from pathlib import Path
from statistics import median

import numpy as np

from ict.base.array_types import Array
from ict.base.errors import UserError
from ict.data.user.folder_files import class_folders, empty_classes, files_in, ignored, refuse
from ict.data.user.image_cache import cache_key, cached
from ict.data.user.image_file import SUFFIXES, Header, Pixels, decoded, header, in_threads
from ict.data.user.label_file import folder_labels
from ict.data.user.records import (
    Chunk,
    Embed,
    Items,
    Progress,
    ReadOptions,
    Stream,
    StreamOptions,
    UserData,
    label_strings,
)
from ict.data.user.remarks import counted, made_gray, photos_left_out, unlike_the_model

ITEMS: Items = "photos"
_SMALL = 64  # largest side of images whose pixels are used in addition to a backbone's features
_BESIDE = 32  # largest side of those pixels
_PICTURE = 128  # side of an image in a report
_AT_ONCE = 256  # images embedded together


def read(folder: Path, options: ReadOptions) -> UserData:
    """Read a folder. Labels are the names of the first-level folders, or come from the file of labels."""
    labels, column = options.labels, options.label_column
    if column is not None and labels is None:
        raise UserError(f"--label-column {column} needs a table, but {folder} is a folder: give --labels too.")
    if options.size is not None and options.size < 1:
        raise UserError(f"--size {options.size} is not a number of pixels: give 1 or more.")
    names, linked, others = files_in(folder, SUFFIXES, "photo", labels)
    given = folder_labels(names, folder, "photo", options)
    bad = dict.fromkeys(linked, "is a link to a folder, which is not followed")
    headers = _headers(folder, names, bad, options.progress)
    refuse(folder, bad, options.skip_bad)
    size = options.size or (_size_for(_shorter_sides(headers)) if headers else 1)
    x: Array
    beside: tuple[int, ...] = ()
    if options.embed is None:
        x = _decoded(folder, headers, replace(options, size=size), bad)
    else:
        x, beside = _embedded(folder, headers, options, options.embed, bad)
    kept = [name for name in headers if name not in bad]
    if not kept:
        raise UserError(f"none of the {len(bad)} photos in {folder} can be read: repair or replace them.")
    y = label_strings(given.known.get(name) for name in kept)
    remarks = [*given.remarks, *photos_left_out(sorted(bad)), *ignored(others, "photo")]
    wanted = class_folders(folder) if labels is None else set(label_strings(given.known.values())) - {None}
    remarks += empty_classes(sorted(wanted - set(y)), "photo")
    sides = [side for name in kept for side in headers[name].sides]
    if max(sides) > 8 * min(sides):
        remarks.append(f"the photos differ widely in size, with sides from {min(sides)} to {max(sides)} pixels")
    side = size if options.embed is None else options.embed.side
    remarks += _made_square([headers[name] for name in kept], {side, *beside})
    if options.gray or len(beside) == 2:
        remarks += made_gray([name for name in kept if not headers[name].gray])
    if labels is None and any(label is not None for label in y) and any("/" not in name for name in kept):
        remarks.append("photos outside the class folders count as unlabeled")
    contents = tuple(headers[name].digest.hex()[:32] for name in kept)
    if options.embed is None:
        return UserData(x, y, tuple(kept), tuple(remarks), contents=contents)
    pictures = _Pictures(folder, tuple(kept))
    return UserData(x, y, tuple(kept), tuple(remarks), beside=beside, image=pictures, contents=contents)


@dataclass(frozen=True)
class _Pictures:
    """Small versions of images, decoded on access."""

    folder: Path
    names: tuple[str, ...]

    def __call__(self, row: int) -> Pixels:
        found = decoded(self.folder / self.names[row], self.folder.resolve(), _PICTURE, gray=False)
        return np.full((_PICTURE, _PICTURE, 3), 255, np.uint8) if isinstance(found, str) else found[0]


def stream(folder: Path, options: StreamOptions) -> Stream:
    if options.embed is not None:
        return _stream_embedded(folder, options, options.embed)
    shape, skip_bad, size = options.shape, options.skip_bad, options.chunk
    if len(shape) == 1 or shape[0] != shape[1]:
        raise unlike_the_model(folder, "square photos", shape)
    names, linked, others = files_in(folder, SUFFIXES, "photo")
    linked_bad = dict.fromkeys(linked, "is a link to a folder, which is not followed")
    refuse(folder, linked_bad, skip_bad)
    gray = len(shape) == 2
    root = folder.resolve()

    def chunks() -> Iterator[Chunk]:
        found = in_threads(lambda name: decoded(folder / name, root, shape[0], gray), names)
        yield Chunk(np.empty((0, *shape), np.uint8), [], linked)
        for start in range(0, len(names), size):
            some = names[start : start + size]
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

    return Stream(chunks(), len(names), ignored(others, "photo"))


def _headers(folder: Path, names: list[str], bad: dict[str, str], progress: Progress | None) -> dict[str, Header]:
    """The headers of the files, before any is decoded; bad files are added to `bad`."""
    root = folder.resolve()
    headers = {}
    every = in_threads(lambda name: header(folder / name, root), names)
    for done, (name, found) in enumerate(zip(names, every, strict=True), 1):
        if progress is not None:
            progress("reading photos", done, len(names))
        if isinstance(found, str):
            bad[name] = found
        else:
            headers[name] = found
    return headers


def _shorter_sides(headers: dict[str, Header]) -> list[int]:
    return [min(header.sides) for header in headers.values()]


def _made_square(headers: Sequence[Header], sides: set[int]) -> list[str]:
    """A remark on photos that were cut and resized to squares of these sides."""
    cut = sum(width != height for width, height in (header.sides for header in headers))
    resized = sum({min(header.sides)} != sides for header in headers)
    remarks = [f"{counted(cut, 'photo was', 'photos were')} cut to the square in the middle"] if cut else []
    if resized:
        squares = " and to ".join(f"{side}x{side}" for side in sorted(sides, reverse=True))
        remarks.append(f"{counted(resized, 'photo was', 'photos were')} resized to {squares} pixels")
    return remarks


def _size_for(shorter_sides: Sequence[int]) -> int:
    return int(min(max(8 * int(median(shorter_sides) / 8 + 0.5), 8), 64))


def _decoded(folder: Path, headers: dict[str, Header], options: ReadOptions, bad: dict[str, str]) -> Pixels:
    """The readable images; the others are added to `bad`."""
    names, root, size, skip_bad = list(headers), folder.resolve(), options.size or 1, options.skip_bad
    as_gray = all(header.gray for header in headers.values()) if options.gray is None else options.gray
    shape = (size, size) if as_gray else (size, size, 3)

    def images() -> Iterator[Pixels | str]:
        found = in_threads(lambda name: decoded(folder / name, root, size, as_gray, headers[name].digest), names)
        for done, (name, image) in enumerate(zip(names, found, strict=True), 1):
            if isinstance(image, str):
                refuse(folder, {name: image}, skip_bad)
            yield image if isinstance(image, str) else image[0]
            if options.progress is not None:
                options.progress("decoding photos", done, len(names))

    key = cache_key((header.digest for header in headers.values()), shape)
    found = cached(key, shape, folder, len(names), images)
    newly_bad = {names[place]: why for place, why in found.bad.items()}
    bad |= newly_bad
    refuse(folder, newly_bad, skip_bad)
    good = {name: header for name, header in headers.items() if name not in newly_bad}
    if good and options.gray is None and not as_gray and all(header.gray for header in good.values()):
        return _decoded(folder, good, options, bad)  # all images in color are unreadable
    return found.x


def _embedded(
    folder: Path, headers: dict[str, Header], options: ReadOptions, embed: Embed, bad: dict[str, str]
) -> tuple[Array, tuple[int, ...]]:
    """The features of the readable images, followed by the pixels of small images, and the shape of those pixels.

    Only features are cached.
    """
    names = list(headers)

    def squares(places: Sequence[int]) -> Iterator[Pixels | str]:
        some = [names[i] for i in places]
        for name, image in zip(some, _squares(folder, some, embed.side, headers), strict=True):
            if isinstance(image, str):
                refuse(folder, {name: image}, options.skip_bad)
            yield image

    digests = [headers[name].digest for name in names]
    features, newly_bad = embed.photos(digests, squares, folder, options.progress)
    bad |= (reasons := {names[place]: why for place, why in newly_bad.items()})
    refuse(folder, reasons, options.skip_bad)
    good = [name for name in names if name not in bad]
    beside = options.beside
    if beside is None:
        beside = pixels_beside(_shorter_sides(headers), gray=all(header.gray for header in headers.values()))
    return _with_pixels(folder, good, features, beside, headers), beside


def _stream_embedded(folder: Path, options: StreamOptions, embed: Embed) -> Stream:
    names, linked, others = files_in(folder, SUFFIXES, "photo")
    refuse(folder, dict.fromkeys(linked, "is a link to a folder, which is not followed"), options.skip_bad)

    def chunks() -> Iterator[Chunk]:
        yield Chunk(np.empty((0, *options.shape), np.float32), [], linked)
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            found = dict(zip(some, _squares(folder, some, embed.side), strict=True))
            bad = {name: image for name, image in found.items() if isinstance(image, str)}
            refuse(folder, bad, options.skip_bad)
            good = {name: image for name, image in found.items() if not isinstance(image, str)}
            features = embed.squares(list(good.values()))
            yield Chunk(_with_pixels(folder, list(good), features, options.beside), list(good), list(bad))

    return Stream(chunks(), len(names), ignored(others, "photo"))


def _squares(
    folder: Path, names: list[str], side: int, headers: dict[str, Header] | None = None, gray: bool = False
) -> Iterator[Pixels | str]:
    """Images of one size, or the reason why one cannot be read, one at a time."""
    root = folder.resolve()

    def square(name: str) -> tuple[Pixels, bool] | str:
        return decoded(folder / name, root, side, gray, headers[name].digest if headers else None)

    for image in in_threads(square, names):
        yield image if isinstance(image, str) else image[0]


def pixels_beside(shorter_sides: Sequence[int], gray: bool) -> tuple[int, ...]:
    """The shape of the pixels used in addition to features: those of small gray images, () for others.

    They raise the accuracy on small gray images and lower it on small photos in color: benchmarks/backbones.py.
    """
    if not len(shorter_sides) or not gray or median(shorter_sides) > _SMALL:
        return ()
    side = min(_size_for(shorter_sides), _BESIDE)
    return (side, side)


def _with_pixels(
    folder: Path,
    names: list[str],
    features: Array,
    beside: tuple[int, ...],
    headers: dict[str, Header] | None = None,
) -> Array:
    if not beside:
        return features
    x = np.empty((len(names), features.shape[1] + prod(beside)), np.float32)
    x[:, : features.shape[1]] = features
    for row, image in zip(x, _squares(folder, names, beside[0], headers, gray=len(beside) == 2), strict=True):
        if isinstance(image, str):
            raise UserError(f"{folder} changed while it was read: run the command again.")
        row[features.shape[1] :] = image.ravel()
    return x
