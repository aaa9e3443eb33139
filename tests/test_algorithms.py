"""Each loss against a naive NumPy float64 reference with scripted draws: value, and gradient by finite differences."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from ict.algorithms.ict import ICT
from ict.algorithms.mixup import Mixup
from ict.algorithms.supervised import Supervised
from ict.contract import Algorithm, Batch
from ict.engine.step import Forward
from ict.errors import UserError
from tests.scripted import Array, ScriptedDraws, finite_differences, softmax, tanh_logits, tanh_network, weights

N_CLASSES, W, LAM_S, LAM = 3, 7.5, 0.3, 0.8
_values = np.random.default_rng(0)
X, U = _values.normal(size=(6, 4)), _values.normal(size=(8, 4))
Y = np.array([0, 2, 1, 1, 0, 2])


def rolled(a: Array, groups: int = 1) -> Array:
    """Row i of a group gets row i - 1 of it, the first one the last."""
    out = np.empty_like(a)
    size = len(a) // groups
    for g in range(groups):
        for i in range(size):
            out[g * size + i] = a[g * size + (i - 1) % size]
    return out


def cross_entropy(z: Array, targets: Array) -> float:
    return float(
        np.mean(
            [
                -sum(t * np.log(p) for t, p in zip(ts, ps, strict=True))
                for ts, ps in zip(targets, softmax(z), strict=True)
            ]
        )
    )


def supervised(student: list[Array]) -> float:
    return cross_entropy(tanh_logits(student, X), np.eye(N_CLASSES)[Y])


def mixup(student: list[Array], groups: int = 1) -> float:
    y = np.eye(N_CLASSES)[Y]
    z = tanh_logits(student, LAM_S * X + (1 - LAM_S) * rolled(X, groups))
    return cross_entropy(z, LAM_S * y + (1 - LAM_S) * rolled(y, groups))


def ict(student: list[Array], teacher: list[Array], settings: dict[str, Any], groups: int = 1) -> float:
    labeled = mixup(student, groups) if settings.get("mix_labeled", True) else supervised(student)
    temperature = settings.get("temperature", 1.0)
    if settings.get("pairs") == "halves":
        halves = U.reshape(groups, 2, -1, U.shape[1])
        u_j, u_k = halves[:, 0].reshape(-1, U.shape[1]), halves[:, 1].reshape(-1, U.shape[1])
    else:
        u_j, u_k = U, rolled(U, groups)
    z_j, z_k = tanh_logits(teacher, u_j), tanh_logits(teacher, u_k)
    if settings.get("targets") == "logits":
        target = softmax((LAM * z_j + (1 - LAM) * z_k) / temperature)
    else:
        target = LAM * softmax(z_j / temperature) + (1 - LAM) * softmax(z_k / temperature)
    z = tanh_logits(student, LAM * u_j + (1 - LAM) * u_k)
    match settings.get("consistency", "mse"):
        case "mse":
            unlabeled = float(((softmax(z) - target) ** 2).sum() / target.size)
        case "ce":
            unlabeled = cross_entropy(z, target)
        case _:
            unlabeled = float((target * (np.log(target) - np.log(softmax(z)))).sum() / len(target))
    return labeled + W * unlabeled


ICT_SETTINGS: list[dict[str, Any]] = [
    {},
    {"mix_labeled": False},
    {"targets": "logits"},
    {"pairs": "halves"},
    {"consistency": "ce"},
    {"consistency": "kl"},
    {"temperature": 0.5},
    {"targets": "logits", "temperature": 2.0, "mix_labeled": False},
    {"logging_forwards": True},
]
CASES: list[tuple[Algorithm, int, Callable[[list[Array], list[Array]], float]]] = [
    (Supervised(), 1, lambda s, t: supervised(s)),
    (Mixup(), 1, lambda s, t: mixup(s)),
    (Mixup(), 2, lambda s, t: mixup(s, 2)),
    *((ICT(**kw), 1, lambda s, t, kw=kw: ict(s, t, kw)) for kw in ICT_SETTINGS),
    (ICT(), 2, lambda s, t: ict(s, t, {}, 2)),
    (ICT(pairs="halves"), 2, lambda s, t: ict(s, t, {"pairs": "halves"}, 2)),
]


@pytest.mark.parametrize(("algorithm", "groups", "reference"), CASES, ids=lambda v: repr(v) if not callable(v) else "")
def test_loss_and_gradient_match_numpy(algorithm: Algorithm, groups: int, reference: Callable[..., float]) -> None:
    student, teacher = tanh_network(1), tanh_network(2)
    batch = Batch(torch.from_numpy(X), torch.from_numpy(Y), (torch.from_numpy(U),), groups)
    w = torch.tensor(W, dtype=torch.float64)
    lambdas = [LAM_S, LAM] if getattr(algorithm, "mix_labeled", True) else [LAM]
    loss = algorithm.loss(Forward(student), Forward(teacher, gradient=False), batch, w, ScriptedDraws(lambdas))
    loss.total.backward()

    teacher_weights = weights(teacher)
    np.testing.assert_allclose(loss.total.item(), reference(weights(student), teacher_weights), rtol=0, atol=1e-9)
    expected = finite_differences(lambda s: reference(s, teacher_weights), weights(student))
    for parameter, gradient in zip(student.parameters(), expected, strict=True):
        assert parameter.grad is not None
        np.testing.assert_allclose(parameter.grad, gradient, atol=1e-7)


def test_without_an_average_the_target_is_the_student_held_fixed() -> None:
    student = tanh_network(1)
    batch = Batch(torch.from_numpy(X), torch.from_numpy(Y), (torch.from_numpy(U),))
    teacher = Forward(student, gradient=False)
    loss = ICT().loss(Forward(student), teacher, batch, torch.tensor(W), ScriptedDraws([LAM_S, LAM]))
    loss.total.backward()
    fixed = weights(student)
    for parameter, gradient in zip(
        student.parameters(), finite_differences(lambda s: ict(s, fixed, {}), weights(student)), strict=True
    ):
        assert parameter.grad is not None
        np.testing.assert_allclose(parameter.grad, gradient, atol=1e-7)


@pytest.mark.parametrize(
    "bad", [{"alpha": 0.0}, {"alpha": -1.0}, {"temperature": 0.0}, {"targets": "labels"}, {"alpha": "x"}]
)
def test_impossible_settings_name_the_field(bad: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(bad))):
        ICT(**bad)
