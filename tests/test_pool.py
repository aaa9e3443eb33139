"""Workers end with their parent's work, whatever becomes of the signal that tells them to."""

import multiprocessing
import signal
import time
import warnings
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from ict.base.interrupts import stops_interrupt
from ict.experiment import pool
from ict.experiment.pool import Pipe, Task, crew, stop_if_hung_up
from ict.recipes.recipe import change
from tests.tiny import tiny


def deaf_at_first(pipe: Pipe, task: tuple[Path, bool]) -> tuple[str, Any]:
    """Like an import that swallows what a signal raises."""
    started, deaf = task
    if deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    started.touch()
    while deaf and not started.with_suffix(".told").exists():
        time.sleep(0.01)
    pipe.send(("record", {}))
    return "result", None


def test_a_worker_that_misses_the_signal_ends_with_its_task(tmp_path: Path) -> None:
    started = tmp_path / "task"
    with pytest.raises(ValueError, match="of one task"), crew(2, deaf_at_first) as pipes:
        pipes[0].send((started, True))
        pipes[1].send((tmp_path / "other", False))
        while not started.exists():
            time.sleep(0.01)
        Timer(0.5, started.with_suffix(".told").touch).start()  # when the signal to stop has come and gone
        raise ValueError("of one task")
    with pytest.raises(OSError, match="closed"):
        pipes[0].poll()


def deaf(pipe: Pipe, ended: Path) -> tuple[str, Any]:
    """A task without end that hears no signal from outside."""
    for _ in range(1000):
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        pipe.send(("record", {}))
        time.sleep(0.02)
        while signal.sigtimedwait((signal.SIGINT, signal.SIGTERM), 0):
            pass
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
        try:
            stop_if_hung_up(pipe)
        except KeyboardInterrupt:
            ended.touch()
            raise
    return "result", None


def test_a_worker_that_misses_the_signal_in_an_endless_task_is_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_PATIENCE", 0.1)
    with pytest.raises(KeyboardInterrupt), crew(1, deaf) as (pipe,):
        pipe.send(tmp_path / "ended")
        assert pipe.recv() == ("record", {})
        raise KeyboardInterrupt
    assert (tmp_path / "ended").exists()


def test_a_run_whose_parent_hung_up_saves_a_checkpoint_and_stops(tmp_path: Path) -> None:
    ours, theirs = multiprocessing.Pipe()
    pool._hang_up(ours)
    recipe = change(tiny(), ("train.steps=1000", "eval.every=1000", "eval.log_every=5", "network.width=2"))
    with pytest.raises(KeyboardInterrupt), stops_interrupt():
        pool._run(theirs, Task(recipe, 0, tmp_path / "run"))
    assert ours.recv()[1]["step"] == 5, "what was computed still arrives"
    assert [path.name for path in (tmp_path / "run").glob("checkpoint*")] == ["checkpoint-000000005.pt"]


def warns(pipe: Pipe, message: str) -> tuple[str, Any]:
    warnings.warn(message, stacklevel=2)
    return "result", None


def test_a_workers_warning_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with crew(1, warns) as (pipe,):
        pipe.send("this took long.")
        assert pipe.recv() == ("result", None)
    assert capfd.readouterr().err == "warning: this took long.\n"
