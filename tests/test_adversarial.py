"""VAT and VAdD: losses against naive NumPy, the adversarial direction against power iteration and a closed form."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ict.algorithms.vadd import VAdD
from ict.algorithms.vat import VAT
from ict.base.errors import UserError
from ict.base.rng import Rng
from ict.contract import Batch
from ict.engine.forward import Forward
from ict.networks import NETWORKS
from ict.networks.mlp import WideMLP
from ict.networks.staged import Staged
from tests import naive
from tests.naive import N_CLASSES, U, V, W, X, Y, batch_of
from tests.scripted import Array, ScriptedDraws, softmax, tanh_features, tanh_head, tanh_logits, tanh_network, weights

NOISE = np.random.default_rng(5).normal(size=U.shape)
Weights = list[Array]


def unit(d: Array) -> Array:
    d = d / np.abs(d).max(1, keepdims=True)
    out: Array = d / np.sqrt((d**2).sum(1, keepdims=True) + 1e-6)
    return out


def softmax_back(p: Array, g: Array) -> Array:
    """From a gradient with respect to probabilities to one with respect to logits."""
    out: Array = p * (g - (g * p).sum(1, keepdims=True))
    return out


def input_gradient(w: Weights, u: Array, d: Array, direction: str) -> Array:
    """The gradient of the divergence with respect to d, by hand."""
    p, h = softmax(tanh_logits(w, u)), tanh_features(w, u + d)
    q = softmax(tanh_head(w, h))
    z_gradient = q - p if direction == "clean-perturbed" else softmax_back(q, np.log(q) - np.log(p) + 1)
    out: Array = ((z_gradient / len(u)) @ w[2] * (1 - h**2)) @ w[0]
    return out


def curved(w: Weights, u: Array, d: Array) -> Array:
    """J' (diag(p) - p p') J d of each example, J being the logits' Jacobian, written out."""
    p, h = softmax(tanh_logits(w, u)), tanh_features(w, u)
    jacobians = [w[2] @ np.diag(1 - row**2) @ w[0] for row in h]
    return np.stack([j.T @ (np.diag(q) - np.outer(q, q)) @ j @ e for j, q, e in zip(jacobians, p, d, strict=True)])


def vat(student: Weights, at: Weights, settings: dict[str, Any]) -> float:
    """The loss of `student`; direction and clean predictions are held at the weights `at`."""
    direction, xi = settings.get("direction", "clean-perturbed"), settings["xi"]
    d = unit(NOISE)
    for _ in range(settings.get("iterations", 1)):
        d = unit(input_gradient(at, U, xi * d, direction) if xi else curved(at, U, d))
    p, q = softmax(tanh_logits(at, U)), softmax(tanh_logits(student, U + settings["epsilon"] * d))
    divergence = naive.kl(p, q) if direction == "clean-perturbed" else naive.kl(q, p)
    whose = q if settings.get("entropy_of") == "perturbed" else softmax(tanh_logits(student, U))
    supervised = naive.cross_entropy(tanh_logits(student, X), np.eye(N_CLASSES)[Y])
    return float(supervised + W * divergence + settings.get("entropy", 0.0) * naive.entropy(whose))


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 0.7, "xi": 0.1},
        {"epsilon": 2.0, "xi": 0.3, "iterations": 3},
        {"epsilon": 0.7, "xi": 0.1, "direction": "perturbed-clean"},
        {"epsilon": 0.7, "xi": 0.1, "entropy": 0.5},
        {"epsilon": 0.7, "xi": 0.1, "entropy": 0.5, "entropy_of": "perturbed"},
        {"epsilon": 0.7, "xi": 0.0},
        {"epsilon": 2.0, "xi": 0.0, "iterations": 3, "entropy": 0.5},
        {"epsilon": 0.7, "xi": 0.0, "direction": "perturbed-clean"},
    ],
    ids=repr,
)
def test_vat(settings: dict[str, Any]) -> None:
    at = weights(tanh_network(1))
    draws = ScriptedDraws(normals=[NOISE])
    naive.assert_same(VAT(**settings), batch_of(U), draws, lambda s, t: vat(s, at, settings))


def test_vats_direction_is_that_of_a_finite_difference_power_iteration() -> None:
    network = tanh_network(1)
    w, xi, h = weights(network), 0.1, 1e-6
    p = softmax(tanh_logits(w, U))
    start = xi * unit(NOISE)
    gradient = np.zeros_like(U)
    for index in np.ndindex(*U.shape):
        step = np.zeros_like(U)
        step[index] = h
        up, down = (naive.kl(p, softmax(tanh_logits(w, U + start + s))) for s in (step, -step))
        gradient[index] = (up - down) / (2 * h)
    u = torch.from_numpy(U)
    r = VAT(epsilon=1.0, xi=xi).perturbation(Forward(network), u, network(u).detach(), ScriptedDraws(normals=[NOISE]))
    cosines = (r.numpy() * gradient).sum(1) / np.linalg.norm(gradient, axis=1) / np.linalg.norm(r.numpy(), axis=1)
    assert cosines.min() > 1 - 1e-6


