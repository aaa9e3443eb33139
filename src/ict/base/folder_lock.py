"""A lock on a folder or a file, which ends with its process however that ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ict.base.errors import FolderInUse

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(folder: Path, name: Path | None = None, busy: str = "") -> Iterator[None]:
    """Hold the lock of an existing folder or file, or raise FolderInUse.

    `name` is the folder as the user knows it; `busy` is the error's message instead of the one about training.
    """
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderInUse(
                busy or f"another process is training in {name or folder}: wait until it ends, or pass another --out."
            ) from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(handle)
