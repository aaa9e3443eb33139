"""A cache of decoded images on disk, so that a folder is decoded only once and may be larger than memory.

The key of an entry is a hash of the bytes of all image files, the size, the mode and the decoder's version. So a
changed file leads to another entry, whatever its name and date. Hashing needs to read the files but not to decode them.
"""

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import __version__ as PILLOW

from ict.data.user.array_cache import cache_folder, read_entry, why_unusable, write_entry
from ict.data.user.image_file import Pixels

FORMAT = 2  # of entries; increase it when decoding changes


@dataclass(frozen=True)
class Decoded:
    x: Pixels  # the readable images in order; memory-mapped, unless the cache cannot be used
    bad: dict[int, str]  # the reasons why the others cannot be used, by position


def cache_key(digests: Iterable[bytes], shape: tuple[int, ...]) -> str:
    """The key of the entry for files with these hashes, decoded to this shape."""
    total = hashlib.blake2b(repr((FORMAT, PILLOW, shape)).encode(), digest_size=20)
    for digest in digests:
        total.update(digest)
    return total.hexdigest()


def cached(
    key: str, shape: tuple[int, ...], source: Path, n: int, images: Callable[[], Iterator[Pixels | str]]
) -> Decoded:
    """The entry `key`. If it is missing or damaged, it is written from the `n` images (or reasons why they are bad).

    If the cache is in the folder `source` or cannot be written, the images stay in memory.
    """
    folder, why = cache_folder(), why_unusable(source)
    if folder is not None and why is None:
        entry = folder / "images" / key
        try:
            if (images_read := _read(entry, shape)) is not None:
                return images_read
            bad: dict[int, str] = {}
            write_entry(entry, _good(images(), shape, bad), "uint8", shape, {"bad": bad})
            if (images_read := _read(entry, shape)) is not None:
                return images_read
        except OSError as problem:
            why = f"{folder} cannot be written ({problem.strerror})"
    if why is not None:
        warnings.warn(
            f"decoded images stay in memory and are not cached, since {why}: name another folder with ICT_CACHE.",
            stacklevel=2,
        )
    return _in_memory(shape, n, images())


def _read(entry: Path, shape: tuple[int, ...]) -> Decoded | None:
    found = read_entry(entry)
    try:
        if found is None or found[0].shape[1:] != shape:
            return None
        return Decoded(found[0], {int(place): str(why) for place, why in found[1]["bad"].items()})
    except (KeyError, ValueError, AttributeError):
        return None


def _good(images: Iterator[Pixels | str], shape: tuple[int, ...], bad: dict[int, str]) -> Iterator[Pixels]:
    """The readable images; the reasons for the others are added to `bad`."""
    for place, image in enumerate(images):
        if isinstance(image, str):
            bad[place] = image
        else:
            yield image.reshape(shape)


def _in_memory(shape: tuple[int, ...], n: int, images: Iterator[Pixels | str]) -> Decoded:
    x, bad, kept = np.empty((n, *shape), np.uint8), dict[int, str](), 0
    for image in _good(images, shape, bad):
        x[kept] = image
        kept += 1
    return Decoded(x[:kept], bad)