def test_on_a_linear_softmax_model_the_direction_is_the_closed_form() -> None:
    """KL(p(u) || p(u + d)) is d'Hd / 2 near 0 with H = A'(diag(p) - pp')A, so one iteration gives Hd and many of
    them the eigenvector of H with the largest eigenvalue."""
    linear = nn.Linear(4, N_CLASSES).double()
    u = torch.from_numpy(U)
    z = linear(u).detach()
    a, p = linear.weight.detach().numpy(), softmax(z.numpy())
    one, many = (
        VAT(epsilon=1.0, xi=1e-4, iterations=n)
        .perturbation(Forward(linear), u, z, ScriptedDraws(normals=[NOISE]))
        .numpy()
        for n in (1, 200)
    )
    for i in range(len(U)):
        hessian = a.T @ (np.diag(p[i]) - np.outer(p[i], p[i])) @ a
        once = hessian @ NOISE[i]
        assert one[i] @ once / np.linalg.norm(once) > 1 - 1e-6
        assert abs(many[i] @ np.linalg.eigh(hessian)[1][:, -1]) > 1 - 1e-4
        assert np.linalg.norm(many[i]) == pytest.approx(1.0, abs=1e-5)


def float32_cosine(xi: float) -> float:
    """Between the direction in float32 and in float64, on CNN-13 as it is born; the smallest over the examples."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        network = NETWORKS["cnn13"]((3, 32, 32), 10)
    noise = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def direction(dtype: torch.dtype) -> Tensor:
        student, u = Forward(network.to(dtype)), images.to(dtype)
        with student.frozen_stats():
            z = student(u).detach()
            draws = ScriptedDraws(normals=[noise.to(dtype).numpy()])
            return VAT(epsilon=1.0, xi=xi).perturbation(student, u, z, draws).double().flatten(1)

    return float((direction(torch.float64) * direction(torch.float32)).sum(1).min())


def test_the_default_xi_finds_the_direction_in_float32() -> None:
    default, tiny = float32_cosine(VAT().xi), float32_cosine(1e-6)
    assert default > 0.9 > 0.5 > tiny, "the source's xi is lost in float32's rounding"


@pytest.mark.parametrize("name", NETWORKS)
def test_the_derivative_is_what_the_difference_approaches(name: str) -> None:
    """With batch norm, pooling and dropout in between, in training mode."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        network = NETWORKS[name]((3, 16, 16), 10).double().train()
    noise, u = (torch.randn(6, 3, 16, 16, generator=torch.Generator().manual_seed(i)).double() for i in (1, 2))
    student = Forward(network)
    with student.frozen_stats(), student.same_masks():
        z, found = VAT(epsilon=1.0, xi=0.0).steepest(student, u, ScriptedDraws(normals=[noise.numpy()]))
        draws = ScriptedDraws(normals=[noise.numpy()])
        expected = VAT(epsilon=1.0, xi=1e-6).perturbation(student, u, z.detach(), draws)
        torch.testing.assert_close(z, student(u))
    assert (found * expected).flatten(1).sum(1).min() > 1 - 1e-4


