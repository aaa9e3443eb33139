"""What is told on stderr, and the exit codes; once, however many processes share a run."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from ict.base.errors import show_warning


def speaks() -> bool:
    """Whether this process is the only one of its run, or the first."""
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
        time.sleep(1)  # torchrun ends all ranks once one has ended, and the first has something to say
    sys.exit(code)


@contextmanager
def interruptible(how: str) -> Iterator[None]:
    """Ctrl-C and SIGTERM, told before typer would end the command without a word."""
    try:
        yield
    except KeyboardInterrupt:
        fail(f"interrupted; {how} goes on from the last checkpoint.", 130)
