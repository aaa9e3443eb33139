"""The GPU's kernels against torch's own layers in float64. Without a GPU they run where Triton's interpreter is:

TRITON_INTERPRET=1 python -m pytest tests/test_kernels.py
"""

import os
import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad

pytest.importorskip("triton", reason="triton, which comes with torch for GPUs, is not installed")
if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("no GPU, and TRITON_INTERPRET is not 1", allow_module_level=True)

from ict.engine.fast.kernels.mixup import mixed
from ict.engine.fast.kernels.norm import How, Layout, Running, act_pool, counters, norm_act
from ict.engine.fast.kernels.small_conv import convolve, weight_gradient
from ict.engine.fast.kernels.weight_norm import unit_rows, unit_rows_gradient

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def distance(got: Tensor | None, wanted: Tensor | None) -> float:
    assert got is not None and wanted is not None
    return float((got.detach().cpu().double() - wanted.detach()).norm() / wanted.detach().norm())


def reference(
    x: Tensor, norm: nn.BatchNorm2d, parts: tuple[int, ...], slope: float, pool: bool, still: int = 0
) -> Tensor:
    """The last `still` parts move no statistics."""
    pieces, moving = x.split(parts), len(parts) - still
    alone = [F.batch_norm(part, None, None, norm.weight, norm.bias, training=True) for part in pieces[moving:]]
    out = torch.cat([*(norm(part) for part in pieces[:moving]), *alone])
    out = F.leaky_relu(out, slope)
    return F.max_pool2d(out, 2) if pool else out


@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize(
    ("shape", "parts", "still"),
    [
        ((6, 5, 4, 4), (6,), 0),
        ((7, 24, 6, 8), (3, 4), 0),
        ((40, 70, 2, 2), (13, 1, 26), 0),
        ((40, 70, 2, 2), (13, 1, 26), 2),
        ((30, 128, 10, 10), (20, 10), 0),
        ((30, 128, 10, 10), (20, 10), 1),
    ],
)
def test_norm_activation_and_pooling_are_torchs(
    shape: tuple[int, ...], parts: tuple[int, ...], still: int, pool: bool
) -> None:
    draws = torch.Generator().manual_seed(len(parts) + shape[1])
    norm = nn.BatchNorm2d(shape[1], momentum=0.3).double()
    with torch.no_grad():
        norm.weight.copy_(torch.randn(shape[1], generator=draws))  # of both signs: a negative one turns the order over
        norm.bias.copy_(torch.randn(shape[1], generator=draws))
    x = (3 * torch.randn(shape, generator=draws) + 100).to(torch.float64)  # a mean that dwarfs the deviation
    x = x.float().double()
    shift = torch.randn(shape[1], generator=draws)
    expected_x = x.clone().requires_grad_()
    expected = reference(expected_x, norm, parts, 0.1, pool, still)
    gradient = torch.randn(expected.shape, generator=draws)
    expected.backward(gradient.double())

    ours = nn.BatchNorm2d(shape[1], momentum=0.3).to(DEVICE)
    weight, bias = (p.detach().float().to(DEVICE).requires_grad_() for p in (norm.weight, norm.bias))
    assert ours.running_mean is not None and ours.running_var is not None and ours.num_batches_tracked is not None
    running = Running(ours.running_mean, ours.running_var, ours.num_batches_tracked, 0.3)
    got_x = x.float().to(DEVICE).requires_grad_()
    how = How(counters(ours), 1e-5, 0.1, pool, parts, running, (shift.to(DEVICE),), still)
    got, _, _ = norm_act(got_x, None, weight, bias, how)
    got.backward(gradient.to(DEVICE))

    assert norm.running_mean is not None and norm.running_var is not None
    moving = len(parts) - still
    seen = 1 - 0.7**moving  # how much of the shift the running mean has seen
    pairs = {
        "output": (got, expected),
        "gradient": (got_x.grad, expected_x.grad),
        "weight": (weight.grad, norm.weight.grad),
        "bias": (bias.grad, norm.bias.grad),
        "mean": (ours.running_mean, norm.running_mean + seen * shift.double()),
        "variance": (ours.running_var, norm.running_var),
    }
    for name, (a, b) in pairs.items():
        assert distance(a, b) < 2e-5, name
    assert ours.num_batches_tracked.item() == moving


