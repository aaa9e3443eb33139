"""The whole comparison of methods on the labels so far: `ict fit` in a process of its own, one at a time."""

import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ict.base.errors import UserError

_NICE = 10


class FitNow:
    """`words` are the arguments of `ict fit`; the model goes to the first of model, model-2, ... that is free."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = tuple(words)
        self.skip_bad = False  # some examples cannot be read
        self.text = ""  # what the last fit said
        self.ended: int | None = None  # its exit code
        self._process: subprocess.Popen[str] | None = None

    @property
    def command(self) -> str:
        return shlex.join(["ict", "fit", *self._words, *self._skip])

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self, finished: Callable[[], None]) -> None:
        """`finished` is called by another thread."""
        if self.is_running:
            raise UserError("a fit is running already: wait until it ends.")
        out = _free(Path("model"))
        words = [sys.executable, "-m", "ict", "fit", *self._words, *self._skip, "--out", str(out)]
        self.text, self.ended = "", None
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C in the terminal is for the page
        )
        with suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICE)
        threading.Thread(target=self._wait, args=(self._process, finished), daemon=True).start()

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    @property
    def _skip(self) -> list[str]:
        return ["--skip-bad"] if self.skip_bad else []

    def _wait(self, process: "subprocess.Popen[str]", finished: Callable[[], None]) -> None:
        text, _ = process.communicate()
        self.text, self.ended, self._process = text.strip(), process.returncode, None
        finished()


def _free(out: Path) -> Path:
    number, place = 1, out
    while place.exists():
        number += 1
        place = out.with_name(f"{out.name}-{number}")
    return place