def test_a_layer_without_a_derivative_is_refused_with_what_to_set() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return 2 * x

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return 2 * gradient

    class Own(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = Doubled.apply(x)  # type: ignore[no-untyped-call]
            return out

    student = Forward(nn.Sequential(nn.Linear(4, 3), Own()).double())
    with pytest.raises(UserError, match=r"forward mode.*set algorithm\.xi=0\.1\."):
        VAT(xi=0.0).steepest(student, torch.from_numpy(U), ScriptedDraws(normals=[NOISE]))


def dropout_network() -> Staged:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return WideMLP((4,), N_CLASSES, width=16, dropout=0.5).double()


@pytest.mark.parametrize("xi", [1e-9, 0.0])
def test_vats_forwards_of_u_share_masks_and_leave_the_statistics_alone(xi: float) -> None:
    network = dropout_network()
    seen: list[Tensor] = []
    network.stages[1].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    loss = VAT(epsilon=1e-9, xi=xi).loss(
        Forward(network), Forward(network, gradient=False), batch_of(U), torch.tensor(1.0), Rng(torch.device("cpu"), 1)
    )
    clean, *gradient, labeled, perturbed = seen
    assert len(gradient) == (xi > 0)  # which at no distance is that of the clean forward
    assert all(torch.equal(clean == 0, other == 0) for other in (*gradient, perturbed))
    assert not torch.equal((clean == 0)[: len(X)], (labeled == 0)[: len(U)])
    torch.testing.assert_close(clean, perturbed)
    assert loss.metrics["consistency"] < 1e-9, "with other masks the predictions would differ"
    alone = dropout_network()
    alone(torch.from_numpy(X))
    first, expected = (n.get_submodule("stages.0").state_dict() for n in (network, alone))  # before any dropout
    for name in ("2.running_mean", "2.running_var", "2.num_batches_tracked"):
        assert torch.equal(first[name], expected[name]), "only the labeled forward may move the statistics"


def test_masks_differ_again_afterwards() -> None:
    student, u = Forward(dropout_network()), torch.from_numpy(U)
    with student.same_masks():
        assert torch.equal(student(u), student(u))
    assert not torch.equal(student(u), student(u))
    with student.frozen_stats():
        before = [b.clone() for b in student.module.buffers()]
        student(u)
        assert all(torch.equal(a, b) for a, b in zip(before, student.module.buffers(), strict=True))
    student(u)
    assert not all(torch.equal(a, b) for a, b in zip(before, student.module.buffers(), strict=True))


def vadd(student: Weights, at: Weights, settings: dict[str, Any]) -> float:
    """The loss of `student`; the mask is held at the weights `at`."""
    kl = settings["distance"] == "kl"
    p, h = softmax(tanh_logits(at, U)), tanh_features(at, V)
    q = softmax(tanh_head(at, h))
    z_gradient = (q - p) / len(U) if kl else softmax_back(q, 2 * (q - p) / q.size)
    j = h * (z_gradient @ at[2])
    mask = np.ones_like(h)
    for row, values in zip(mask, j, strict=True):
        for unit_ in np.argsort(values)[: int(settings["flips"] * h.shape[1])]:
            if values[unit_] < 0:
                row[unit_] = 0.0
        row *= h.shape[1] / row.sum()
    assert 0 < (mask == 0).sum() < len(U) * int(settings["flips"] * h.shape[1]), "some examples drop fewer units"
    p = softmax(tanh_logits(student, U))
    q = softmax(tanh_head(student, tanh_features(student, V) * mask))
    distance = naive.kl(p, q) if kl else naive.mse(p, q)
    supervised = naive.cross_entropy(tanh_logits(student, X), np.eye(N_CLASSES)[Y])
    return float(supervised + W * distance + settings["entropy"] * naive.entropy(p))


@pytest.mark.parametrize("distance", ["kl", "mse"])
@pytest.mark.parametrize("entropy", [0.0, 0.6])
def test_vadd(distance: Any, entropy: float) -> None:
    settings = {"distance": distance, "flips": 0.7, "entropy": entropy}
    at = weights(tanh_network(1))
    naive.assert_same(VAdD(**settings), batch_of(U, V), ScriptedDraws(), lambda s, t: vadd(s, at, settings))


def test_vadds_mask_raises_the_distance_and_keeps_its_sum() -> None:
    network = tanh_network(1)
    h = network.features(torch.from_numpy(V)).detach()
    z = network(torch.from_numpy(U)).detach()
    mask = VAdD(flips=0.2).mask(Forward(network), h, z)
    torch.testing.assert_close(mask.sum(1), torch.full((8,), 6.0, dtype=torch.float64))
    assert ((mask == 0).sum(1) <= 1).all() and (mask == 0).any()


@pytest.mark.parametrize(
    ("method", "bad"),
    [
        (VAT, {"epsilon": -1.0}),
        (VAT, {"epsilon": 0.0}),
        (VAT, {"xi": -0.1}),
        (VAT, {"iterations": 0}),
        (VAT, {"entropy": -1.0}),
        (VAT, {"direction": "both"}),
        (VAdD, {"flips": 0.0}),
        (VAdD, {"flips": 1.5}),
        (VAdD, {"entropy": -0.5}),
        (VAdD, {"distance": "l1"}),
    ],
)
def test_impossible_settings_name_the_field(method: Any, bad: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(bad))):
        method(**bad)


def test_vat_runs_the_network_no_more_than_its_formula_says() -> None:
    network = NETWORKS["convnet"]((1, 8, 8), N_CLASSES)
    x, u = torch.randn(4, 1, 8, 8), torch.randn(6, 1, 8, 8)

    def counted(work: Callable[[], object]) -> int:
        counter: Any = FlopCounterMode(display=False)
        with counter:
            work()
        return int(counter.get_total_flops())

    def update(algorithm: VAT) -> None:
        loss = algorithm.loss(Forward(network), Forward(network), batch, torch.tensor(1.0), Rng(x.device))
        loss.total.backward()

    def direction() -> None:
        d = torch.zeros_like(u).requires_grad_()
        torch.autograd.grad(network(u + d).sum(), d)

    batch = Batch(x, torch.tensor([0, 1, 2, 0]), (u,))
    network.requires_grad_(False)
    clean, to_the_input = counted(lambda: network(u)), counted(direction)  # no gradient of a weight in either
    network.requires_grad_(True)
    trained = counted(lambda: network(x).sum().backward()) + counted(lambda: network(u).sum().backward())
    assert counted(lambda: update(VAT())) == trained + clean + to_the_input
    # the derivative comes with the clean forward; torch multiplies by the weights' too, which are all zeros
    assert counted(lambda: update(VAT(xi=0.0))) <= trained + 2 * clean + to_the_input
    whole = counted(lambda: network(u).sum().backward())
    assert counted(lambda: update(VAT(entropy=1.0))) == trained + whole + to_the_input
