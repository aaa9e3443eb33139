"""Workers end with their parent's work, whatever becomes of the signal that tells them to."""

import signal
import time
import warnings
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from ict.experiment.pool import Pipe, crew


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


def warns(pipe: Pipe, message: str) -> tuple[str, Any]:
    warnings.warn(message, stacklevel=2)
    return "result", None


def test_a_workers_warning_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with crew(1, warns) as (pipe,):
        pipe.send("this took long.")
        assert pipe.recv() == ("result", None)
    assert capfd.readouterr().err == "warning: this took long.\n"
