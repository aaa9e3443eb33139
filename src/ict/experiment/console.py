"""The terminal output of a run: a progress bar on stderr and a summary of a few lines."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def progress_bar(total: int, title: str = "", shown: bool = True) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yields a function that takes a record of metrics and moves the bar to its step. Silent without a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    disable = not (shown and sys.stderr.isatty())
    with Progress(*columns, console=Console(stderr=True), disable=disable) as progress:
        task = progress.add_task(title, total=total)

        def advance(record: dict[str, Any]) -> None:
            progress.update(task, completed=record["step"])
            if (error := validation_error(record)) is not None:
                progress.update(task, description=f"{title} validation error {error:.2%}")

        yield advance


def validation_error(record: dict[str, Any]) -> float | None:
    """The validation error of the evaluated network, which is the last one in a record; None without validation."""
    return next((value for key, value in reversed(record.items()) if key.startswith("valid_error_")), None)


def run_summary(result: dict[str, Any], folder: Path) -> str:
    """A summary of a finished run in a few lines."""
    names = {"student": "student", "teacher": "teacher", "swa": "mean of weights"}
    errors = {name: result[f"test_error_{key}"] for key, name in names.items()}
    *others, network = [name for name, value in errors.items() if value is not None] or ["student"]
    shown = {name: errors[name] for name in others} | {"best by validation": result["test_error_best"]}
    details = ", ".join(f"{name} {percent(value)}" for name, value in shown.items() if value is not None)
    partial = f" (partial: {result['n_test']} test examples)" if result["partial"] else ""
    return "\n".join(
        [
            f"{result['recipe']} seed {result['seed']}: test error {percent(result['test_error'])} "
            f"({network}{'; ' + details if details else ''}){partial}",
            f"{result['steps']} updates in {result['seconds']:.1f} s on {result['device']}",
            f"{folder}",
        ]
    )


def clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def percent(fraction: float | None) -> str:
    return "unknown" if fraction is None else f"{100 * fraction:.2f} %"
