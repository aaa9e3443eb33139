"""Decoded images on disk, so that a folder is decoded once and may be larger than memory.

An entry is a folder named after what is in it: a hash over the bytes of every image file, the size, the mode and what
decoded it. So a changed file leads to another entry, whatever its name and date say; hashing costs a read of the files,
not a decoding. `rm -r` of the whole cache is always safe.
"""

import hashlib
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import __version__ as PILLOW

from ict.base.errors import UserError
from ict.base.files import read_json, write_json

FORMAT = 1  # of entries; a new number where decoding changes
Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Decoded:
    x: Pixels  # the good images in their order; memory-mapped, unless the cache cannot be used
    bad: dict[int, str]  # why the others cannot be used, by their place


def cache_folder() -> Path | None:
    """$ICT_CACHE, or `ict` in the user's cache folder; none where a user has no home."""
    if named := os.environ.get("ICT_CACHE"):
        return Path(named)
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return (shared if shared.is_absolute() else Path.home() / ".cache") / "ict"
    except RuntimeError:
        return None


def cache_key(digests: Iterable[bytes], shape: tuple[int, ...]) -> str:
    """The name of the entry for files with these digests, decoded to this shape."""
    total = hashlib.blake2b(repr((FORMAT, PILLOW, shape)).encode(), digest_size=20)
    for digest in digests:
        total.update(digest)
    return total.hexdigest()


def cached(
    key: str, shape: tuple[int, ...], source: Path, n: int, images: Callable[[], Iterator[Pixels | str]]
) -> Decoded:
    """The entry `key`, made from the `n` images or reasons against them if it is missing or damaged.

    Nothing is written into the folder `source`, nor where writing fails: then the images stay in memory.
    """
    folder = cache_folder()
    if folder is None:
        _warn_that_memory_is_used("there is no home folder")
    elif folder.resolve().is_relative_to(source.resolve()):
        _warn_that_memory_is_used(f"{folder} is inside {source}, which is only read")
    else:
        entry = folder / "images" / key
        try:
            found = _read(entry, shape)
            if found is None:
                _write(entry, shape, images())
                found = _read(entry, shape)
        except OSError as problem:
            found = None
            _warn_that_memory_is_used(f"{folder} cannot be written ({problem.strerror})")
        if found is not None:
            return found
    return _in_memory(shape, n, images())


def _warn_that_memory_is_used(why: str) -> None:
    warnings.warn(
        f"decoded images are held in memory and not kept, since {why}: name another folder by ICT_CACHE.", stacklevel=3
    )


def _read(entry: Path, shape: tuple[int, ...]) -> Decoded | None:
    """An entry, if it is there and whole."""
    try:
        about = read_json(entry / "about.json")
        with (entry / "pixels").open("rb") as file:
            whole = hashlib.file_digest(file, "blake2b").hexdigest() == about["blake2b"]
        if not whole:
            return None
        bad = {int(place): str(why) for place, why in about["bad"].items()}
        if not about["n"]:  # an empty file cannot be mapped
            return Decoded(np.empty((0, *shape), np.uint8), bad)
        return Decoded(np.memmap(entry / "pixels", np.uint8, "r", shape=(about["n"], *shape)), bad)
    except (UserError, OSError, KeyError, ValueError, TypeError, AttributeError):
        return None


def _write(entry: Path, shape: tuple[int, ...], images: Iterator[Pixels | str]) -> None:
    """A whole entry or none: made beside it and renamed, so that two processes at once do no harm."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".", dir=entry.parent))
    try:
        digest, bad, n = hashlib.blake2b(), {}, 0
        with (temporary / "pixels").open("wb") as file:  # not mapped: a full disk would end the process
            for place, image in enumerate(images):
                if isinstance(image, str):
                    bad[place] = image
                    continue
                raw = image.reshape(shape).tobytes()
                file.write(raw)
                digest.update(raw)
                n += 1
            file.flush()
            os.fsync(file.fileno())
        write_json(temporary / "about.json", {"n": n, "bad": bad, "blake2b": digest.hexdigest()})
        try:
            temporary.rename(entry)
        except OSError:
            if _read(entry, shape) is None:  # else another process was faster
                shutil.rmtree(entry, ignore_errors=True)  # a damaged one; who has it mapped keeps it
                temporary.rename(entry)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _in_memory(shape: tuple[int, ...], n: int, images: Iterator[Pixels | str]) -> Decoded:
    x, bad, kept = np.empty((n, *shape), np.uint8), {}, 0
    for place, image in enumerate(images):
        if isinstance(image, str):
            bad[place] = image
        else:
            x[kept] = image
            kept += 1
    return Decoded(x[:kept], bad)