@pytest.mark.parametrize("slope", [0.0, 0.1])
@pytest.mark.parametrize("shape", [(6, 5, 4, 4), (3, 70, 6, 8)])
def test_activation_and_pooling_without_a_norm_are_torchs(shape: tuple[int, ...], slope: float) -> None:
    draws = torch.Generator().manual_seed(shape[1])
    x = torch.randn(shape, generator=draws)
    expected_x, got_x = x.double().requires_grad_(), x.to(DEVICE).requires_grad_()
    expected, got = F.max_pool2d(F.leaky_relu(expected_x, slope), 2), act_pool(got_x, slope)
    gradient = torch.randn(expected.shape, generator=draws)
    expected.backward(gradient.double())
    got.backward(gradient.to(DEVICE))
    assert distance(got, expected) < 1e-6 and distance(got_x.grad, expected_x.grad) < 1e-6


def along(function: Callable[[Tensor], Tensor], x: Tensor, d: Tensor) -> Tensor:
    """The derivative in forward mode."""
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning), forward_ad.dual_level():
        moved: Tensor | None = forward_ad.unpack_dual(function(forward_ad.make_dual(x, d))).tangent
    assert moved is not None
    return moved


@pytest.mark.parametrize(("slope", "layout"), [(0.0, torch.channels_last), (0.1, torch.contiguous_format)])
@pytest.mark.parametrize("plus", [False, True])
@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize(
    ("shape", "parts"), [((6, 5, 4, 4), (6,)), ((40, 70, 2, 2), (13, 1, 26)), ((30, 128, 10, 10), (20, 10))]
)
def test_what_moves_with_the_input_moves_as_with_torch(
    shape: tuple[int, ...], parts: tuple[int, ...], pool: bool, plus: bool, slope: float, layout: torch.memory_format
) -> None:
    draws = torch.Generator().manual_seed(len(parts) + shape[1])
    x, other, d = (torch.randn(shape, generator=draws) for _ in range(3))
    norm = nn.BatchNorm2d(shape[1], track_running_stats=False).double()
    with torch.no_grad():
        norm.weight.copy_(torch.randn(shape[1], generator=draws))
        norm.bias.copy_(torch.randn(shape[1], generator=draws))
    weight, bias = (p.detach().float().to(DEVICE).requires_grad_() for p in (norm.weight, norm.bias))
    how = How(counters(norm).to(DEVICE), 1e-5, slope, pool, parts)

    def ours(x: Tensor) -> Tensor:
        """What is added may move as well."""
        return norm_act(x, x * other.to(DEVICE) if plus else None, weight, bias, how)[0]

    def torchs(x: Tensor) -> Tensor:
        both = x + x * other.double() if plus else x
        return reference(both, norm, parts, slope, pool)

    got = along(ours, x.to(DEVICE, memory_format=layout).requires_grad_(), d.to(DEVICE, memory_format=layout))
    assert distance(got, along(torchs, x.double(), d.double())) < 2e-5
    if pool and not plus:
        got = along(lambda x: act_pool(x, slope), x.to(DEVICE), d.to(DEVICE))
        expected = along(lambda x: F.max_pool2d(F.leaky_relu(x, slope), 2), x.double(), d.double())
        assert distance(got, expected) < 1e-6


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last, None])
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_mixing_in_one_is_the_formula_and_so_is_its_gradient(groups: int, layout: torch.memory_format | None) -> None:
    draws = torch.Generator().manual_seed(groups)
    shape = (6, 40, 6, 8) if layout else (6, 10)
    x, gradient = (torch.randn(shape, generator=draws) for _ in range(2))
    lam = torch.tensor([1.0, 0.3])[1]  # not at the beginning of its memory
    expected_x = x.double().requires_grad_()
    each = 6 // groups
    rows = []
    for i in range(6):
        partner = i - 1 if i % each else i + each - 1
        rows.append(lam.double() * expected_x[i] + (1 - lam.double()) * expected_x[partner])
    expected = torch.stack(rows)
    expected.backward(gradient.double())

    got_x = x.to(DEVICE, memory_format=layout or torch.contiguous_format).requires_grad_()
    got = mixed(got_x, lam.to(DEVICE), groups)
    assert got.stride() == got_x.stride()
    got.backward(gradient.to(DEVICE))
    assert distance(got, expected) < 1e-6 and distance(got_x.grad, expected_x.grad) < 1e-6


