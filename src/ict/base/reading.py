"""Turns any exception of a parser into a UserError with one sentence that names the file."""

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ict.base.errors import UserError

# Limits on the unpacked arrays of a compressed file. A few bytes can claim any size; real data is far below.
UNPACKED = 1_000_000_000
RATIO = 100


@contextmanager
def reading(path: Path | str, kind: str, advice: str = "repair it or write it again") -> Iterator[None]:
    """Turn what a parser raises inside into one UserError: `path` cannot be read as `kind`.

    Damaged files make parsers raise almost anything, so this catches every Exception. Wrap only the parser's call, so
    that a bug in this program still gives a traceback.
    """
    try:
        yield
    except UserError:
        raise
    except MemoryError:
        raise UserError(f"{path} needs more memory than there is: free some or use a smaller file.") from None
    except RecursionError:
        raise UserError(f"{path} cannot be read as {kind} (it is nested too deeply): {advice}.") from None
    except Exception as problem:
        if isinstance(problem, OSError) and problem.errno is not None:  # a parser's own have no number
            advice = "check that it and its drive are there, and its permissions"
        raise UserError(f"{path} cannot be read as {kind} ({cause(problem)}): {advice}.") from None


def cause(problem: Exception) -> str:
    """The reason of a failure, in one line without a full stop."""
    text = (problem.strerror if isinstance(problem, OSError) else None) or str(problem).strip()
    lines = [line.strip() for line in text.splitlines()] or [type(problem).__name__]
    # torch lists one tensor per line below a heading
    chosen = lines[1] if len(lines) > 1 and lines[0].endswith(":") else lines[0]
    return chosen.rstrip(".")[:200]


def check_file(path: Path, at_most: int | None = None) -> int:
    """The size of a file; a UserError if it does not exist, has more than `at_most` bytes, or is a folder or a pipe,
    which could block forever."""
    try:
        status = path.stat()
    except (OSError, ValueError) as problem:
        raise UserError(f"{path} cannot be read ({cause(problem)}): check its name and permissions.") from None
    if not stat.S_ISREG(status.st_mode):
        raise UserError(f"{path} is not a regular file: name a file.")
    if at_most is not None and status.st_size > at_most:
        raise UserError(f"{path} has {status.st_size:,} bytes, more than the {at_most:,} that such a file may have.")
    return status.st_size


def bytes_of(path: Path, kind: str, at_most: int, advice: str = "repair it or write it again") -> bytes:
    """The content of a regular file of at most so many bytes."""
    check_file(path, at_most)
    with reading(path, kind, advice):
        return path.read_bytes()


def check_unpacked(path: Path, size: int, advice: str = "write it without compression") -> None:
    """Raise a UserError if a file claims that its content needs far more memory than the file itself."""
    limit = max(UNPACKED, RATIO * path.stat().st_size)
    if size > limit:
        raise UserError(f"{path} says that it unpacks to {size:,} bytes, more than its limit of {limit:,}: {advice}.")
