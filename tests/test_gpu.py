"""What needs a GPU: the captured step is the eager one bit for bit, fast mode stays close to it, nothing waits."""

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from ict.algorithms import ALGORITHMS
from ict.engine.fast import Captured
from ict.engine.step import update
from ict.recipe import Recipe, change
from ict.run import Job, load_data, prepare, train, untouched_globals
from tests.tiny import same_bits, tiny

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # torch's compiler uses what torch deprecates
]
CUDA = torch.device("cuda", 0)
every_algorithm = pytest.mark.parametrize("name", list(ALGORITHMS))


def job(recipe: Recipe) -> Job:
    return prepare(recipe, 3, load_data(recipe, 3), None, CUDA)


def losses(recipe: Recipe, n: int, kind: str) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The loss of each of n updates, and the student they end with."""
    with untouched_globals(CUDA, exact=kind != "fast"):
        run = job(recipe)
        step: Any = update if kind == "eager" else Captured(run.program, run.state, fast=kind == "fast", compile=True)
        seen = []
        for _ in range(n):
            step(run.program, run.state)
            seen.append(run.state.sums.pop("loss").item())
        return seen, {k: v.clone() for k, v in run.state.student.state_dict().items()}


@every_algorithm
def test_captured_is_eager_bit_for_bit(name: str) -> None:
    recipe = change(tiny(name), [])
    eager, eager_weights = losses(recipe, 20, "eager")
    captured, captured_weights = losses(recipe, 20, "captured")
    assert eager == captured and all(torch.equal(eager_weights[k], captured_weights[k]) for k in eager_weights)


@pytest.mark.parametrize(
    "settings",
    [
        ["train.labeled_order=repeated"],
        ["algorithm=mean-teacher", "train.layout=joined", "inputs.noise=0.1"],
        ["average.when=before", "optimizer.name=adam"],
        ["algorithm.depth=1"],
    ],
)
def test_captured_is_eager_for_other_machinery(settings: list[str]) -> None:
    recipe = change(tiny(), settings)
    assert losses(recipe, 12, "eager")[0] == losses(recipe, 12, "captured")[0]


@every_algorithm
def test_fast_stays_close_to_exact_over_50_steps(name: str) -> None:
    recipe = change(tiny(name), ["train.steps=50", "network.dropout=0", "optimizer.lr=0.01", "network.width=16"])
    exact, _ = losses(recipe, 50, "captured")
    fast, _ = losses(recipe, 50, "fast")
    assert exact == pytest.approx(fast, rel=0.05)


def test_the_teacher_follows_the_student_in_fast_mode() -> None:
    recipe = change(tiny(), ["average.warmup=false", "average.decay=0.5"])
    with untouched_globals(CUDA, exact=False):
        run = job(recipe)
        step = Captured(run.program, run.state, fast=True)
        assert run.state.ema is not None
        expected = [p.clone() for p in run.state.ema.module.parameters()]
        for _ in range(5):
            step(run.program, run.state)
            expected = [0.5 * t + 0.5 * s for t, s in zip(expected, run.state.student.parameters(), strict=True)]
        for t, e in zip(run.state.ema.module.parameters(), expected, strict=True):
            torch.testing.assert_close(t, e)


@pytest.mark.parametrize("fast", [False, True])
@every_algorithm
def test_no_host_synchronisation_in_a_step(name: str, fast: bool) -> None:
    with untouched_globals(CUDA, exact=not fast):
        run = job(change(tiny(name), []))
        step = Captured(run.program, run.state, fast=fast)
        step(run.program, run.state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says that this mode is a prototype
            torch.cuda.set_sync_debug_mode("error")
            try:
                for _ in range(10):
                    step(run.program, run.state)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        assert run.state.step == 11, "a synchronization would have raised before"


def test_killed_on_the_gpu_and_resumed_is_bitwise(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _TRAIN, str(tmp_path / "cut")]
    child = subprocess.Popen(command)
    while not list(tmp_path.glob("cut/checkpoint-*.pt")) and child.poll() is None:
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    settings = ["train.steps=3000"]
    resumed = train(tiny(), settings=settings, out=tmp_path / "cut", resume=True, device="cuda")
    assert resumed.result["resumed_from"] and same_bits(train(tiny(), settings=settings, device="cuda"), resumed)


_TRAIN = """
import sys
from ict.run import train
from tests.tiny import tiny
train(tiny(), settings=["train.steps=3000"], out=sys.argv[1], device="cuda", checkpoint_seconds=0.2)
"""
