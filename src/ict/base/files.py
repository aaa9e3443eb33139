"""Files that are either the old one or the new one, never something between."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ict.base.errors import UserError


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file beside `path`, forced to disk and renamed at the end; an error leaves `path` as it was and no litter.

    A link stays one, to the new file. What is no file, such as a device or a pipe, is written to instead.
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
        os.fsync(folder)  # the rename itself must survive a power cut
    finally:
        os.close(folder)


def check_place(path: Path) -> None:
    """Refuse the name of a file in a folder that is not there, or that is a folder itself."""
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a file.")
    if not path.resolve().parent.is_dir():
        raise UserError(f"{path.parent} is no folder: make it, or name another place than {path}.")


def check_folder(path: Path, option: str) -> None:
    """Refuse the name of a folder that is a file already."""
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file: name a folder with {option}.")


def write_atomic(path: Path, content: bytes) -> None:
    with replacing(path) as file:
        file.write(content)


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file, or a UserError that names it."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as problem:
        raise UserError(f"{path} cannot be read as JSON ({problem}).") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} does not hold a JSON object.")
    return content


def write_json(path: Path, value: Any) -> None:
    write_atomic(path, (json.dumps(value, indent=2) + "\n").encode())
