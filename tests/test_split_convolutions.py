"""Float32 convolutions out of shorter numbers, against float64."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ict.engine.split import SplitConvolutions, convolve, split

CUDA = pytest.param("cuda", marks=pytest.mark.gpu)


def distance(got: Tensor | None, wanted: Tensor | None) -> float:
    assert got is not None and wanted is not None
    return float((got.detach().cpu().double() - wanted.detach().cpu()).norm() / wanted.detach().cpu().norm())


def test_the_first_part_is_short_and_the_sum_is_exact() -> None:
    x = torch.randn(5000, generator=torch.Generator().manual_seed(0)) * torch.logspace(-20, 20, 5000)
    short, rest = split(x)
    assert torch.equal(short + rest, x)
    mantissas, _ = np.frexp(short.double().numpy())
    assert np.array_equal(mantissas * 2**11, np.round(mantissas * 2**11)), "11 bits"
    assert bool((rest.abs() <= x.abs() * 2.0**-10).all())


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize(("stride", "padding"), [((1, 1), (1, 1)), ((2, 2), (0, 0))])
def test_forward_and_gradients_are_those_of_float32(
    stride: tuple[int, int], padding: tuple[int, int], device: str
) -> None:
    draws = torch.Generator().manual_seed(1)
    x, weight, bias = (torch.randn(*s, generator=draws) for s in ((6, 64, 12, 12), (32, 64, 3, 3), (32,)))
    precisely = [t.double().requires_grad_() for t in (x, weight, bias)]
    ours = [t.to(device).requires_grad_() for t in (x, weight, bias)]
    conv2d: Any = F.conv2d
    expected = conv2d(*precisely, stride, padding)
    with SplitConvolutions():
        found = conv2d(*ours, stride, padding)
    assert found.grad_fn is not None and distance(found, expected) < 1e-6
    gradient = torch.randn(expected.shape, generator=draws)
    expected.backward(gradient.double())
    found.backward(gradient.to(device))  # by the same means, though the mode is over
    for mine, precise in zip(ours, precisely, strict=True):
        assert distance(mine.grad, precise.grad) < 1e-6


def test_short_numbers_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """With units that read 11 bits of each number, as a GPU's do."""
    plain: Any = torch.conv2d

    def short(x: Tensor, weight: Tensor, *others: object) -> Tensor:
        out: Tensor = plain(split(x)[0].double(), split(weight)[0].double(), *others).float()
        return out

    draws = torch.Generator().manual_seed(2)
    x, weight = torch.randn(4, 16, 8, 8, generator=draws), torch.randn(8, 16, 3, 3, generator=draws)
    expected = plain(x.double(), weight.double(), None, 1, 1)
    monkeypatch.setattr("torch.conv2d", short)
    assert distance(convolve(x, weight, None, (1, 1), (1, 1), (1, 1), 1), expected) < 1e-6
    assert distance(short(x, weight, None, 1, 1), expected) > 1e-4, "one alone is not"


def test_what_is_no_plain_convolution_is_left_to_torch() -> None:
    x, weight = torch.randn(2, 4, 6, 6, dtype=torch.float64), torch.randn(4, 1, 3, 3, dtype=torch.float64)
    with SplitConvolutions():
        found = F.conv2d(x, weight, None, (1, 1), "same", (1, 1), 4)
        assert torch.equal(F.relu(x), x.clamp_min(0))
    assert torch.equal(found, F.conv2d(x, weight, None, (1, 1), "same", (1, 1), 4))
