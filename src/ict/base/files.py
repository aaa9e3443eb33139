"""Atomic file writes: after a crash a file is the old one or the new one, never half of it."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ict.base.errors import UserError


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Write a temporary file beside `path`, flush it to disk and rename it. An error leaves `path` unchanged.

    A symbolic link stays a link, to the new file. A device or a pipe is written to directly.
    """
    path = path.resolve()
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as file:
            yield file
        return
    check_place(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # so that the rename survives a power cut
    finally:
        os.close(folder)


def check_place(path: Path) -> None:
    """Raise a UserError if `path` is a folder or its parent folder does not exist."""
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a file.")
    if not path.resolve().parent.is_dir():
        raise UserError(f"{path.parent} is not a folder: create it, or write to another place than {path}.")


def check_folder(path: Path, option: str) -> None:
    """Raise a UserError if `path`, which is to be a folder, is a file."""
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file: name a folder with {option}.")


def write_atomic(path: Path, content: bytes) -> None:
    with replacing(path) as file:
        file.write(content)


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file, or a UserError that names the file."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as problem:
        raise UserError(f"{path} cannot be read as JSON ({problem}).") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} does not hold a JSON object.")
    return content


def write_json(path: Path, value: Any) -> None:
    write_atomic(path, (json.dumps(value, indent=2) + "\n").encode())
