"""Muon's step, against one written out in double precision with singular values instead of products."""

import numpy as np
import pytest
import torch
from torch import nn

from ict import train
from ict.base.errors import UserError
from ict.engine.optimizers import make_optimizer
from ict.engine.optimizers.muon import orthogonal
from ict.engine.settings import Optimizer
from tests.tiny import tiny

LR, TURN, MOMENTUM, DECAY = 0.3, 0.07, 0.8, 0.02


def turned(matrix: np.ndarray) -> np.ndarray:
    """The polynomial five times, of the singular values alone."""
    u, s, v = np.linalg.svd(matrix, full_matrices=False)
    s = s / np.sqrt((s**2).sum())
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return np.asarray(u @ np.diag(s) @ v)


@pytest.mark.parametrize("shape", [(4, 10), (10, 4), (6, 6)])
def test_matrices_keep_their_singular_vectors_and_lose_their_singular_values(shape: tuple[int, int]) -> None:
    made = np.random.default_rng(0).normal(size=(3, *shape)) * np.array([1e-6, 1, 1e6])[:, None, None]
    found = orthogonal(torch.tensor(made)).numpy()
    for a, b in zip(found, made, strict=True):
        np.testing.assert_allclose(a, turned(b), atol=1e-9)
        u, _, v = np.linalg.svd(b, full_matrices=False)
        values = np.diag(u.T @ a @ v.T)
        assert ((values > 0.68) & (values < 1.21)).all()


@pytest.mark.parametrize("size", [0.0, 1e-40, 1e-36, 1e-30, 1e-25, 1e-20])
def test_a_gradient_of_nothing_turns_nothing(size: float) -> None:
    """What momentum leaves of a gradient that came once; the norm of numbers this small is 0 in float32."""
    turn = orthogonal(size * torch.randn(1, 64, 576, generator=torch.Generator().manual_seed(0)))
    assert turn.abs().max() < 1e-3


def test_a_convolution_that_begins_with_zeros_moves() -> None:
    network = nn.Conv2d(3, 4, 3)
    nn.init.zeros_(network.weight)
    network(torch.randn(2, 3, 4, 4)).sum().backward()
    make_optimizer(network, Optimizer(name="muon", turn=TURN)).step()
    assert network.weight.isfinite().all() and 0 < network.weight.norm() < 3 * TURN


@pytest.mark.parametrize("nesterov", [True, False])
def test_convolutions_turn_and_the_rest_descends(nesterov: bool) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1), nn.Flatten(), nn.Linear(16, 2))
    network = network.double().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    settings = Optimizer(name="muon", lr=LR, turn=TURN, momentum=MOMENTUM, nesterov=nesterov, weight_decay=DECAY)
    optimizer = make_optimizer(network, settings)
    expected = {name: p.detach().numpy().copy() for name, p in network.named_parameters()}
    kept = {name: np.zeros_like(value) for name, value in expected.items()}
    x = torch.randn(5, 3, 4, 4, dtype=torch.double)
    for step in range(3):
        optimizer.zero_grad()
        network(x).square().sum().backward()
        for group in optimizer.param_groups:
            group["lr"] = LR / (1 + step)
        for name, p in network.named_parameters():
            assert p.grad is not None
            old, gradient, lr = expected[name], p.grad.numpy().copy(), LR / (1 + step)
            if p.dim() == 4:
                kept[name] = MOMENTUM * kept[name] + gradient
                moved = gradient + MOMENTUM * kept[name] if nesterov else kept[name]
                turn = turned(moved.reshape(len(moved), -1))
                norm = np.sqrt(min(turn.shape))
                new = old * norm / np.sqrt((old**2).sum()) - TURN * lr / LR * turn.reshape(old.shape)
            else:
                gradient += DECAY * old
                kept[name] = MOMENTUM * kept[name] + gradient
                new = old - lr * (gradient + MOMENTUM * kept[name] if nesterov else kept[name])
            expected[name] = new
        optimizer.step()
        for name, p in network.named_parameters():
            np.testing.assert_allclose(p.detach().numpy(), expected[name], rtol=1e-7, atol=1e-9, err_msg=name)
            assert p.grad is not None, "gradients are there for whoever looks"


def test_lengths_of_normalized_weights_are_no_convolutions() -> None:
    network = nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 4, 3))
    lengths, directions = network.parametrizations.weight.original0, network.parametrizations.weight.original1
    assert lengths.dim() == directions.dim() == 4
    optimizer = make_optimizer(network, Optimizer(name="muon", lr=LR, turn=TURN, weight_decay=0.0))
    before = lengths.detach().clone()
    network(torch.randn(2, 3, 4, 4)).square().sum().backward()
    gradient = lengths.grad.clone()
    optimizer.step()
    torch.testing.assert_close(lengths.detach(), before - LR * 1.9 * gradient)  # the first of SGD's steps, Nesterov's
    assert directions.norm().item() == pytest.approx(2, abs=2 * TURN)


def test_what_has_no_convolution_is_refused() -> None:
    with pytest.raises(UserError, match=r"optimizer\.name is muon: it needs .* convolutions .*; use sgd"):
        train("moons/ict", settings=["optimizer.name=muon", "train.steps=1"])
    with pytest.raises(UserError, match=r"optimizer\.turn is 0"):
        train(tiny(), settings=["optimizer.name=muon", "optimizer.turn=0"])
