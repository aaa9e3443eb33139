"""The tensor functions against algebra and plain NumPy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ict import ops

numbers = arrays(np.float64, (5, 3), elements=st.floats(-20, 20))
shares = st.floats(0, 1)


def log_softmax(z: np.ndarray) -> np.ndarray:
    z = z - z.max(1, keepdims=True)
    out: np.ndarray = z - np.log(np.exp(z).sum(1, keepdims=True))
    return out


@given(numbers, numbers, shares)
def test_mix_is_linear_and_symmetric(a: np.ndarray, b: np.ndarray, lam: float) -> None:
    ta, tb, tl = torch.tensor(a), torch.tensor(b), torch.tensor(lam, dtype=torch.float64)
    assert torch.equal(ops.mix(torch.tensor(1.0), ta, tb), ta)
    assert torch.equal(ops.mix(torch.tensor(0.0), ta, tb), tb)
    np.testing.assert_allclose(ops.mix(tl, ta, tb), ops.mix(1 - tl, tb, ta), atol=1e-12)
    np.testing.assert_allclose(ops.mix(tl, ta, tb), b + lam * (a - b), atol=1e-12)


@given(numbers, numbers)
def test_losses_match_numpy(z: np.ndarray, t: np.ndarray) -> None:
    p, log_p = np.exp(log_softmax(t)), log_softmax(z)
    logits, targets = torch.tensor(z), torch.tensor(p)
    np.testing.assert_allclose(ops.cross_entropy(logits, targets), -(p * log_p).sum(1).mean(), atol=1e-9)
    np.testing.assert_allclose(ops.kl(targets, logits), (p * (log_softmax(t) - log_p)).sum(1).mean(), atol=1e-9)
    np.testing.assert_allclose(ops.entropy(targets), -(p * log_softmax(t)).sum(1).mean(), atol=1e-9)
    np.testing.assert_allclose(ops.probabilities(logits, 0.5), np.exp(log_softmax(z / 0.5)), atol=1e-9)
    q = np.exp(log_p)
    np.testing.assert_allclose(ops.mse(torch.tensor(q), targets), ((q - p) ** 2).sum() / q.size, atol=1e-12)


@given(numbers, numbers)
def test_kl_is_never_negative_and_zero_only_at_equality(z: np.ndarray, t: np.ndarray) -> None:
    logits, targets = torch.tensor(z), torch.softmax(torch.tensor(t), 1)
    assert ops.kl(targets, logits) >= -1e-12
    assert abs(float(ops.kl(torch.softmax(logits, 1), logits))) < 1e-12


def test_one_hot_and_entropy_of_certainty() -> None:
    rows = ops.one_hot(torch.tensor([2, 0]), like=torch.zeros(2, 3, dtype=torch.float64))
    assert rows.tolist() == [[0, 0, 1], [1, 0, 0]] and rows.dtype == torch.float64
    assert float(ops.entropy(rows)) == 0.0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_are_raised_to_float32(dtype: torch.dtype) -> None:
    logits = torch.tensor([[3.0, -1.0, 0.5]], dtype=dtype)
    target = ops.one_hot(torch.tensor([0]), like=logits)
    assert ops.probabilities(logits).dtype == ops.cross_entropy(logits, target).dtype == torch.float32
    np.testing.assert_allclose(
        ops.cross_entropy(logits, target), -log_softmax(np.array([[3.0, -1.0, 0.5]]))[0, 0], rtol=1e-6
    )
