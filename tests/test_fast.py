"""The fast step without a GPU: streams and graphs are stood in for, so only what it computes is checked.

A replay runs the captured Python code again. Without a GPU nothing is rounded to half precision.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from ict.algorithms import ALGORITHMS
from ict.engine.fast import Captured
from ict.engine.step import update
from ict.job import Job, load_data, prepare
from ict.recipe import Recipe, change
from tests.tiny import tiny

CPU = torch.device("cpu")


class Stream:
    def wait_stream(self, _: "Stream") -> None: ...

    def wait_event(self, _: "Stream") -> None: ...

    def record(self) -> None: ...


class Graph:
    def register_generator_state(self, _: torch.Generator) -> None: ...


@contextmanager
def nothing(*_: object, **__: object) -> Iterator[None]:
    yield


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Stream", "Event", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, Stream)
    for name in ("graph", "stream"):
        monkeypatch.setattr(torch.cuda, name, nothing)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)


def job(recipe: Recipe) -> Job:
    return prepare(recipe, 3, load_data(recipe, 3), None, CPU)


def captured(run: Job) -> Captured:
    step = Captured(run.program, run.state, fast=True)

    def replay() -> None:
        step.loss = step._captured()

    vars(step.graph)["replay"] = replay
    return step


def losses(run: Job, step: Any, n: int) -> list[dict[str, float]]:
    seen = []
    for _ in range(n):
        step(run.program, run.state)
        seen.append({name: value.item() for name, value in run.state.sums.items()})
        run.state.sums = {}
    return seen


@pytest.mark.parametrize(
    "settings",
    [
        *([f"algorithm={name}"] for name in ALGORITHMS),
        ["algorithm=vat", "algorithm.entropy=1"],
        ["train.labeled_order=repeated"],
        ["algorithm=mean-teacher", "train.layout=joined", "inputs.noise=0.1"],
        ["average.when=before", "optimizer.name=adam"],
        ["algorithm.depth=1"],
        ["optimizer.final_momentum=0.5"],
    ],
    ids=" ".join,
)
def test_the_fast_step_computes_what_the_eager_one_does(settings: list[str]) -> None:
    name = settings[0].removeprefix("algorithm=") if settings[0].startswith("algorithm=") else "ict"
    recipe = change(tiny(name), [*settings, "network.dropout=0", "optimizer.lr=0.01"])
    eager, fast = job(recipe), job(recipe)
    expected = losses(eager, update, 6)
    found = losses(fast, captured(fast), 6)
    assert len(expected[0]) > 1
    for a, b in zip(found, expected, strict=True):
        assert a == pytest.approx(b, rel=3e-3, abs=1e-5)
    for p, q in zip(fast.state.student.parameters(), eager.state.student.parameters(), strict=True):
        assert (p - q).norm() < 0.01 * q.norm() + 1e-4
    assert fast.state.step == eager.state.step == 6
