"""Pi-model, temporal ensembling, mean teacher and SNTG against naive NumPy: value, gradient, memory."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ict.algorithms.consistency import Target
from ict.algorithms.mean_teacher import MeanTeacher
from ict.algorithms.pi import Pi
from ict.algorithms.sntg import SNTG
from ict.algorithms.temporal_ensembling import TemporalEnsembling
from ict.base.errors import UserError
from ict.contract import Batch, Network
from ict.data.dataset import Examples
from ict.engine.forward import Forward
from ict.engine.step import update
from ict.experiment.prepare import load_data, prepare
from ict.recipes.recipe import change
from tests import naive
from tests.naive import N_CLASSES, NO_LABELS, U_Y, Labels, U, V, W, X, Y, batch_of, within
from tests.scripted import Array, ScriptedDraws, softmax, tanh_features, tanh_logits, tanh_network, weights
from tests.tiny import tiny

Weights = list[Array]
Flags = NDArray[np.bool_]
MEMORY = softmax(np.random.default_rng(3).normal(size=(8, N_CLASSES))) * 0.64  # two visits at momentum .6
MEMORY[5] = 0.0  # never visited


def labeled_loss(student: Weights, layout: str, u_y: Labels) -> float:
    if layout == "apart":
        return naive.cross_entropy(tanh_logits(student, X), np.eye(N_CLASSES)[Y])
    return naive.known_cross_entropy(tanh_logits(student, U), u_y)


def squared_error(p: Array, target: Array, counted: Flags) -> float:
    """The sum over the counted examples of the mean over classes, divided by the number of all examples."""
    return float(sum(((a - b) ** 2).mean() for a, b, c in zip(p, target, counted, strict=True) if c) / len(p))


def targets(base: str, student: Weights, teacher: Weights) -> tuple[Array, Flags]:
    """The target of every unlabeled example, and whether it has one."""
    everything = np.ones(len(U), dtype=bool)
    if base == "pi":
        return softmax(tanh_logits(student, V)), everything
    if base == "mean-teacher":
        return softmax(tanh_logits(teacher, V)), everything
    seen = MEMORY.sum(1) > 0
    return np.where(seen[:, None], MEMORY / 0.64, 0.0), seen


def base_loss(base: str, student: Weights, teacher: Weights, layout: str, on: str, u_y: Labels) -> float:
    target, counted = targets(base, student, teacher)
    if on == "unlabeled":
        counted = counted & (u_y < 0)
    p = softmax(tanh_logits(student, U))
    return labeled_loss(student, layout, u_y) + W * squared_error(p, target, counted)


def made(layout: str, u_y: Labels) -> Batch:
    if layout == "apart":
        return batch_of(U, V, u_y=u_y, memory=MEMORY)
    return within(U, V, u_y=u_y, memory=MEMORY)


METHODS: dict[str, Any] = {"pi": Pi, "mean-teacher": MeanTeacher, "temporal-ensembling": TemporalEnsembling}
every_base = pytest.mark.parametrize("base", list(METHODS))


@every_base
@pytest.mark.parametrize("layout", ["apart", "within"])
@pytest.mark.parametrize("on", ["all", "unlabeled"])
def test_loss_and_gradient(base: str, layout: str, on: Any) -> None:
    batch = made(layout, U_Y)
    loss = naive.assert_same(
        METHODS[base](consistency_on=on),
        batch,
        ScriptedDraws(),
        lambda s, t: base_loss(base, s, t, layout, on, U_Y),
    )
    if base == "temporal-ensembling":
        assert loss.memory is not None
        expected = 0.6 * MEMORY + 0.4 * softmax(tanh_logits(weights(tanh_network(1)), U))
        np.testing.assert_allclose(loss.memory, expected, atol=1e-12)
    else:
        assert loss.memory is None


def graph_loss(base: str, student: Weights, teacher: Weights, u_y: Labels, margin: float) -> float:
    target, seen = targets(base, student, teacher)
    h = tanh_features(student, U)
    total = 0.0
    half = len(U) // 2
    for a, b in zip(range(half), range(half, 2 * half), strict=True):
        classes = []
        for i in (a, b):
            guess = int(np.argmax(target[i])) if seen[i] else None
            classes.append(int(u_y[i]) if u_y[i] >= 0 else guess)
        if None in classes:
            continue
        squared = ((h[a] - h[b]) ** 2).mean()
        total += squared if classes[0] == classes[1] else max(0.0, margin - np.sqrt(squared)) ** 2
    return total / half


@every_base
@pytest.mark.parametrize(("layout", "u_y"), [("apart", NO_LABELS), ("apart", U_Y), ("within", U_Y)])
def test_sntg(base: Any, layout: str, u_y: Labels) -> None:
    strength, margin = 0.7, 1.3
    naive.assert_same(
        SNTG(base=base, strength=strength, margin=margin),
        made(layout, u_y),
        ScriptedDraws(),
        lambda s, t: base_loss(base, s, t, layout, "all", u_y) + W * strength * graph_loss(base, s, t, u_y, margin),
    )


def test_sntgs_pairs_are_of_both_kinds_in_these_tests() -> None:
    student, teacher = weights(tanh_network(1)), weights(tanh_network(2))
    for base in METHODS:
        near, far = (graph_loss(base, student, teacher, U_Y, margin) for margin in (1e-9, 2.0))
        assert 1e-3 < near < far


@every_base
def test_sntg_without_strength_is_its_base(base: Any) -> None:
    naive.assert_same(
        SNTG(base=base, strength=0.0),
        made("apart", U_Y),
        ScriptedDraws(),
        lambda s, t: base_loss(base, s, t, "apart", "all", U_Y),
    )


def test_identical_features_of_different_classes_have_a_gradient() -> None:
    same = np.repeat(U[:1], 8, axis=0)
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    batch = Batch(torch.from_numpy(X), torch.from_numpy(Y), (torch.from_numpy(same),) * 2, labels)
    student = tanh_network(1)
    loss = SNTG().loss(Forward(student), Forward(student, gradient=False), batch, torch.tensor(W), ScriptedDraws())
    loss.total.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in student.parameters())


class Spy(TemporalEnsembling):
    """Writes down what it predicted and what it compared that with."""

    log: ClassVar[list[tuple[torch.Tensor, torch.Tensor]]] = []

    def target(self, z: tuple[torch.Tensor, ...], teacher: Network, batch: Batch) -> Target:
        target = super().target(z, teacher, batch)
        self.log.append((z[0].detach().softmax(1), target.probs.clone()))
        return target


def test_temporal_ensembling_is_the_explicit_epoch_formula() -> None:
    """After epoch e: Z <- .6 Z + .4 z, target Z / (1 - .6^e), z the predictions that training made in that epoch."""
    recipe = change(tiny("temporal-ensembling"), ["train.unlabeled_batch=30", "train.layout=within"])
    data = load_data(recipe, 0)
    few = Examples(data.train.x[:120], data.train.y[:120])
    data = replace(data, train=few, labeled_rows=torch.arange(20))
    recipe = change(recipe, ["split.labeled=none", "split.valid=0"])
    job = prepare(recipe, 0, data, None, torch.device("cpu"))
    spy = Spy()
    job = replace(job, program=replace(job.program, algorithm=spy))
    ensemble = torch.zeros(120, 10)
    for epoch in range(4):
        predictions = torch.zeros(120, 10)
        for step in range(4 * epoch, 4 * epoch + 4):
            rows = job.program.batches.pick(step).unlabeled
            update(job.program, job.state)
            made, compared = spy.log[-1]
            if epoch:
                torch.testing.assert_close(compared, ensemble[rows] / (1 - 0.6**epoch))
            predictions[rows] = made
        assert (predictions.sum(1) > 0.99).all(), "an epoch visits every example once"
        ensemble = 0.6 * ensemble + 0.4 * predictions
        torch.testing.assert_close(job.state.memory, ensemble)


@pytest.mark.parametrize(
    ("method", "bad"),
    [
        (TemporalEnsembling, {"momentum": 1.0}),
        (TemporalEnsembling, {"momentum": -0.1}),
        (Pi, {"consistency_on": "labeled"}),
        (SNTG, {"margin": 0.0}),
        (SNTG, {"strength": -1.0}),
        (SNTG, {"base": "vat"}),
        (SNTG, {"momentum": 2.0, "base": "temporal-ensembling"}),
    ],
)
def test_impossible_settings_name_the_field(method: Any, bad: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(bad))):
        method(**bad)
