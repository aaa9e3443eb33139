"""Messages on stderr and exit codes. When several processes share a run, only the first one prints."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from ict.base.errors import show_warning
from ict.base.interrupts import signal_of


def speaks() -> bool:
    """Whether this process prints: it is the only one of its run, or the first."""
    return os.environ.get("RANK", "0") == "0"


def warn(message: Warning | str, *_: object, **__: object) -> None:
    """In place of `warnings.showwarning`."""
    if speaks():
        show_warning(message)


def fail(message: str, code: int) -> NoReturn:
    """End the command with one sentence and an exit code."""
    if speaks():
        typer.echo(f"error: {message}", err=True)
    else:
        time.sleep(1)  # torchrun kills all ranks once one has ended, and the first must still print the error
    sys.exit(code)


@contextmanager
def interruptible(how: str) -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into a message; typer alone would end the command silently."""
    try:
        yield
    except KeyboardInterrupt as stop:
        fail(f"interrupted; run {how} to continue from the last checkpoint.", 128 + signal_of(stop))
