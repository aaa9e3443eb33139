"""Keys and draws."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ict.base.rng import Rng, Use, default_generator, fold

CPU = torch.device("cpu")


def test_fold_is_splitmix64() -> None:
    # splitmix64's published first outputs for the state 0 and 1234567 (Vigna's reference, shifted by one bit here)
    assert fold(0) == 0xE220A8397B1DCDAF >> 1
    assert fold(1234567) == 6457827717110365317 >> 1


def test_keys_of_different_uses_never_meet() -> None:
    keys = [fold(seed, use, a, b) for seed, use, a, b in product(range(3), Use, range(20), range(20))]
    assert len(set(keys)) == len(keys)
    assert min(keys) >= 0 and max(keys) < 2**63


@given(st.integers(0, 2**63 - 1), st.lists(st.integers(0, 2**40), max_size=4))
def test_fold_depends_on_order_and_length(seed: int, data: list[int]) -> None:
    assert fold(seed, *data) != fold(seed, *data, 0)
    if len(data) > 1 and data[0] != data[1]:
        assert fold(seed, data[0], data[1]) != fold(seed, data[1], data[0])


@pytest.mark.parametrize("alpha", [0.001, 0.1, 0.5, 1.0, 2.0])
def test_beta_draws_follow_the_distribution(alpha: float) -> None:
    rng = Rng(CPU, fold(0, Use.DRAWS))
    draws = [float(rng.beta(alpha)) for _ in range(2000)]
    assert all(0 <= d <= 1 for d in draws)
    # float32 rounds what is very near 1 to 1, so both samples are cut off there
    expected = stats.beta(alpha, alpha).rvs(20000, random_state=0)
    assert stats.ks_2samp(np.clip(draws, 1e-6, 1 - 1e-6), np.clip(expected, 1e-6, 1 - 1e-6)).pvalue > 1e-3


def test_a_key_gives_the_same_draws_and_another_gives_others() -> None:
    rng = Rng(CPU)

    def draw(key: int) -> list[torch.Tensor]:
        rng.reseed(key)
        return [rng.beta(0.3), rng.integers(5, 50), rng.uniform(50), rng.normal_like(torch.zeros(50))]

    assert all(torch.equal(a, b) for a, b in zip(draw(7), draw(7), strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(draw(7), draw(8), strict=True))


def test_uniform_draws_cover_their_range() -> None:
    rng = Rng(CPU, 3)
    assert set(rng.integers(5, 500).tolist()) == {0, 1, 2, 3, 4}
    assert stats.kstest(rng.uniform(2000).numpy(), "uniform").pvalue > 1e-3
    assert stats.kstest(rng.normal_like(torch.zeros(2000)).numpy(), "norm").pvalue > 1e-3


def test_default_generator_is_what_dropout_draws_from() -> None:
    ones = torch.ones(200)
    with torch.random.fork_rng(devices=[]):
        default_generator(CPU).manual_seed(5)
        first = torch.dropout(ones, 0.5, True)
        default_generator(CPU).manual_seed(5)
        assert torch.equal(first, torch.dropout(ones, 0.5, True))
        default_generator(CPU).manual_seed(6)
        assert not torch.equal(first, torch.dropout(ones, 0.5, True))
