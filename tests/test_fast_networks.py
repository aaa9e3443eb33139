"""What the fast step does to networks, checked on the CPU: parts joined, layers fused, layouts changed."""

from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ict.contract import Tap
from ict.engine.averages import WeightAverage
from ict.engine.fast import convolutions
from ict.engine.fast.device_updates import QuickAverage
from ict.engine.fast.forward import FastForward
from ict.engine.forward import Forward
from ict.networks import NETWORKS
from ict.networks.batch_norm import BatchNorm2d, can_join, joined
from ict.networks.staged import GlobalMean, Staged

IMAGES = {"convnet": (1, 8, 8), "cnn13": (3, 12, 12), "wrn-28-2": (3, 8, 8), "mlp-wide": (5,)}
every_network = pytest.mark.parametrize("name", list(IMAGES))


def built(name: str, **options: object) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        network: nn.Module = NETWORKS[name](IMAGES[name], 4, **options).double()
    return network


def parts(name: str) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(1)
    a, b = (torch.randn(n, *IMAGES[name], generator=draws, dtype=torch.float64) for n in (4, 6))
    return a, 3 * b + 1


def _upside_down(stage: int, h: Tensor) -> Tensor:
    return h.flip(0) if stage % 2 else h * 2


def gradients(network: nn.Module) -> list[Tensor]:
    return [p.grad for p in network.parameters() if p.grad is not None]


@every_network
def test_parts_in_one_forward_are_as_if_one_after_the_other(name: str) -> None:
    apart, together = built(name), built(name)
    a, b = parts(name)
    z_a, z_b = apart(a), apart(b)
    with joined(together, (4, 6)):
        z = together(torch.cat([a, b]))
    torch.testing.assert_close(z, torch.cat([z_a, z_b]), rtol=1e-12, atol=1e-12)
    for x, y in zip(apart.buffers(), together.buffers(), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-12)
    (z_a.square().mean() + z_b.square().mean()).backward()
    (z[:4].square().mean() + z[4:].square().mean()).backward()
    torch.testing.assert_close(gradients(apart), gradients(together), rtol=1e-9, atol=1e-12)
    assert not torch.allclose(together(torch.cat([a, b])), z), "afterwards they are one batch again"


def test_mean_only_norm_takes_parts_too() -> None:
    apart, together = (built("cnn13", norm="mean-only") for _ in range(2))
    a, b = parts("cnn13")
    expected = torch.cat([apart(a), apart(b)])
    with joined(together, (4, 6)):
        torch.testing.assert_close(together(torch.cat([a, b])), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "options"), [*((name, {}) for name in IMAGES), ("cnn13", {"norm": "mean-only"})])
def test_the_last_parts_can_leave_the_statistics_alone(name: str, options: dict[str, str]) -> None:
    first, together = built(name, **options), built(name, **options)
    a, b = parts(name)
    first(a)
    with joined(together, (4, 6), still=1):
        together(torch.cat([a, b]))
    for x, y in zip(first.buffers(), together.buffers(), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-12)
    together(b)
    assert not all(torch.equal(x, y) for x, y in zip(first.buffers(), together.buffers(), strict=True))