@pytest.mark.parametrize("n_shifts", [0, 1, 2])
def test_a_sum_is_made_and_normalised_in_one(n_shifts: int) -> None:
    draws = torch.Generator().manual_seed(0)
    a, b, first, second = (torch.randn(6, 24, 4, 4, generator=draws, dtype=torch.float64) for _ in range(4))
    shifts = tuple(torch.randn(24, generator=draws) for _ in range(n_shifts))
    norm = nn.BatchNorm2d(24, momentum=0.3).double()
    expected_x = [x.clone().requires_grad_() for x in (a, b)]
    both = expected_x[0] + expected_x[1]
    expected = reference(both, norm, (2, 4), 0.1, False)
    (expected * first + both * second).sum().backward()

    ours = nn.BatchNorm2d(24, momentum=0.3).to(DEVICE)
    assert ours.running_mean is not None and ours.running_var is not None and ours.num_batches_tracked is not None
    running = Running(ours.running_mean, ours.running_var, ours.num_batches_tracked, 0.3)
    x, plus = (part.float().to(DEVICE).requires_grad_() for part in (a, b))
    on_device = tuple(shift.to(DEVICE) for shift in shifts)
    how = How(counters(ours), 1e-5, 0.1, False, (2, 4), running, on_device)
    out, both_out, shift_sum = norm_act(x, plus, ours.weight, ours.bias, how)
    (out * first.float().to(DEVICE) + both_out * second.float().to(DEVICE)).sum().backward()
    total = sum(shifts, torch.zeros(24)).double()
    assert norm.running_mean is not None
    pairs = [(out, expected), (both_out, both), (x.grad, expected_x[0].grad), (plus.grad, expected_x[1].grad)]
    pairs += [(ours.running_mean, norm.running_mean + (1 - 0.7**2) * total)]
    for got, wanted in pairs:
        assert got is not None and wanted is not None
        torch.testing.assert_close(got.detach().cpu().double(), wanted.detach(), rtol=1e-4, atol=1e-5)
    assert (shift_sum is None) == (not shifts)
    if shift_sum is not None:
        torch.testing.assert_close(shift_sum.cpu().double(), total, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("n_in", "n_out", "size"), [(32, 32, (5, 6)), (16, 32, (4, 4)), (32, 16, (1, 9))])
def test_narrow_convolutions_and_their_gradients_are_torchs(n_in: int, n_out: int, size: tuple[int, int]) -> None:
    draws = torch.Generator().manual_seed(n_in)
    x, gradient = (torch.randn(7, n, *size, generator=draws) for n in (n_in, n_out))
    weight = torch.randn(n_out, n_in, 3, 3, generator=draws)
    expected_x, expected_weight = (t.double().requires_grad_() for t in (x, weight))
    expected = F.conv2d(expected_x, expected_weight, padding=1)
    expected.backward(gradient.double())
    x, gradient, weight = (t.to(DEVICE, memory_format=torch.channels_last) for t in (x, gradient, weight))
    assert distance(convolve(x, weight), expected) < 1e-6
    assert distance(convolve(gradient, weight, flip=True), expected_x.grad) < 1e-6
    assert distance(weight_gradient(gradient, x), expected_weight.grad) < 1e-6


@pytest.mark.parametrize("shape", [(5, 3, 3, 3), (4, 130, 3, 3), (7, 16, 1, 1)])
def test_weight_norm_is_torchs(shape: tuple[int, ...]) -> None:
    draws = torch.Generator().manual_seed(shape[1])
    g, v, gradient = (torch.randn(s, generator=draws) for s in ((shape[0], 1, 1, 1), shape, shape))
    expected_g, expected_v = (t.double().requires_grad_() for t in (g, v))
    expected = torch._weight_norm(expected_v, expected_g, 0)
    expected.backward(gradient.double())
    g, v, gradient = (t.to(DEVICE, memory_format=torch.channels_last) for t in (g, v, gradient))
    got, lengths = unit_rows(g, v, torch.float32)
    for_g, for_v = unit_rows_gradient(g, v, lengths, gradient)
    for a, b in ((got, expected), (for_g, expected_g.grad), (for_v, expected_v.grad)):
        assert distance(a, b) < 1e-6


def test_a_batch_of_many_pixels_is_cut_into_as_many_tiles_as_a_grid_may_have() -> None:
    for rows in (1000, 5_000_000, 20_000_000):
        (_, n, _), tile = Layout((rows,), 64, 1, False).tiles()
        assert n <= 65_535 and (n - 1) * tile["ROWS"] < rows <= n * tile["ROWS"]
