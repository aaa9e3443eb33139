"""One line for a whole job: its stage, how much of that is done, and the time left.

On a terminal the line moves; in a notebook it is a bar below the cell; elsewhere it is printed every five seconds. It
is drawn by a thread of its own, so a job is never silent for longer, whatever it computes.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from importlib import import_module
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from ict.experiment.console import clock

EVERY = 5.0  # seconds between printed lines
_OFTEN = 0.5  # seconds between updates in a notebook
_ENOUGH = 1.0  # seconds of a stage after which its pace is believed
_BAR = 24  # characters


@dataclass(frozen=True)
class _Stage:
    name: str
    began: float
    count: int | None = None  # items done, or the number of the unit under way
    total: int | None = None
    finished: float = 0.0  # of `total`, with the part of the unit under way
    detail: str = ""
    then: int | None = None  # units after this stage that take as long as its own; None: unknown

    @property
    def share(self) -> float | None:
        return min(self.finished / self.total, 1.0) if self.total else None


class ProgressLine:
    """How far a job is. The job reports to it and another thread may draw it."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._began = now()
        self._stage = _Stage("starting", self._began)

    def __call__(self, stage: str, done: int | None = None, total: int | None = None) -> None:
        """So many items of a stage are done, of a total if that is known."""
        self._set(stage, count=done, total=total, finished=float(done or 0), then=None, detail="")

    def unit(
        self, stage: str, number: int, total: int, detail: str = "", then: int | None = 0, share: float = 0.0
    ) -> None:
        """The unit of this number, from 1, is under way. `then`: as many units of such length follow the stage.

        `share`: of the unit that is done, or of several that are under way together.
        """
        self._set(stage, count=number, total=total, finished=number - 1 + share, then=then, detail=detail)

    def part(self, share: float) -> None:
        """This share of the unit under way is done."""
        if self._stage.count is not None:
            self._stage = replace(self._stage, finished=self._stage.count - 1 + share)

    def _set(self, name: str, **values: Any) -> None:
        now = self._stage
        goes_on = name == now.name and values["finished"] >= now.finished
        self._stage = _Stage(name, now.began if goes_on else self._now(), **values)

    @property
    def share(self) -> float | None:
        """The share of the stage that is done, if known."""
        return self._stage.share

    @property
    def words(self) -> str:
        """The stage, such as "comparing 4 of 9: trees"."""
        stage = self._stage
        count = ""
        if stage.total == 1:
            count = f" {100 * stage.finished:.0f} %"
        elif stage.count:
            count = f" {stage.count:,}" + (f" of {stage.total:,}" if stage.total else "")
        return f"{stage.name}{count}" + (f": {stage.detail}" if stage.detail else "")

    @property
    def times(self) -> str:
        """The time that the job has taken, and what is left of it or at least of the stage."""
        stage, now = self._stage, self._now()
        passed = f"{clock(now - self._began)} so far"
        if not stage.total or stage.finished <= 0 or now - stage.began < _ENOUGH:
            return passed
        pace = (now - stage.began) / stage.finished
        left = pace * max(stage.total - stage.finished + (stage.then or 0), 0.0)
        return f"{passed}, about {clock(left)} left{' of this stage' if stage.then is None else ''}"

    def __str__(self) -> str:
        return f"{self.words}; {self.times}"


SILENT = ProgressLine()  # takes reports and is never drawn


@contextmanager
def progress_line(shown: bool = True) -> Iterator[ProgressLine]:
    """Inside, the line that this yields is drawn on stderr or below a notebook's cell."""
    line = ProgressLine()
    if not shown:
        yield line
    elif (display := _notebook()) is not None:
        handle = display(_Bar(line), display_id=True)
        try:
            with repeated(lambda: handle.update(_Bar(line)), _OFTEN):
                yield line
        finally:
            handle.update(_Bar(line, over=True))
    elif sys.stderr.isatty():
        console = Console(stderr=True)
        with Live(console=console, get_renderable=lambda: _row(line, console.width), transient=True):
            yield line
    else:
        with repeated(lambda: _print(line), EVERY):
            yield line


@contextmanager
def repeated(draw: Callable[[], object], seconds: float) -> Iterator[None]:
    """Inside, a thread draws every few seconds."""
    over = threading.Event()

    def run() -> None:
        try:
            while not over.wait(seconds):
                draw()
        except OSError:  # nobody reads stderr any more, which is no reason to end the job
            return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _print(line: ProgressLine) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _row(line: ProgressLine, width: int) -> Table:
    """The line on a terminal."""
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(no_wrap=True, overflow="ellipsis")
    cells: list[Any] = [line.words]
    share = line.share
    if width >= 4 * _BAR and share is not None:
        row.add_column()
        cells.append(ProgressBar(total=1.0, completed=share, width=_BAR))
    row.add_column(no_wrap=True)
    row.add_row(*cells, line.times)
    return row


class _Bar:
    """The line in a notebook."""

    def __init__(self, line: ProgressLine, over: bool = False) -> None:
        self.text = f"finished; {line.times.partition(',')[0]}" if over else str(line)
        self.share = 1.0 if over else line.share

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        value = "" if self.share is None else f' value="{self.share:.3f}"'
        return f'<progress max="1"{value} style="width: 16em"></progress> {escape(self.text)}'


def _notebook() -> Callable[..., Any] | None:
    """IPython's `display` in a notebook, else None."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    show: Callable[..., Any] = import_module("IPython.display").display
    return show
