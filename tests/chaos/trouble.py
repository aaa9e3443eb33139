"""Trouble for this process: a kill or an error at one of its file operations, or a limit on the size of files."""

import errno
import os
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

_WATCHED = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.link", "os.symlink"}
Kind = Literal["kill", "error", "full"]


@dataclass(frozen=True)
class Trouble:
    """`at`: the number of the file operation that is struck, or of the bytes that any file may have."""

    kind: Kind
    at: int

    def begin(self, root: Path) -> None:
        if self.kind == "full":
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that a write past the limit is an error
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.at, resource.RLIM_INFINITY))
        else:
            _at_each_operation(root, self._strike)

    def _strike(self, number: int) -> None:
        if number != self.at:
            return
        if self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def counting(root: Path) -> Callable[[], int]:
    """The number of file operations below `root` from now on."""
    count = [0]

    def note(number: int) -> None:
        count[0] = number + 1

    _at_each_operation(root, note)
    return lambda: count[0]


def _at_each_operation(root: Path, call: Callable[[int], None]) -> None:
    """Call with the number of each operation on files below `root`, before it is done. It cannot be taken back."""
    below, number = f"{root}{os.sep}", [0]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _WATCHED and isinstance(arguments[0], str | bytes) and os.fsdecode(arguments[0]).startswith(below):
            number[0] += 1
            call(number[0] - 1)

    sys.addaudithook(hook)
