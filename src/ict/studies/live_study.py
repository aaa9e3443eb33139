"""Shows the running trials of a study: a live table on a terminal, otherwise lines on stderr."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from statistics import fmean

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from ict.base.errors import UserError
from ict.experiment.console import clock, percent
from ict.experiment.progress_line import repeated
from ict.experiment.result import was_tested
from ict.studies.trial import TrialSnapshot

_ENDED = 5  # finished trials in the table
_REFRESH_SECONDS = 1.0


class LiveStudy:
    """The trials of a study on all machines, as its database has them."""

    def __init__(self, snapshots: Callable[[], list[TrialSnapshot]], title: Callable[[TrialSnapshot], str]) -> None:
        """`title` names a trial."""
        self.snapshots, self.title, self.began = snapshots, title, time.monotonic()
        self.trials = snapshots()
        self.printed = {trial.number for trial in self.trials if trial.finished}

    def refresh(self) -> list[str]:
        """Read the database again. Returns a line for each trial that has finished since the last call."""
        try:
            self.trials = self.snapshots()
        except UserError:
            return []  # the workers report what is wrong with the database
        lines = []
        for trial in self.trials:
            if trial.finished and trial.number not in self.printed:
                self.printed.add(trial.number)
                lines.append(f"{self.title(trial)}: {_ending(trial)} ({len(self.printed)} of {len(self.trials)})")
        return lines

    def remaining(self) -> float | None:
        """The estimated seconds left, from the time of whole runs of the same recipe, else of any; None: unknown."""
        wholes: dict[str, list[float]] = {}
        for trial in self.trials:
            if whole := _whole_seconds(trial):
                wholes.setdefault(_group(trial), []).append(whole)
        if not wholes:
            return None
        means = {group: fmean(values) for group, values in wholes.items()}
        usual = fmean(means.values())
        left = [means.get(_group(trial), usual) * (1 - _share(trial)) for trial in self.trials if not trial.finished]
        running = sum(trial.outcome == "running" for trial in self.trials)
        return max(sum(left) / max(running, 1), max(left, default=0.0))

    def __rich__(self) -> Table:
        left = self.remaining()
        done, running = len(self.printed), sum(trial.outcome == "running" for trial in self.trials)
        table = Table("trial", "where", caption_justify="left")
        table.caption = (
            f"{done} of {len(self.trials)} done, {running} running; {clock(time.monotonic() - self.began)} elapsed, "
            f"{'unknown' if left is None else clock(left)} remaining"
        )
        for title in ("updates", "validation error", "outcome"):
            table.add_column(title, justify="right")
        ended = [trial for trial in self.trials if trial.finished and trial.outcome != "failed"]
        shown = {trial.number for trial in ended[-_ENDED:]}
        for trial in self.trials:
            if trial.outcome in ("running", "failed") or trial.number in shown:
                progress = trial.notes.get("progress", {})
                error = progress.get("valid_error")
                table.add_row(
                    escape(self.title(trial)),
                    escape(_where(trial)),
                    f"{_share(trial):.0%}",
                    "" if error is None else percent(error),
                    escape(_ending(trial)) if trial.finished else "",
                )
        return table


@contextmanager
def watch_study(snapshots: Callable[[], list[TrialSnapshot]], title: Callable[[TrialSnapshot], str]) -> Iterator[None]:
    """Show a live table on stderr inside, or print a line per finished trial if stderr is not a terminal."""
    study = LiveStudy(snapshots, title)
    live = Live(console=Console(stderr=True), get_renderable=study.__rich__, transient=True, auto_refresh=False)

    def show() -> None:
        lines = study.refresh()
        if sys.stderr.isatty():
            live.refresh()
        else:
            sys.stderr.writelines(f"{line}\n" for line in lines)
            sys.stderr.flush()

    with live if sys.stderr.isatty() else nullcontext():
        try:
            with repeated(show, _REFRESH_SECONDS):
                yield
        finally:
            show()


def _where(trial: TrialSnapshot) -> str:
    worker = trial.notes.get("worker", {})
    gpu = f" GPU {worker['gpu']}" if worker.get("gpu") else ""
    return f"{worker.get('host', '')}:{worker.get('pid', '')}{gpu}" if worker else ""


def _ending(trial: TrialSnapshot) -> str:
    """The outcome of a finished trial in words."""
    if "error" in trial.notes:
        return str(trial.notes["error"])
    if trial.outcome == "pruned":
        return f"pruned at validation error {percent(next(reversed(trial.curve.values()), None))}"
    result = trial.notes.get("result", {})
    kind = "test" if was_tested(result) else "validation"
    return f"{kind} error {percent(result.get('test_error' if kind == 'test' else 'valid_error'))}"


def _group(trial: TrialSnapshot) -> str:
    return str(trial.notes.get("recipe", ""))


def _share(trial: TrialSnapshot) -> float:
    """The fraction of a trial's updates that are done."""
    progress = trial.notes.get("progress", {})
    if trial.outcome == "complete":
        return 1.0
    return float(progress.get("step", 0) / progress.get("steps", 1)) if trial.outcome != "waiting" else 0.0


def _whole_seconds(trial: TrialSnapshot) -> float | None:
    """The seconds of a whole run, estimated from its progress if it is not complete."""
    source = trial.notes.get("result" if trial.outcome == "complete" else "progress", {})
    seconds, share = source.get("seconds"), _share(trial)
    return seconds / share if seconds and share else None