class Counting(FastForward):
    """Keeps the sizes of the batches that it runs."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        self.sizes: list[int] = []

    def _run(self, function: Callable[..., Tensor], x: Tensor, **options: Any) -> Tensor:
        self.sizes.append(len(x))
        return super()._run(function, x, **options)


@pytest.mark.parametrize(("frozen", "sizes"), [(True, [10]), (False, [4, 6])])
@every_network
def test_one_batch_beside_another(name: str, frozen: bool, sizes: list[int]) -> None:
    """Together, where only the first moves the statistics."""
    exact, fast = Forward(built(name).float()), Counting(built(name).float())
    a, b = (part.float() for part in parts(name))
    found = []
    for forward in (exact, fast):
        with forward.frozen_stats() if frozen else nullcontext(), forward.same_masks():
            found.append(forward.beside(a, b))
    assert fast.sizes == sizes
    for x, y in zip(*found, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-4)
    for x, y in zip(exact.module.buffers(), fast.module.buffers(), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5)


@every_network
def test_one_batch_beside_another_that_keeps_its_masks(name: str) -> None:
    fast = Counting(built(name, dropout=0.5).float())
    a, b = (part.float() for part in parts(name))
    with fast.frozen_stats(), fast.same_masks():
        before = fast(b)
        z_a, z_b = fast.beside(a, b)
        torch.testing.assert_close(z_b, before)
        assert not torch.equal(fast.beside(a, b)[0], z_a)
    fast.beside(a, b)  # no longer
    assert fast.sizes == [6, 4, 6, 4, 6, 4, 6]


@every_network
def test_every_network_can_join_and_a_stranger_cannot(name: str) -> None:
    assert can_join(built(name))
    assert not can_join(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))


@every_network
def test_the_fast_forward_is_the_exact_one_up_to_rounding(name: str) -> None:
    network = built(name).float()
    exact, fast = Forward(deepcopy(network)), FastForward(deepcopy(network), compile=False)
    a, b = (part.float() for part in parts(name))
    for x, y in zip(exact.each(a, b), fast.each(a, b), strict=True):
        assert y.dtype == torch.float32
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-4)
    for x, y in zip(exact.features(a, b), fast.features(a, b), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(exact(a, _upside_down), fast(a, _upside_down), rtol=1e-4, atol=1e-4)
    with fast.precise():
        for x, y in zip(exact.features(a, b), fast.features(a, b), strict=True):
            torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-4)


@every_network
def test_precise_forwards_run_contiguous_weights_and_their_gradients_reach_the_parameters(name: str) -> None:
    exact, fast = Forward(built(name).float()), FastForward(built(name).float())
    seen = []
    for layer in fast.module.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_pre_hook(lambda layer, _: seen.append(layer.weight.is_contiguous()))
    x = parts(name)[0].float()
    with fast.precise():
        z, expected = fast(x), exact(x)
    for each in (z, expected):
        each.square().mean().backward()
    torch.testing.assert_close(z, expected, rtol=1e-5, atol=1e-5)
    found = gradients(fast.module)
    torch.testing.assert_close(found, gradients(exact.module), rtol=1e-4, atol=1e-5)
    assert len(found) == len(list(fast.module.parameters())) and all(seen)
    assert all(p.is_contiguous(memory_format=torch.channels_last) for p in fast.module.parameters() if p.dim() == 4)


class Skip(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return x + out


class Bent(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).tanh()


class Squared(Staged):
    def forward(self, x: Tensor, tap: Tap | None = None) -> Tensor:
        return super().forward(x, tap).square()


def conv(**options: Any) -> nn.Conv2d:
    return nn.Conv2d(4, 4, 3, **{"padding": 1, **options})


def hooked(module: nn.Module) -> nn.Module:
    module.register_forward_hook(lambda _, __, out: out.tanh())
    return module


FOREIGN: dict[str, Callable[[], nn.Module]] = {
    "a sequence with a forward of its own": lambda: Skip(conv(), nn.ReLU()),
    "a convolution with a forward of its own": lambda: Bent(4, 4, 3),
    "a hook": lambda: hooked(conv()),
    "a hook of a norm": lambda: hooked(BatchNorm2d(4)),
    "reflection": lambda: conv(padding_mode="reflect"),
    "padding by name": lambda: conv(padding="same"),
    "1 x 1 with a border, behind a bias": lambda: nn.Sequential(conv(), nn.Conv2d(4, 4, 1, padding=1)),
    "a pooling with gaps": lambda: nn.Sequential(BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2, dilation=2)),
    "a pooling that rounds up": lambda: nn.Sequential(BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True)),
    "one layer twice": lambda: nn.Sequential(*[conv()] * 2),
    "spectral norm": lambda: nn.utils.parametrizations.spectral_norm(conv()),
    "orthogonal weights": lambda: nn.utils.parametrizations.orthogonal(conv()),
}


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("kind", [*FOREIGN, "a network with a forward of its own"])
def test_layers_of_ones_own_do_what_they_do(kind: str, device: str) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        first = conv()
        middle = FOREIGN.get(kind, nn.Identity)()
        stages = (first, middle, nn.Sequential(BatchNorm2d(4), nn.ReLU(), GlobalMean(), nn.Linear(4, 3)))
        network = (Staged if kind in FOREIGN else Squared)(*stages).to(device)
        x = torch.randn(40, 4, 7, 7).to(device)
    exact, fast = Forward(deepcopy(network)), FastForward(network)
    z, expected = fast(x), exact(x)
    for each in (z, expected):
        each.square().mean().backward()
    rounding = 1e-4 if device == "cpu" else 0.05
    assert (z - expected).norm() < rounding * expected.norm()
    for p, q in zip(network.parameters(), exact.module.parameters(), strict=True):
        assert q.grad is not None  # of a bias in front of a norm it is rounding
        assert (q.grad - (0 if p.grad is None else p.grad)).norm() < 3 * rounding * (q.grad.norm() + 0.1)


@pytest.mark.parametrize("channels", [4, 8])
def test_inputs_of_convolutions_are_dense(channels: int) -> None:
    """A slice has the strides of channels last and gaps between them, which kernels do not expect."""
    wide = torch.randn(3, 2 * channels, 5, 5).to(convolutions.HALF).contiguous(memory_format=torch.channels_last)
    half, _ = wide.chunk(2, 1)
    found = convolutions.widened(half)
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(found[:, :channels], half) and not found[:, channels:].any()


def test_a_network_with_foreign_norms_is_run_part_by_part() -> None:
    network = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    exact, fast = Forward(deepcopy(network)), FastForward(network, compile=False)
    a, b = (part.float() for part in parts("mlp-wide"))
    for x, y in zip(exact.each(a, b), fast.each(a, b), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-4)
    with exact.frozen_stats(), fast.frozen_stats():
        for x, y in zip(exact.beside(a, b), fast.beside(a, b), strict=True):
            torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-4)
    for x, y in zip(exact.module.buffers(), fast.module.buffers(), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5)


def test_an_average_follows_parameters_whose_memory_was_replaced() -> None:
    student = built("convnet")
    average = WeightAverage(student)
    average.update(1.0)  # changes nothing
    FastForward(student, compile=False)
    FastForward(average.module, compile=False)
    with torch.no_grad():
        for p in student.parameters():
            p.add_(1.0)
    average.update(0.25)
    for p, q in zip(student.parameters(), average.module.parameters(), strict=True):
        torch.testing.assert_close(q, p - 0.25)


@pytest.mark.parametrize("average_buffers", [False, True])
def test_an_average_in_one_piece_of_memory_is_the_formula(average_buffers: bool) -> None:
    student = built("convnet", width=5)
    student.register_parameter("odd", nn.Parameter(torch.ones(3, dtype=torch.float32)))
    average = WeightAverage(student, average_buffers)
    FastForward(student), FastForward(average.module)
    before = deepcopy(average.module.state_dict())
    strides = [p.stride() for p in student.parameters()]
    quick = QuickAverage(average)
    for name, value in average.module.state_dict().items():
        assert torch.equal(value, before[name]), "moving changes no number"
    assert [p.stride() for p in student.parameters()] == strides
    with torch.no_grad():
        for tensor in student.state_dict().values():
            tensor.add_(1)
    quick.update(torch.tensor(0.25))
    parameters = {name for name, _ in student.named_parameters()}
    for name, value in average.module.state_dict().items():
        moved = name in parameters or (average_buffers and value.is_floating_point())
        torch.testing.assert_close(value, before[name] + 0.25 if moved else before[name])
    assert all(p.data_ptr() % 64 == 0 for p in student.parameters()), "aligned as torch aligns them"
