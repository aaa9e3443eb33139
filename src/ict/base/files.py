"""Atomic file writes: after a crash a file is the old one or the new one, never half of it."""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any

from ict.base.errors import UserError
from ict.base.reading import bytes_of, check_file, reading

LARGEST_JSON = 100_000_000  # bytes
_LEFTOVER = re.compile(r"\..+\.(\d+)-\d+\.tmp")
_numbers = count()


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
    remove_leftovers(path.parent)
    temporary = temporary_beside(path)
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as problem:
        temporary.unlink(missing_ok=True)
        if isinstance(problem, OSError) and problem.filename in (None, str(temporary)):
            problem.filename = str(path)  # a failed write names no file
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def temporary_beside(path: Path) -> Path:
    """A name for what will be renamed to `path`: .NAME.PROCESS-NUMBER.tmp, no other thread's either."""
    return path.with_name(f".{path.name}.{os.getpid()}-{next(_numbers)}.tmp")


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files and folders of processes that were killed while they wrote into `folder`."""
    with os.scandir(folder) as entries:
        old = [entry.name for entry in entries if (found := _LEFTOVER.fullmatch(entry.name)) and _is_gone(found[1])]
    for name in old:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _is_gone(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # another user's
        return False
    return False


def check_place(path: Path) -> None:
    """Raise a UserError if `path` is a folder, or its parent folder does not exist or cannot be written to."""
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a file.")
    if not path.resolve().parent.is_dir():
        raise UserError(f"{path.parent} is not a folder: create it, or write to another place than {path}.")
    if not os.access(path.resolve().parent, os.W_OK):
        raise UserError(f"{path.parent} cannot be written to: write to another place than {path}.")


def check_folder(path: Path, option: str = "") -> None:
    """Raise a UserError if `path`, which is to be a folder, is a file. `option`: what the user names it by, if any."""
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file: name a folder{option and f' with {option}'}.")


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Several files that belong together: none is replaced before all are on the disk."""
    with ExitStack() as stack:
        for path, content in contents.items():
            file = stack.enter_context(replacing(path))
            file.write(content)
            file.flush()
            if path.is_file() or not path.exists():  # not a device
                os.fsync(file.fileno())


def as_json(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def check_outside(path: Path, data: Path, option: str = "--out") -> None:
    """Raise a UserError if `path` is `data`, a user's file or folder that is only read, or lies inside it."""
    if path.resolve().is_relative_to(data.resolve()):
        raise UserError(f"{path} is inside {data}, which must not change: name another place with {option}.")


def write_atomic(path: Path, content: bytes) -> None:
    with replacing(path) as file:
        file.write(content)


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file, or a UserError that names the file."""
    return json_object(bytes_of(path, "JSON", LARGEST_JSON), path)


def json_object(raw: bytes | str, source: Path | str) -> dict[str, Any]:
    """The JSON object in a string or in UTF-8, or a UserError that names its source."""
    with reading(source, "JSON"):
        content = json.loads(raw if isinstance(raw, str) else raw.decode(), parse_int=_whole)
        json.dumps(content, ensure_ascii=False).encode()  # half a character by its number could not be printed
    if not isinstance(content, dict):
        raise UserError(f"{source} does not hold a JSON object.")
    return content


def text_lines(path: Path) -> list[str]:
    """The lines of a text file, or a UserError that names the file."""
    check_file(path)
    with reading(path, "text"):
        return path.read_text("utf-8").splitlines()


def _whole(digits: str) -> int:
    """No number that this program writes has more digits than a seed."""
    if len(digits) > 30:
        raise ValueError("it holds a number of more than 30 digits")
    return int(digits)


def write_json(path: Path, value: Any) -> None:
    write_atomic(path, as_json(value))
