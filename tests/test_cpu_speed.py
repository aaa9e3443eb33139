"""The paths that make a CPU fast: threads by work, channels last, bfloat16. What they may not change."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ict import ICTClassifier, from_arrays, train
from ict.engine.device import has_bfloat16, limit_threads, untouched_globals
from ict.engine.fast.bfloat16 import HalfForward
from ict.engine.forward import Forward
from ict.engine.memory_format import channels_last, lay_out
from ict.networks import NETWORKS
from ict.networks.staged import GlobalMean
from tests.tiny import same_bits, tiny

CPU = torch.device("cpu")
HALF = pytest.mark.skipif(not has_bfloat16(), reason="this CPU has no bfloat16")


@pytest.mark.parametrize(
    ("name", "shape", "options", "threads"),
    [
        ("convnet", (1, 8, 8), {"width": 16}, 1),
        ("mlp-wide", (64,), {}, 1),
        ("convnet", (1, 16, 16), {"width": 16}, 1),
        ("convnet", (1, 28, 28), {}, 2),
        ("convnet", (3, 32, 32), {}, 2),
        ("cnn13", (3, 32, 32), {}, 2),
    ],
)
def test_threads_are_given_by_the_work_of_an_update(
    name: str, shape: tuple[int, ...], options: dict[str, Any], threads: int
) -> None:
    before = torch.get_num_threads()
    with untouched_globals(CPU, 2):
        limit_threads(NETWORKS[name](shape, 10, **options), shape, 100)
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("channels", [1, 3])
def test_our_networks_compute_channels_last_and_give_the_same_answers(channels: int) -> None:
    torch.manual_seed(0)
    plain = NETWORKS["convnet"]((channels, 8, 8), 3)
    laid_out = NETWORKS["convnet"]((channels, 8, 8), 3)
    laid_out.load_state_dict(plain.state_dict())
    lay_out(laid_out)
    strides = list[tuple[int, ...]]()
    for module in laid_out.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(lambda _module, _inputs, out: strides.append(out.stride()))
    x = torch.randn(5, channels, 8, 8)
    torch.testing.assert_close(laid_out(x), plain(x), atol=1e-5, rtol=0)
    assert len(strides) == 4 and all(stride[1] == 1 for stride in strides), "a channel's neighbor is the next channel"
    assert torch.equal(channels_last(x), x) and channels_last(x).stride()[1] == 1


@pytest.mark.parametrize(("name", "options"), [("convnet", {}), ("cnn13", {}), ("wrn-28-2", {"depth": 10})])
def test_activations_in_place_change_no_gradient_and_no_hidden_state(name: str, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    network = lay_out(NETWORKS[name]((3, 12, 12), 3, **options))
    activations = [m for m in network.modules() if isinstance(m, nn.LeakyReLU)]
    assert any(activation.inplace for activation in activations)
    x, found = torch.randn(4, 3, 12, 12), list[list[Tensor]]()
    kept = list[tuple[Tensor, Tensor]]()

    def tap(_stage: int, h: Tensor) -> Tensor:
        kept.append((h, h.detach().clone()))
        return h

    for _ in range(2):
        network.zero_grad()
        logits = network(x, tap=tap)
        logits.square().sum().backward()
        found.append([logits, *(p.grad.clone() for p in network.parameters() if p.grad is not None)])
        for activation in activations:
            activation.inplace = False
    assert len(found[0]) > 10 and all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    assert all(torch.equal(h, before) for h, before in kept), "a tap may keep what it was given"


def test_the_mean_over_pixels_has_torchs_bits_and_a_gradient_in_the_layout_of_its_input() -> None:
    torch.manual_seed(0)
    x = channels_last(torch.randn(8, 16, 14, 14)).requires_grad_()
    ours, torchs = GlobalMean()(x), x.mean((2, 3))
    assert torch.equal(ours, torchs)
    gradients = [torch.autograd.grad(mean.square().sum(), x)[0] for mean in (ours, torchs)]
    assert torch.equal(*gradients)
    assert gradients[0].stride()[1] == 1, "a channel's neighbor is the next channel"


def test_a_network_of_the_users_keeps_its_layout() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 2))
    assert lay_out(network)[0].weight.is_contiguous()  # type: ignore[index]


@HALF
def test_fast_mode_trains_in_bfloat16_close_to_float32_and_repeats_its_bits() -> None:
    exact, fast = train(tiny()), train(tiny(), mode="fast")
    assert fast.result["mode"] == "fast" and not same_bits(exact, fast)
    assert same_bits(fast, train(tiny(), mode="fast"))
    for (name, a), b in zip(exact.network.state_dict().items(), fast.network.state_dict().values(), strict=True):
        assert b.dtype == a.dtype, f"{name} stays in float32"
    weights = [torch.cat([p.flatten() for p in run.network.parameters()]) for run in (exact, fast)]
    assert torch.corrcoef(torch.stack(weights))[0, 1] > 0.99


@HALF
def test_bfloat16_is_off_where_an_algorithm_needs_precision() -> None:
    torch.manual_seed(0)
    network = NETWORKS["convnet"]((1, 8, 8), 3).eval()
    half, full, x, d = HalfForward(network), Forward(network), torch.randn(4, 1, 8, 8), torch.randn(4, 1, 8, 8)
    assert half(x).dtype == torch.float32 and not torch.equal(half(x), full(x))
    torch.testing.assert_close(half(x), full(x), atol=0.02, rtol=0)
    with half.precise():
        assert torch.equal(half(x), full(x))
    assert not torch.equal(half(x), full(x))
    for a, b in zip(half.along(x, d), full.along(x, d), strict=True):
        torch.testing.assert_close(a, b)


@HALF
def test_an_estimator_trains_in_bfloat16_where_asked() -> None:
    x, y = np.random.default_rng(0).normal(size=(40, 6)), np.where(np.arange(40) < 20, np.arange(40) % 2, -1)
    exact, again, fast = (
        ICTClassifier(steps=20, device="cpu", random_state=0, mode=mode).fit(x, y).predict_proba(x)
        for mode in ("exact", "exact", "fast")
    )
    np.testing.assert_array_equal(exact, again)
    assert 0 < np.abs(fast - exact).max() < 0.1


def test_without_the_hardware_fast_mode_says_so_and_runs_the_exact_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "avx512_bf16": False})
    with pytest.warns(UserWarning, match="fast mode needs a GPU, or a CPU with instructions for bfloat16"):
        fast = train(tiny(), mode="fast")
    assert fast.result["mode"] == "exact" and same_bits(fast, train(tiny()))


def test_larger_images_are_trained_on_all_threads_and_the_setting_is_restored() -> None:
    torch.set_num_threads(2)
    try:
        x = np.random.default_rng(0).integers(0, 256, (20, 1, 40, 40), dtype=np.uint8)
        changes = ["network.width=16", "train.steps=1", "train.unlabeled_batch=64"]
        assert train(tiny(), data=from_arrays(x, np.arange(20) % 2), settings=changes).result["threads"] == 2
        assert train(tiny()).result["threads"] == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
