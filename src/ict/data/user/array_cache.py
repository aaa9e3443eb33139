"""A cache of arrays on disk, keyed by a hash of their source, so that nothing is computed twice.

An entry is a folder with the rows of an array and JSON about them, both verified by a hash when it is read. It is
written atomically. When the cache exceeds its limit, the least recently used entries are removed. Deleting the whole
cache is always safe.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ict.base.array_types import Array
from ict.base.errors import UserError
from ict.base.files import read_json, remove_leftovers, temporary_beside, write_json

LIMIT = 20.0  # GB, unless $ICT_CACHE_LIMIT says otherwise
_ABOUT, _ROWS = "about.json", "rows"
_TYPES = ("uint8", "float32")


def cache_folder() -> Path | None:
    """$ICT_CACHE, or `ict` in the user's cache folder; None if the user has no home folder."""
    if named := os.environ.get("ICT_CACHE"):
        return Path(named)
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return (shared if shared.is_absolute() else Path.home() / ".cache") / "ict"
    except RuntimeError:
        return None


def why_unusable(source: Path | None) -> str | None:
    """The reason why data of `source` cannot be cached, or None. Nothing is written to find out."""
    folder = cache_folder()
    if folder is None:
        return "there is no home folder"
    if source is not None and folder.resolve().is_relative_to(source.resolve()):
        return f"{folder} is inside {source}, which must not change"
    return None


def read_entry(entry: Path) -> tuple[Array, dict[str, Any]] | None:
    """The memory-mapped rows of an entry and its JSON; None if the entry is missing or damaged."""
    try:
        about = read_json(entry / _ABOUT)
        claimed = about.pop("blake2b")
        with (entry / _ROWS).open("rb") as file:
            digest = hashlib.file_digest(file, "blake2b")
        digest.update(_canonical(about))
        if digest.hexdigest() != claimed or about["dtype"] not in _TYPES:
            return None
        shape, dtype = (about["n"], *about["shape"]), np.dtype(about["dtype"])
        # an empty file cannot be mapped
        rows = np.memmap(entry / _ROWS, dtype, "r", shape=shape) if prod(shape) else np.empty(shape, dtype)
        os.utime(entry / _ABOUT)  # used now
    except (UserError, OSError, KeyError, ValueError, TypeError, OverflowError):
        return None
    return rows, about


def write_entry(entry: Path, rows: Iterable[Array], dtype: str, shape: tuple[int, ...], about: dict[str, Any]) -> None:
    """Write an entry beside its place and rename it, so that two processes can do so at the same time.

    `about` is written after the last row, so it may be filled while rows are computed.
    """
    entry.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(entry.parent)
    temporary = temporary_beside(entry)
    temporary.mkdir()
    try:
        digest, n = hashlib.blake2b(), 0
        with (temporary / _ROWS).open("wb") as file:  # not a memory map: a full disk would kill the process
            for row in rows:
                raw = row.astype(dtype, copy=False).reshape(shape).tobytes()
                file.write(raw)
                digest.update(raw)
                n += 1
            file.flush()
            os.fsync(file.fileno())
        about = {"n": n, "shape": shape, "dtype": dtype, **about}
        digest.update(_canonical(about))
        write_json(temporary / _ABOUT, about | {"blake2b": digest.hexdigest()})
        try:
            temporary.rename(entry)
        except OSError:
            if read_entry(entry) is None:  # else another process was faster
                shutil.rmtree(entry, ignore_errors=True)  # a damaged one; existing memory maps of it stay valid
                temporary.rename(entry)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    keep_within_limit(entry)


def _canonical(about: dict[str, Any]) -> bytes:
    """JSON that is the same before it is written and after it was read."""
    return json.dumps(json.loads(json.dumps(about)), sort_keys=True).encode()


def entries(folder: Path) -> list[Path]:
    """All entries of the cache."""
    return sorted(path.parent for path in folder.glob(f"*/**/{_ABOUT}"))


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def limit() -> float:
    """The largest size of the cache in bytes."""
    named = os.environ.get("ICT_CACHE_LIMIT", "")
    try:
        gigabytes = float(named) if named else LIMIT
        if not 0 < gigabytes < float("inf"):
            raise ValueError
    except ValueError:
        raise UserError(f"ICT_CACHE_LIMIT is '{named}': it must be a number of gigabytes above 0.") from None
    return gigabytes * 1e9


def keep_within_limit(newest: Path) -> None:
    """Remove the least recently used entries, never `newest`, until the cache is within its limit."""
    folder = cache_folder()
    if folder is None:
        return
    sizes = {entry: size_of(entry) for entry in entries(folder)}
    excess = sum(sizes.values()) - limit()
    for entry in sorted(sizes, key=_last_use):
        if excess <= 0:
            return
        if entry != newest:
            shutil.rmtree(entry, ignore_errors=True)
            excess -= sizes[entry]


def clear() -> int:
    """Remove everything in the cache. Returns the number of bytes."""
    folder = cache_folder()
    if folder is None or not folder.is_dir():
        return 0
    freed = size_of(folder)
    for kind in ("images", "features", "backbones"):  # other content of a folder that the user named is not ours
        shutil.rmtree(folder / kind, ignore_errors=True)
    return freed - size_of(folder)


def _last_use(entry: Path) -> float:
    try:
        return (entry / _ABOUT).stat().st_mtime
    except OSError:  # removed by another process
        return 0.0
