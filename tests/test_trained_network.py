"""Predictions on a CPU: a row's bits are its own, and they are what the network says in float64."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ict.models.trained_network import TrainedNetwork
from ict.networks import NETWORKS

NETWORKS_AND_SHAPES: dict[str, tuple[int, ...]] = {
    "mlp": (6,),
    "mlp-wide": (64,),
    "convnet": (1, 8, 8),
    "cnn13": (3, 16, 16),
    "wrn-28-2": (3, 16, 16),
}
ROWS = 21


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=NETWORKS_AND_SHAPES)
def trained(request: pytest.FixtureRequest) -> tuple[TrainedNetwork, Any]:
    shape = NETWORKS_AND_SHAPES[request.param]
    torch.manual_seed(0)
    module: nn.Module = NETWORKS[request.param](shape, 5)
    with torch.no_grad():
        module(torch.randn(8, *shape))  # statistics that are not those of an untrained batch norm
    return TrainedNetwork(module.eval(), 0, {}, False), np.random.default_rng(0).normal(size=(ROWS, *shape)).astype(
        "f4"
    )


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_the_bits_of_a_row_are_its_own(trained: tuple[TrainedNetwork, Any], n_threads: int) -> None:
    network, x = trained
    torch.set_num_threads(1)
    expected = network.predict_proba(x)
    torch.set_num_threads(n_threads)
    order = np.random.default_rng(n_threads).permutation(ROWS)
    np.testing.assert_array_equal(network.predict_proba(x[order]), expected[order])
    for rows in (slice(0, 1), slice(7, 8), slice(ROWS - 1, ROWS), slice(3, 14)):
        np.testing.assert_array_equal(network.predict_proba(x[rows]), expected[rows])
    many = np.concatenate([x[::-1], x, x])
    np.testing.assert_array_equal(network.predict_proba(many), np.concatenate([expected[::-1], expected, expected]))
    assert torch.get_num_threads() == n_threads


def test_they_are_what_the_network_says_in_float64(trained: tuple[TrainedNetwork, Any]) -> None:
    network, x = trained
    probs = network.predict_proba(x)
    assert probs.dtype == np.float64 and np.ptp(probs) > 0.01
    module = network.module.double()
    try:
        with torch.no_grad():
            exact = module(torch.from_numpy(x).double()).softmax(1).numpy()
    finally:
        module.float()
    np.testing.assert_allclose(probs, exact, atol=1e-6)
    assert network.predict_proba(x[:0]).shape == (0, 5)


def test_a_module_of_the_users_gets_images_in_the_default_order_and_keeps_its_mode() -> None:
    class Views(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.drop, self.last = nn.Conv2d(3, 4, 3), nn.Dropout(0.5), nn.Linear(144, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.last(self.drop(self.conv(x).view(len(x), -1)))  # no other order allows a view
            return out

    network = TrainedNetwork(Views().train(), 0, {}, False)
    x = np.random.default_rng(0).normal(size=(9, 8, 8, 3)).astype("f4").transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(network.predict_proba(x), network.predict_proba(x))
    assert network.module.training


def test_chunks_of_images_are_small_and_of_vectors_large() -> None:
    sizes = list[int]()

    class Noting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            sizes.append(len(x))
            return x.flatten(1)[:, :2]

    for shape, expected in (((64,), 64), ((1, 28, 28), 10), ((3, 32, 32), 4), ((3, 64, 64), 4)):
        TrainedNetwork(Noting(), 0, {}, False).predict_proba(np.zeros((130, *shape), np.float32))
        assert set(sizes) == {expected} and len(sizes) == -(-130 // expected)
        sizes.clear()
