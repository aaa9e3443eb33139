"""Draws that a test writes down beforehand, and a small float64 network with its NumPy twin."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ict.networks.staged import Staged

Array = NDArray[np.float64]


class ScriptedDraws:
    """Stands in for `Rng`: hands out the given lambdas, integers, uniforms and normals in order."""

    def __init__(
        self,
        betas: Sequence[float] = (),
        integers: Sequence[Sequence[int]] = (),
        uniforms: Sequence[Sequence[float]] = (),
        device: str = "cpu",
        normals: Sequence[Array] = (),
    ) -> None:
        self._betas, self._integers, self._uniforms = iter(betas), iter(integers), iter(uniforms)
        self._normals = iter(normals)
        self.device = device

    def beta(self, alpha: float) -> Tensor:
        return torch.tensor(next(self._betas), dtype=torch.float64, device=self.device)

    def integer(self, high: int) -> Tensor:
        return self.integers(high, 1)[0]

    def integers(self, high: int, n: int) -> Tensor:
        values = next(self._integers)
        assert len(values) == n and max(values) < high
        return torch.tensor(values, device=self.device)

    def uniform(self, n: int) -> Tensor:
        values = next(self._uniforms)
        assert len(values) == n
        return torch.tensor(values, device=self.device)

    def normal_like(self, x: Tensor) -> Tensor:
        if self.device == "meta":
            return torch.empty_like(x)
        values = next(self._normals, None)
        assert values is not None, "no normal draws were scripted"
        assert values.shape == tuple(x.shape)
        return torch.from_numpy(values).to(x.dtype)


def tanh_network(seed: int, n_in: int = 4, n_hidden: int = 6, n_classes: int = 3) -> Staged:
    """Two stages: a hidden layer, and the linear layer on it."""
    hidden = nn.Sequential(nn.Linear(n_in, n_hidden), nn.Tanh())
    network = Staged(hidden, nn.Linear(n_hidden, n_classes)).double()
    values = np.random.default_rng(seed)
    for parameter in network.parameters():
        parameter.data = torch.from_numpy(values.normal(size=tuple(parameter.shape)))
    return network


def weights(network: nn.Module) -> list[Array]:
    return [p.detach().numpy().copy() for p in network.parameters()]


def tanh_features(w: Sequence[Array], x: Array) -> Array:
    features: Array = np.tanh(x @ w[0].T + w[1])
    return features


def tanh_head(w: Sequence[Array], h: Array) -> Array:
    logits: Array = h @ w[2].T + w[3]
    return logits


def tanh_logits(w: Sequence[Array], x: Array) -> Array:
    return tanh_head(w, tanh_features(w, x))


def softmax(z: Array) -> Array:
    e = np.exp(z - z.max(1, keepdims=True))
    p: Array = e / e.sum(1, keepdims=True)
    return p


def finite_differences(function: Callable[[list[Array]], float], w: list[Array], h: float = 1e-6) -> list[Array]:
    """Central differences of a scalar function with respect to every entry of every array."""
    gradients = [np.zeros_like(a) for a in w]
    for a, g in zip(w, gradients, strict=True):
        for index in np.ndindex(*a.shape):
            old: Any = a[index]
            a[index] = old + h
            up = function(w)
            a[index] = old - h
            down = function(w)
            a[index] = old
            g[index] = (up - down) / (2 * h)
    return gradients
