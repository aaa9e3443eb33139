"""ICT and the supervised methods against naive NumPy in float64 with scripted draws: value and gradient."""

from typing import Any

import numpy as np
import pytest
import torch

from ict.algorithms.ict import ICT
from ict.algorithms.manifold_mixup import ManifoldMixup
from ict.algorithms.mixup import Mixup
from ict.algorithms.supervised import Supervised
from ict.base.errors import UserError
from ict.contract import Algorithm
from ict.engine.forward import Forward
from tests import naive
from tests.naive import N_CLASSES, U, W, X, Y, batch_of, cross_entropy, rolled
from tests.scripted import (
    Array,
    ScriptedDraws,
    finite_differences,
    softmax,
    tanh_features,
    tanh_head,
    tanh_logits,
    tanh_network,
    weights,
)

LAM_S, LAM = 0.3, 0.8


def supervised(student: list[Array]) -> float:
    return cross_entropy(tanh_logits(student, X), np.eye(N_CLASSES)[Y])


def mixed_logits(w: list[Array], x: Array, lam: float, depth: int, groups: int = 1) -> Array:
    """Mixed at the input (depth 0) or at the hidden layer (depth 1)."""
    if depth == 0:
        return tanh_logits(w, lam * x + (1 - lam) * rolled(x, groups))
    h = tanh_features(w, x)
    return tanh_head(w, lam * h + (1 - lam) * rolled(h, groups))


def mixup(student: list[Array], groups: int = 1, depth: int = 0) -> float:
    y = np.eye(N_CLASSES)[Y]
    z = mixed_logits(student, X, LAM_S, depth, groups)
    return cross_entropy(z, LAM_S * y + (1 - LAM_S) * rolled(y, groups))


def ict(
    student: list[Array],
    teacher: list[Array],
    settings: dict[str, Any],
    groups: int = 1,
    depths: tuple[int, int] = (0, 0),
) -> float:
    labeled = mixup(student, groups, depths[0]) if settings.get("mix_labeled", True) else supervised(student)
    temperature = settings.get("temperature", 1.0)
    if settings.get("pairs") == "halves":
        halves = U.reshape(groups, 2, -1, U.shape[1])
        u_j, u_k = halves[:, 0].reshape(-1, U.shape[1]), halves[:, 1].reshape(-1, U.shape[1])
        z = tanh_logits(student, LAM * u_j + (1 - LAM) * u_k)
    else:
        u_j, u_k = U, rolled(U, groups)
        z = mixed_logits(student, U, LAM, depths[1], groups)
    z_j, z_k = tanh_logits(teacher, u_j), tanh_logits(teacher, u_k)
    if settings.get("targets") == "logits":
        target = softmax((LAM * z_j + (1 - LAM) * z_k) / temperature)
    else:
        target = LAM * softmax(z_j / temperature) + (1 - LAM) * softmax(z_k / temperature)
    match settings.get("consistency", "mse"):
        case "mse":
            unlabeled = naive.mse(softmax(z), target)
        case "ce":
            unlabeled = cross_entropy(z, target)
        case _:
            unlabeled = naive.kl(target, softmax(z))
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


def lambdas(algorithm: Algorithm) -> list[float]:
    return [LAM_S, LAM] if getattr(algorithm, "mix_labeled", True) else [LAM]


def test_supervised() -> None:
    naive.assert_same(Supervised(), batch_of(), ScriptedDraws(), lambda s, t: supervised(s))


@pytest.mark.parametrize("groups", [1, 2])
def test_mixup(groups: int) -> None:
    batch = batch_of(groups=groups)
    naive.assert_same(Mixup(), batch, ScriptedDraws([LAM_S]), lambda s, t: mixup(s, groups))


@pytest.mark.parametrize("depth", [0, 1])
def test_manifold_mixup(depth: int) -> None:
    draws = ScriptedDraws([LAM_S], [[depth]])
    naive.assert_same(ManifoldMixup(depth=1), batch_of(), draws, lambda s, t: mixup(s, depth=depth))


@pytest.mark.parametrize("settings", ICT_SETTINGS, ids=repr)
def test_ict(settings: dict[str, Any]) -> None:
    algorithm = ICT(**settings)
    naive.assert_same(algorithm, batch_of(U), ScriptedDraws(lambdas(algorithm)), lambda s, t: ict(s, t, settings))


@pytest.mark.parametrize("settings", [{}, {"pairs": "halves"}], ids=repr)
def test_ict_pairs_inside_groups(settings: dict[str, Any]) -> None:
    draws = ScriptedDraws([LAM_S, LAM])
    naive.assert_same(ICT(**settings), batch_of(U, groups=2), draws, lambda s, t: ict(s, t, settings, 2))


@pytest.mark.parametrize("depths", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_ict_in_hidden_layers(depths: tuple[int, int]) -> None:
    draws = ScriptedDraws([LAM_S, LAM], [[depths[0]], [depths[1]]])
    naive.assert_same(ICT(depth=1), batch_of(U), draws, lambda s, t: ict(s, t, {}, depths=depths))


def test_ict_in_hidden_layers_with_plain_labels() -> None:
    settings: dict[str, Any] = {"mix_labeled": False}
    draws = ScriptedDraws([LAM], [[1]])
    naive.assert_same(ICT(depth=1, **settings), batch_of(U), draws, lambda s, t: ict(s, t, settings, depths=(0, 1)))


def test_without_an_average_the_target_is_the_student_held_fixed() -> None:
    student = tanh_network(1)
    teacher = Forward(student, gradient=False)
    loss = ICT().loss(Forward(student), teacher, batch_of(U), torch.tensor(W), ScriptedDraws([LAM_S, LAM]))
    loss.total.backward()
    fixed = weights(student)
    for parameter, gradient in zip(
        student.parameters(), finite_differences(lambda s: ict(s, fixed, {}), weights(student)), strict=True
    ):
        assert parameter.grad is not None
        np.testing.assert_allclose(parameter.grad, gradient, atol=1e-7)


@pytest.mark.parametrize(
    "bad",
    [
        {"alpha": 0.0},
        {"alpha": -1.0},
        {"temperature": 0.0},
        {"targets": "labels"},
        {"alpha": "x"},
        {"depth": -1},
        {"depth": 1, "pairs": "halves"},
    ],
)
def test_impossible_settings_name_the_field(bad: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(bad))):
        ICT(**bad)


@pytest.mark.parametrize("bad", [{"alpha": 0.0}, {"depth": -1}, {"depth": 1.5}])
def test_impossible_settings_of_manifold_mixup_name_the_field(bad: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(bad))):
        ManifoldMixup(**bad)
