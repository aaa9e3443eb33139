"""Arrays on disk under names made of what is in them, so that nothing is computed twice.

An entry is a folder with the rows of an array and JSON about them, checked by a digest when it is read. It is whole or
absent. Entries that were not used for the longest time go when all take more than a limit. `rm -r` of the whole cache
is always safe.
"""

import hashlib
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
    """$ICT_CACHE, or `ict` in the user's cache folder; none where a user has no home."""
    if named := os.environ.get("ICT_CACHE"):
        return Path(named)
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return (shared if shared.is_absolute() else Path.home() / ".cache") / "ict"
    except RuntimeError:
        return None


def why_unusable(source: Path | None) -> str | None:
    """Why nothing about `source` can be kept in the cache, if that is so before any attempt to write."""
    folder = cache_folder()
    if folder is None:
        return "there is no home folder"
    if source is not None and folder.resolve().is_relative_to(source.resolve()):
        return f"{folder} is inside {source}, which is only read"
    return None


def read_entry(entry: Path) -> tuple[Array, dict[str, Any]] | None:
    """The rows, memory-mapped, and what is known about them; none unless the entry is there and whole."""
    try:
        about = read_json(entry / _ABOUT)
        with (entry / _ROWS).open("rb") as file:
            whole = hashlib.file_digest(file, "blake2b").hexdigest() == about["blake2b"]
        if not whole or about["dtype"] not in _TYPES:
            return None
        shape, dtype = (about["n"], *about["shape"]), np.dtype(about["dtype"])
        # an empty file cannot be mapped
        rows = np.memmap(entry / _ROWS, dtype, "r", shape=shape) if prod(shape) else np.empty(shape, dtype)
        os.utime(entry / _ABOUT)  # used now
    except (UserError, OSError, KeyError, ValueError, TypeError):
        return None
    return rows, about


def write_entry(entry: Path, rows: Iterable[Array], dtype: str, shape: tuple[int, ...], about: dict[str, Any]) -> None:
    """Make an entry of rows of a shape, beside its place, and rename it, so that two processes at once do no harm.

    `about` is written after the last row: it may be filled in while rows are made.
    """
    entry.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(entry.parent)
    temporary = temporary_beside(entry)
    temporary.mkdir()
    try:
        digest, n = hashlib.blake2b(), 0
        with (temporary / _ROWS).open("wb") as file:  # not mapped: a full disk would end the process
            for row in rows:
                raw = row.astype(dtype, copy=False).reshape(shape).tobytes()
                file.write(raw)
                digest.update(raw)
                n += 1
            file.flush()
            os.fsync(file.fileno())
        write_json(temporary / _ABOUT, {"n": n, "shape": shape, "dtype": dtype, **about, "blake2b": digest.hexdigest()})
        try:
            temporary.rename(entry)
        except OSError:
            if read_entry(entry) is None:  # else another process was faster
                shutil.rmtree(entry, ignore_errors=True)  # a damaged one; who has it mapped keeps it
                temporary.rename(entry)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    keep_within_limit(entry)


def entries(folder: Path) -> list[Path]:
    """All entries of a cache."""
    return sorted(path.parent for path in folder.glob(f"*/**/{_ABOUT}"))


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def limit() -> float:
    """Bytes that the cache may take."""
    named = os.environ.get("ICT_CACHE_LIMIT", "")
    try:
        gigabytes = float(named) if named else LIMIT
        if not 0 < gigabytes < float("inf"):
            raise ValueError
    except ValueError:
        raise UserError(f"ICT_CACHE_LIMIT is '{named}': it must be a number of gigabytes above 0.") from None
    return gigabytes * 1e9


def keep_within_limit(newest: Path) -> None:
    """Remove the entries that were used longest ago, never `newest`, until the cache is within its limit."""
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
    """Remove all that the cache holds; the number of bytes."""
    folder = cache_folder()
    if folder is None or not folder.is_dir():
        return 0
    freed = size_of(folder)
    for kind in ("images", "features", "backbones"):  # what else is in a folder that the user named is not ours
        shutil.rmtree(folder / kind, ignore_errors=True)
    return freed - size_of(folder)


def _last_use(entry: Path) -> float:
    try:
        return (entry / _ABOUT).stat().st_mtime
    except OSError:  # removed by another process
        return 0.0
