"""The fast step without a GPU: streams and graphs are stood in for, so only what it computes is checked.

A replay runs the captured Python code again. Without a GPU nothing is rounded to half precision.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from ict.algorithms import ALGORITHMS
from ict.contract import Batch, Draws, Loss, Needs, Network
from ict.engine.fast.cuda_graph import Captured
from ict.engine.fast.forward import FastForward
from ict.engine.host_batches import Fetcher
from ict.engine.step import update
from ict.experiment.prepare import Job, load_data, prepare
from ict.ops import cross_entropy, one_hot
from ict.recipes.recipe import Recipe, change
from tests.tiny import tiny

CPU = torch.device("cpu")


class Stream:
    def __init__(self, *_: object) -> None: ...

    def wait_stream(self, _: "Stream") -> None: ...

    def wait_event(self, _: "Stream") -> None: ...

    def record(self, _: "Stream | None" = None) -> None: ...

    def synchronize(self) -> None: ...


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
        ["algorithm=vat", "algorithm.xi=0", "algorithm.entropy=1"],
        ["train.labeled_order=repeated"],
        ["algorithm.logging_forwards=true", "algorithm.targets=logits", "optimizer.nesterov=false"],
        ["algorithm=mean-teacher", "train.layout=joined", "inputs.noise=0.1"],
        ["average.when=before", "optimizer.name=adam"],
        ["average.decay=none", "train.rampup=0", "train.weight=100"],  # its own teacher, from which no gradient comes
        ["optimizer.name=muon", "optimizer.turn=0.03"],
        ["algorithm.depth=1"],
        ["optimizer.final_momentum=0.5"],
        # more than half of the 1,597 unlabeled digits, so that every update but the first meets its memory again
        ["algorithm=temporal-ensembling", "train.unlabeled_batch=1000"],
        ["swa.start=0.1", "swa.every=0.1"],
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
    for p, q in zip(trained(fast), trained(eager), strict=True):
        assert (p - q).norm() < 0.01 * q.norm() + 1e-4
    assert fast.state.step == eager.state.step == 6


def trained(run: Job) -> list[Tensor]:
    """All that updates change, but for running statistics and the optimizer."""
    state = run.state
    networks = [state.student, *(average.module for average in (state.ema, state.swa) if average)]
    memory = [] if state.memory is None else [state.memory]
    return [*(p for network in networks for p in network.parameters()), *memory]


def test_the_first_step_without_a_finite_loss_is_noted() -> None:
    run = job(change(tiny("supervised"), []))
    step = captured(run)
    losses(run, step, 2)
    with torch.no_grad():
        next(run.state.student.parameters()).fill_(torch.nan)
    losses(run, step, 2)
    assert int(run.state.first_bad) == 2


def test_sums_that_a_checkpoint_brought_go_on() -> None:
    run = job(change(tiny("supervised"), []))
    run.state.sums, run.state.n_summed = {"loss": torch.tensor(5.0)}, 3
    step = captured(run)
    step(run.program, run.state)
    alone = job(change(tiny("supervised"), []))
    (first,) = losses(alone, captured(alone), 1)
    assert run.state.sums["loss"].item() == pytest.approx(5 + first["loss"]) and run.state.n_summed == 4


@dataclass(frozen=True)
class Probing:
    """A loss with gradients of what it is given, as adversarial methods have them."""

    needs = Needs(views=1, teacher=True)

    def loss(self, student: Network, teacher: Network, batch: Batch, w: Tensor, rng: Draws) -> Loss:
        u, noise = batch.u[0].requires_grad_(), rng.normal_like(batch.x).requires_grad_()
        found = torch.autograd.grad(student(u).sum() + student(batch.x + noise).sum(), [u, noise])
        x, y = batch.x + 0.1 * found[1].sign(), batch.y
        total = cross_entropy(student(x), one_hot(y, like=student(x))) + student(u + found[0].sign()).square().mean()
        return Loss(total, {"supervised": total.detach()})


def test_a_loss_may_ask_for_gradients_of_its_batch_and_its_draws() -> None:
    recipe = change(tiny(), ["algorithm=tests.test_fast:Probing", "network.dropout=0", "optimizer.lr=0.01"])
    eager, quick = job(recipe), job(recipe)
    for a, b in zip(losses(quick, captured(quick), 4), losses(eager, update, 4), strict=True):
        assert a == pytest.approx(b, rel=3e-3)


def test_only_the_first_forward_of_the_teacher_runs_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one would use memory that the first has freed, and write the same statistics."""
    beside: list[object] = []

    @contextmanager
    def stream(which: object) -> Iterator[None]:
        beside.append(which)
        yield

    monkeypatch.setattr(torch.cuda, "stream", stream)
    run = job(change(tiny("mean-teacher"), []))
    batch = run.program.batches.at(0, run.program.rng)
    teacher = FastForward(run.state.evaluated, gradient=False, beside=True)
    for _ in range(2):
        teacher.received(batch)
        teacher(batch.u[0]), teacher(batch.u[0])
    assert beside == [teacher.stream] * 2


def test_fetched_batches_are_copied_through_memory_that_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    empty = torch.empty

    def counted(shape: Any, *, pin_memory: bool = False, **options: Any) -> Tensor:
        asked.append(pin_memory)
        return empty(shape, **options)

    monkeypatch.setattr(torch, "empty", counted)
    monkeypatch.setattr(Tensor, "record_stream", lambda *_: None)
    x = torch.arange(60).reshape(20, 3)
    fetch = Fetcher(x, CPU)
    last: list[Tensor] = []
    for n in range(10):
        wanted = torch.tensor([n, 2 * n]), torch.tensor([19, n, 0])
        kept = [tensor.clone() for tensor in last]
        labeled, unlabeled, *examples = fetch(wanted)
        assert all(map(torch.equal, last, kept)), "the batch before is still read while the next one comes"
        assert all(map(torch.equal, (labeled, unlabeled, *examples), (*wanted, *(x[rows] for rows in wanted))))
        last = [labeled, unlabeled, *examples]
    assert asked.count(True) == asked.count(False) == 4 * len(fetch.slots) < 4 * 10
    with pytest.raises(IndexError):
        fetch((torch.tensor([0, len(x)]), torch.tensor([0, 1, 2])))
