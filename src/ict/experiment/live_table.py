"""Shows several runs while they train: a live table on a terminal, otherwise a line per finished run."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean

from rich.console import Console
from rich.live import Live
from rich.table import Table

from ict.engine.loop import Record
from ict.experiment.console import clock, percent, validation_error
from ict.experiment.pool import Task
from ict.experiment.result import Result, was_tested


@dataclass
class _Progress:
    """The progress of one run."""

    steps: int
    step: int = 0
    seconds: float = 0.0
    valid_error: float | None = None
    result: Result | None = None


class LiveTable:
    """A table with one row per recipe, from the records and results of runs."""

    def __init__(self, tasks: Sequence[Task], names: Sequence[str], workers: int) -> None:
        """`names`: the recipes in the order of their rows."""
        self.workers, self.began = workers, time.monotonic()
        self.runs: list[_Progress] = []
        self.rows: dict[str, list[_Progress]] = {name: [] for name in names}
        self.add(tasks)

    def add(self, tasks: Sequence[Task]) -> None:
        """Take further runs of the same recipes' names."""
        for task in tasks:
            self.runs.append(_Progress(task.recipe.train.steps))
            self.rows[task.recipe.name].append(self.runs[-1])

    def progress(self, index: int, record: Record) -> None:
        run = self.runs[index]
        run.step, run.seconds = record["step"], record["seconds"]
        if (error := validation_error(record)) is not None:
            run.valid_error = error

    def finished(self, index: int, result: Result) -> None:
        run = self.runs[index]
        run.result, run.step = result, run.steps
        run.seconds, run.valid_error = result.get("seconds", 0.0), result.get("valid_error", run.valid_error)

    def remaining(self) -> float | None:
        """The estimated seconds left, from the mean time of an update of each recipe; None before any is known."""
        paces = {n: fmean(p) for n, runs in self.rows.items() if (p := [r.seconds / r.step for r in runs if r.seconds])}
        if not paces:
            return None
        usual = fmean(paces.values())
        left = [(r.steps - r.step) * paces.get(name, usual) for name, runs in self.rows.items() for r in runs]
        busy = min(self.workers, sum(run.result is None for run in self.runs))
        return max(sum(left) / max(busy, 1), max(left))

    def __rich__(self) -> Table:
        elapsed, left = time.monotonic() - self.began, self.remaining()
        times = f"{clock(elapsed)} elapsed, {'unknown' if left is None else clock(left)} remaining"
        table = Table("method", caption=times, caption_justify="left")
        for title in ("runs", "updates", "validation error", "test error"):
            table.add_column(title, justify="right")
        for name, runs in self.rows.items():
            valid = [run.valid_error for run in runs if run.valid_error is not None]
            results = [run.result for run in runs if run.result is not None]
            tested = [result for result in results if was_tested(result)]
            table.add_row(
                name.partition("/")[2],
                f"{len(results)}/{len(runs)}",
                f"{sum(run.step for run in runs) / max(sum(run.steps for run in runs), 1):.0%}",
                percent(fmean(valid)) if valid else "",
                ", ".join("diverged" if "diverged" in result else percent(result["test_error"]) for result in tested),
            )
        return table


@contextmanager
def watch(tasks: Sequence[Task], names: Sequence[str], workers: int) -> Iterator[LiveTable]:
    """Show a live table on stderr inside, or print a line per finished run if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield _Lines(tasks, names, workers)
        return
    table = LiveTable(tasks, names, workers)
    with Live(console=Console(stderr=True), get_renderable=table.__rich__, transient=True):
        yield table


class _Lines(LiveTable):
    def finished(self, index: int, result: Result) -> None:
        super().finished(index, result)
        done = sum(run.result is not None for run in self.runs)
        text = f"{result['recipe']} seed {result['seed']}: {_outcome(result)} ({done} of {len(self.runs)} runs)"
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def _outcome(result: Result) -> str:
    if "diverged" in result:
        return "diverged"
    if was_tested(result):
        return f"test error {percent(result['test_error'])}"
    return f"validation error {percent(result['valid_error'])}"
