"""What every registered algorithm must obey, whoever wrote it. A new one is picked up by its registry entry."""

import inspect
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ict.algorithms import ALGORITHMS
from ict.base.errors import UserError
from ict.base.rng import Rng
from ict.contract import Algorithm, Batch, Loss
from ict.data.dataset import Examples
from ict.engine.forward import Forward
from ict.networks import NETWORKS
from ict.recipes.recipe import Component, Recipe, from_dict
from tests.scripted import ScriptedDraws

every_algorithm = pytest.mark.parametrize("name", list(ALGORITHMS))


def networks() -> tuple[nn.Module, nn.Module]:
    """A student and a teacher in float64 with batch norm."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        student, teacher = (NETWORKS["mlp-wide"]((5,), 3, width=8).double() for _ in range(2))
    return student, teacher


def batch_for(algorithm: Algorithm, n: int = 8) -> Batch:
    draws = torch.Generator().manual_seed(1)

    def inputs() -> Tensor:
        return torch.randn(n, 5, generator=draws, dtype=torch.float64)

    y, u_y = (torch.randint(low, 3, (n,), generator=draws) for low in (0, -1))
    memory = torch.rand(n, 3, generator=draws, dtype=torch.float64) if algorithm.needs.memory else None
    batch = Batch(inputs(), y, tuple(inputs() for _ in range(algorithm.needs.views)), u_y, memory)
    if not algorithm.needs.prior:
        return batch
    prior = torch.rand(n, 3, generator=draws, dtype=torch.float64)
    return replace(batch, prior=prior / prior.sum(1, keepdim=True), share=torch.tensor(0.7, dtype=torch.float64))


def without_labeled_batch(batch: Batch) -> Batch:
    return replace(batch, x=batch.x[:0], y=batch.y[:0])


def make(name: str) -> Algorithm:
    algorithm: Algorithm = ALGORITHMS[name]()
    return algorithm


def gradient(name: str, w: float) -> list[Tensor]:
    student, teacher = networks()
    loss = loss_of(name, student, teacher, w)
    loss.total.backward()
    assert all(p.grad is None for p in teacher.parameters()), "the teacher must not get a gradient"
    return [torch.zeros_like(p) if p.grad is None else p.grad for p in student.parameters()]


def loss_of(name: str, student: nn.Module, teacher: nn.Module, w: float) -> Loss:
    algorithm = make(name)
    weight = torch.tensor(w, dtype=torch.float64)
    rng = Rng(torch.device("cpu"), 5)
    return algorithm.loss(Forward(student), Forward(teacher, gradient=False), batch_for(algorithm), weight, rng)


@every_algorithm
def test_loss_is_a_finite_scalar_with_detached_metrics(name: str) -> None:
    loss = loss_of(name, *networks(), w=2.0)
    assert loss.total.shape == () and loss.total.isfinite() and loss.total.requires_grad
    assert loss.metrics and all(m.shape == () and not m.requires_grad for m in loss.metrics.values())


@every_algorithm
def test_same_key_same_loss(name: str) -> None:
    first, second = (loss_of(name, *networks(), w=2.0).total for _ in range(2))
    assert torch.equal(first, second)


@every_algorithm
def test_gradient_is_affine_in_w_and_unlabeled_data_count(name: str) -> None:
    at_0, at_1, at_3 = (gradient(name, w) for w in (0.0, 1.0, 3.0))
    slope = [b - a for a, b in zip(at_0, at_1, strict=True)]
    for a, s, c in zip(at_0, slope, at_3, strict=True):
        torch.testing.assert_close(c, a + 3 * s, rtol=1e-9, atol=1e-12)
    if make(name).needs.views:
        assert max(float(s.abs().max()) for s in slope) > 1e-6, "the unlabeled examples have no effect"
    else:
        assert all(float(s.abs().max()) == 0 for s in slope), "a supervised method must not depend on w"
    assert max(float(g.abs().max()) for g in at_0) > 1e-6, "the labeled examples have no effect"


@every_algorithm
def test_memory_is_written_back_by_those_who_ask_for_it(name: str) -> None:
    loss = loss_of(name, *networks(), w=2.0)
    if make(name).needs.memory:
        assert loss.memory is not None and loss.memory.shape == (8, 3) and not loss.memory.requires_grad
    else:
        assert loss.memory is None


@every_algorithm
def test_labels_within_the_unlabeled_batch_are_enough_for_those_who_say_so(name: str) -> None:
    algorithm = make(name)
    if not algorithm.needs.labels_within:
        return
    student, teacher = networks()
    batch = without_labeled_batch(batch_for(algorithm))
    with_labels, without = (
        algorithm.loss(
            Forward(student),
            Forward(teacher, gradient=False),
            b,
            torch.tensor(0.0, dtype=torch.float64),
            Rng(torch.device("cpu"), 5),
        ).total
        for b in (batch, replace(batch, u_y=torch.full((8,), -1)))
    )
    assert with_labels > 0.01 and without == 0


@every_algorithm
def test_the_teacher_is_run_by_those_who_say_so(name: str) -> None:
    student, teacher = networks()
    runs: list[object] = []
    teacher.register_forward_hook(lambda *_: runs.append(None))
    loss_of(name, student, teacher, w=1.0)
    assert bool(runs) == make(name).needs.teacher


@every_algorithm
def test_meta_device_accepts_the_loss(name: str) -> None:
    """On the meta device `.item()`, `.cpu()` and branches on tensors raise, so the formula can be captured."""
    algorithm = make(name)
    student, teacher = (n.to("meta") for n in networks())
    batch = batch_for(algorithm)
    on_meta = Batch(
        *(batch.x.to("meta"), batch.y.to("meta"), tuple(u.to("meta") for u in batch.u)),
        u_y=None if batch.u_y is None else batch.u_y.to("meta"),
        memory=None if batch.memory is None else batch.memory.to("meta"),
        prior=None if batch.prior is None else batch.prior.to("meta"),
        share=None if batch.share is None else batch.share.to("meta"),
    )
    w = torch.zeros((), device="meta", dtype=torch.float64)
    draws = ScriptedDraws([0.5] * 9, [[0]] * 9, device="meta")
    loss = algorithm.loss(Forward(student), Forward(teacher, gradient=False), on_meta, w, draws)
    assert loss.total.is_meta and loss.total.shape == ()


@every_algorithm
def test_it_is_a_frozen_dataclass_that_survives_json(name: str) -> None:
    algorithm: Any = make(name)
    if fields(algorithm):
        with pytest.raises(FrozenInstanceError):
            setattr(algorithm, fields(algorithm)[0].name, None)
    recipe = Recipe(dataset=Component("digits"), network=Component("convnet"), algorithm=Component(name)).resolved()
    again = from_dict(recipe.to_dict())
    assert again == recipe and again.hash == recipe.hash
    assert ALGORITHMS[name](**again.algorithm.options) == algorithm


@every_algorithm
def test_the_formula_fits_on_a_page(name: str) -> None:
    assert len(inspect.getsource(type(make(name)).loss).splitlines()) <= 40
    doc = inspect.getmodule(ALGORITHMS[name]).__doc__
    assert doc and len(doc.strip().splitlines()) <= 10 and "L =" in doc


def test_partner_stays_in_its_group_and_is_never_oneself() -> None:
    rows = torch.arange(12)
    for groups in (1, 2, 3, 4, 6):
        partner = Batch(rows, rows, pair_groups=groups).partner(rows)
        assert sorted(partner.tolist()) == rows.tolist()
        assert all(a != b and a // (12 // groups) == b // (12 // groups) for a, b in zip(partner, rows, strict=True))


def test_halves_split_every_group() -> None:
    rows = torch.arange(8)
    assert [h.tolist() for h in Batch(rows, rows).halves(rows)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [h.tolist() for h in Batch(rows, rows, pair_groups=2).halves(rows)] == [[0, 1, 4, 5], [2, 3, 6, 7]]
    with pytest.raises(UserError, match="even"):
        Batch(rows, rows).halves(rows[:7])


def test_examples_know_their_number() -> None:
    assert len(Examples(torch.zeros(3, 2), torch.zeros(3))) == 3
