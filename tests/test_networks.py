"""Shapes and taps of every network; CNN-13 and the Wide ResNets against formulas written afresh."""

from copy import deepcopy
from math import sqrt
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import parametrize
from torch.optim.swa_utils import update_bn

from ict.base.errors import UserError
from ict.base.fields import options
from ict.networks import NETWORKS
from ict.networks.batch_norm import MeanOnlyBatchNorm
from ict.networks.staged import Staged

SHAPES: dict[str, list[tuple[int, ...]]] = {
    "mlp": [(2,), (1, 8, 8)],
    "mlp-wide": [(20,), (3, 4, 4)],
    "mlp-norm": [(20,), (1, 4, 4)],
    "linear": [(20,), (1, 4, 4)],
    "convnet": [(1, 8, 8), (3, 32, 32), (2, 4, 4), (3, 9, 7)],
    "cnn13": [(3, 12, 12), (1, 17, 13)],
    "wrn-28-2": [(3, 8, 8), (1, 9, 7)],
}
CLASSES = 5
all_networks = pytest.mark.parametrize("name", NETWORKS)
variants = pytest.mark.parametrize("variant", ["authors", "oliver"])


def build(name: str, shape: tuple[int, ...] | None = None, n_classes: int = CLASSES, **settings: Any) -> Staged:
    torch.manual_seed(0)
    network = NETWORKS[name](shape or SHAPES[name][0], n_classes, **settings)
    assert isinstance(network, Staged)
    return network.double()


def inputs(name: str, n: int = 3, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, *SHAPES[name][0], dtype=torch.float64, generator=generator)


def shake(network: nn.Module) -> None:
    """Moves every weight and running statistic off its default, where mistakes could hide."""
    with torch.no_grad():
        for tensor in [*network.parameters(), *network.buffers()]:
            if tensor.is_floating_point():
                tensor.mul_(1 + 0.3 * torch.rand_like(tensor)).add_(0.02 * torch.randn_like(tensor))


def seen_by_taps(network: Staged, x: Tensor) -> tuple[list[Tensor], Tensor]:
    seen: list[Tensor] = []

    def tap(i: int, h: Tensor) -> Tensor:
        assert i == len(seen)
        seen.append(h)
        return h

    return seen, network(x, tap)


def count(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def of_type(network: nn.Module, kind: type[nn.Module]) -> list[Any]:
    return [m for m in network.modules() if isinstance(m, kind)]


def kinds(module: nn.Module) -> list[str]:
    return [type(m).__name__.removeprefix("Parametrized") for m in module.children()]


# All networks


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("cnn13", {}, 3_125_908),
        ("cnn13", {"weight_norm": False}, 3_123_850),
        ("cnn13", {"norm": "mean-only"}, 3_125_908 - 2 * 2048),  # no scale, and one bias for each channel, not two
        ("cnn13", {"norm": "mean-only", "weight_norm": False}, 3_123_850 - 2 * 2048),
        ("cnn13", {"top_norm": True}, 3_125_908 + 2 * 10),
        ("wrn-28-2", {}, 1_469_642),
        ("wrn-28-2", {"variant": "oliver"}, 1_467_610),
    ],
)
def test_parameter_count(name: str, settings: dict[str, Any], expected: int) -> None:
    assert count(build(name, (3, 32, 32), 10, **settings)) == expected


def test_parameter_count_of_the_perceptrons() -> None:
    assert count(build("mlp", (2,), 2)) == (2 * 20 + 20) + 2 * (20 * 20 + 20) + (20 * 2 + 2)
    assert count(build("mlp", (2, 3), 2, width=4, depth=1)) == (6 * 4 + 4) + (4 * 2 + 2)
    wide = (7 * 256 + 256 + 512) + (256 * 256 + 256 + 512) + (256 * 2 + 2)
    assert count(build("mlp-wide", (7,), 2)) == wide


@all_networks
def test_logits_have_one_row_for_each_input(name: str) -> None:
    for shape in SHAPES[name]:
        network = build(name, shape)
        logits = network(torch.randn(2, *shape, dtype=torch.float64))
        assert logits.shape == (2, CLASSES)
        assert logits.isfinite().all()


@all_networks
def test_a_tap_that_returns_its_input_changes_nothing(name: str) -> None:
    network, x = build(name).eval(), inputs(name)
    seen, logits = seen_by_taps(network, x)
    assert torch.equal(logits, network(x))
    assert len(seen) == len(network.stages)
    assert seen[0] is x


@all_networks
def test_a_tap_replaces_all_that_a_stage_sees(name: str) -> None:
    network, x, other = build(name).eval(), inputs(name), inputs(name, seed=2)
    seen, logits = seen_by_taps(network, x)
    assert not torch.allclose(logits, network(other))
    for i, h in enumerate(seen):

        def tap(j: int, h: Tensor, i: int = i) -> Tensor:
            return torch.zeros_like(h) if j == i else h

        rest = torch.zeros_like(h)
        for stage in network.stages[i:]:
            rest = stage(rest)
        assert torch.equal(network(x, tap), network(other, tap))
        assert torch.equal(network(x, tap), rest)


@all_networks
def test_no_stage_changes_what_a_tap_saw(name: str) -> None:
    pairs: list[tuple[Tensor, Tensor]] = []

    def tap(_: int, h: Tensor) -> Tensor:
        pairs.append((h, h.clone()))
        return h

    build(name)(inputs(name), tap)
    assert all(torch.equal(h, copy) for h, copy in pairs)


@all_networks
def test_the_last_stage_is_a_linear_layer_alone(name: str) -> None:
    network = build(name)
    last = network.stages[-1]
    assert isinstance(last, nn.Linear)
    assert last.out_features == CLASSES
    seen, logits = seen_by_taps(network, inputs(name))
    assert seen[-1].ndim == 2
    assert torch.equal(logits, F.linear(seen[-1], last.weight, last.bias))


@all_networks
def test_features_and_head_are_the_whole_network(name: str) -> None:
    network, x = build(name), inputs(name)
    assert network.n_stages == len(network.stages)
    for training in (True, False):
        network.train(training)
        seen, logits = seen_by_taps(network, x)
        features = network.features(x)
        assert torch.equal(features, seen[-1])
        assert torch.equal(network.head(features), logits) and torch.equal(logits, network(x))


@all_networks
def test_gradients_flow_through_features_and_head_alike(name: str) -> None:
    network, x = build(name), inputs(name)
    whole = torch.autograd.grad(network(x).square().sum(), list(network.parameters()))
    halves = torch.autograd.grad(network.head(network.features(x)).square().sum(), list(network.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(whole, halves, strict=True))
    assert sum(g.abs().sum() for g in whole) > 0


@all_networks
def test_gradients_repeat_bit_for_bit_on_a_copy(name: str) -> None:
    network, x = build(name), inputs(name)
    gradients = []
    for each in (network, deepcopy(network)):
        each(x).square().sum().backward()
        gradients.append([p.grad for p in each.parameters()])
    for a, b in zip(*gradients, strict=True):
        assert a is not None and b is not None and a is not b
        assert torch.equal(a, b)


@all_networks
def test_a_copy_shares_nothing(name: str) -> None:
    network, x = build(name).eval(), inputs(name)
    before = network(x)
    copy = deepcopy(network)
    assert torch.equal(copy(x), before)
    shake(copy)
    assert torch.equal(network(x), before)
    assert not torch.allclose(copy(x), before)


OPTIONS: dict[str, dict[str, Any]] = {
    "mlp": {"width": 20, "depth": 3},
    "mlp-wide": {"width": 256, "depth": 2, "dropout": 0.0},
    "mlp-norm": {"width": 128, "depth": 2, "dropout": 0.0, "cut": 8.0},
    "linear": {"cut": 8.0},
    "convnet": {"width": 32, "dropout": 0.0},
    "cnn13": {"weight_norm": True, "dropout": 0.0, "norm": "batch", "norm_momentum": 0.1, "top_norm": False},
    "wrn-28-2": {"variant": "authors", "depth": 28, "width": 2, "dropout": 0.0},
}


@all_networks
def test_options_and_their_defaults(name: str) -> None:
    assert {key: option.default for key, option in options(NETWORKS[name]).items()} == OPTIONS[name]


@pytest.mark.parametrize("name", ["mlp-wide", "mlp-norm", "convnet", "cnn13", "wrn-28-2"])
def test_dropout_draws_in_training_alone(name: str) -> None:
    network, x = build(name, dropout=0.5), inputs(name)
    assert {m.p for m in of_type(network, nn.Dropout)} == {0.5}
    assert not torch.allclose(network(x), network(x))
    network.eval()
    assert torch.equal(network(x), network(x))


@pytest.mark.parametrize(
    ("name", "shape", "settings", "says"),
    [
        ("convnet", (20,), {}, r"convnet takes images \[C, H, W\].*mlp-wide"),
        ("cnn13", (32, 32), {}, r"cnn13 takes images \[C, H, W\].*mlp-wide"),
        ("wrn-28-2", (1, 3, 32, 32), {}, r"wrn-28-2 takes images \[C, H, W\].*mlp-wide"),
        ("convnet", (1, 4, 3), {}, "at least 4x4, not 4x3"),
        ("cnn13", (3, 11, 12), {}, "at least 12x12, not 11x12"),
        ("cnn13", (3, 12, 12), {"norm": "layer"}, "norm is 'layer': choose from batch, mean-only"),
        ("cnn13", (3, 12, 12), {"norm_momentum": 0.0}, "norm_momentum is 0.0: it must be above 0"),
        ("cnn13", (3, 12, 12), {"norm_momentum": 1.5}, "norm_momentum is 1.5: it must lie between 0 and 1"),
        ("cnn13", (3, 12, 12), {"norm_momentum": None}, "norm_momentum is None: it must be a number"),
        ("cnn13", (3, 12, 12), {"top_norm": True, "norm": "mean-only"}, "top_norm is true: it needs norm=batch"),
        ("wrn-28-2", (3, 8, 8), {"depth": 27}, "depth is 27"),
        ("wrn-28-2", (3, 8, 8), {"depth": 4}, "depth is 4"),
        ("wrn-28-2", (3, 8, 8), {"width": 0}, "width is 0"),
        ("wrn-28-2", (3, 8, 8), {"variant": "other"}, "choose from authors, oliver"),
        ("mlp", (2,), {"depth": 0}, "depth is 0"),
        ("mlp", (2,), {"width": 0}, "width is 0"),
        ("mlp-wide", (2,), {"depth": 0}, "depth is 0"),
        ("mlp-wide", (2,), {"dropout": 1.0}, "dropout is 1.0"),
        ("convnet", (1, 8, 8), {"width": -1}, "width is -1"),
        ("convnet", (1, 8, 8), {"dropout": -0.1}, "dropout is -0.1"),
    ],
)
def test_user_errors(name: str, shape: tuple[int, ...], settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        build(name, shape, **settings)


# Perceptrons and the small convolutional network


def test_mlp_taps_see_the_hidden_activations() -> None:
    network, x = build("mlp", (1, 8, 8)), torch.randn(4, 1, 8, 8, dtype=torch.float64)
    seen, logits = seen_by_taps(network, x)
    linear = of_type(network, nn.Linear)
    h = x.flatten(1)
    for layer, activation in zip(linear[:-1], seen[1:], strict=True):
        h = (h @ layer.weight.T + layer.bias).clamp(min=0)
        assert h.shape == (4, 20)
        torch.testing.assert_close(activation, h)
    torch.testing.assert_close(logits, h @ linear[-1].weight.T + linear[-1].bias)


def test_layers_of_the_wide_mlp() -> None:
    network = build("mlp-wide")
    hidden = ["Linear", "BatchNorm1d", "ReLU", "Dropout"]
    assert [kinds(s) for s in network.stages] == [["Flatten", *hidden], hidden, []]


def test_layers_of_the_convnet() -> None:
    network = build("convnet")
    pair = ["Conv2d", "BatchNorm2d", "LeakyReLU", "Conv2d", "BatchNorm2d"]
    assert [kinds(s) for s in network.stages] == [
        pair,
        ["LeakyReLU", "MaxPool2d", "Dropout", *pair],
        ["LeakyReLU", "GlobalMean"],
        [],
    ]
    assert {m.negative_slope for m in of_type(network, nn.LeakyReLU)} == {0.1}
    convs = of_type(network, nn.Conv2d)
    assert [tuple(m.weight.shape) for m in convs] == [
        (32, 1, 3, 3),
        (32, 32, 3, 3),
        (64, 32, 3, 3),
        (64, 64, 3, 3),
    ]
    assert all(m.bias is None for m in convs)
    seen, _ = seen_by_taps(network, inputs("convnet"))
    assert [tuple(h.shape[1:]) for h in seen] == [(1, 8, 8), (32, 8, 8), (64, 4, 4), (64,)]


# CNN-13


def batch_norm(h: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor, training: bool) -> Tensor:
    if training:
        mean, var = h.mean((0, 2, 3)), h.var((0, 2, 3), correction=0)
    scale = weight / (var + 1e-5).sqrt()
    return (h - mean[:, None, None]) * scale[:, None, None] + bias[:, None, None]


def leaky(h: Tensor, slope: float) -> Tensor:
    return torch.where(h > 0, h, slope * h)


def cnn13_by_hand(state: dict[str, Tensor], x: Tensor, training: bool) -> Tensor:
    """CNN-13 from the tensors in the order of the state dict alone, whatever the modules are called."""

    def tensors(ending: str) -> list[Tensor]:
        return [value for key, value in state.items() if key.endswith(ending)]

    weights = [
        g * v / v.flatten(1).norm(dim=1).reshape(g.shape)
        for g, v in zip(tensors("original0"), tensors("original1"), strict=True)
    ]
    norm_prefixes = [key.removesuffix("running_mean") for key in state if key.endswith("running_mean")]
    biases = [
        value for key, value in state.items() if key.endswith("bias") and key.removesuffix("bias") not in norm_prefixes
    ]
    assert len(weights) == len(biases) == 10 and len(norm_prefixes) == 9
    h = x
    for i, prefix in enumerate(norm_prefixes):
        if i in (3, 6):
            rows, columns = h.shape[2] // 2, h.shape[3] // 2
            h = h.reshape(*h.shape[:2], rows, 2, columns, 2).amax((3, 5))
        h = F.conv2d(h, weights[i], biases[i], padding=1 if i < 6 else 0)
        norm = [state[prefix + key] for key in ("weight", "bias", "running_mean", "running_var")]
        h = leaky(batch_norm(h, norm[0], norm[1], norm[2], norm[3], training), 0.1)
    features = h.flatten(2).sum(2) / h[0, 0].numel()
    return F.linear(features, weights[9], biases[9])


@pytest.mark.parametrize("training", [False, True])
def test_cnn13_is_the_formula(training: bool) -> None:
    network = build("cnn13", (3, 16, 16)).train(training)
    shake(network)
    state = {key: value.clone() for key, value in network.state_dict().items()}
    x = torch.randn(3, 3, 16, 16, dtype=torch.float64)
    torch.testing.assert_close(network(x), cnn13_by_hand(state, x, training), rtol=0, atol=1e-9)


def test_cnn13_taps_see_batch_norm_before_its_activation() -> None:
    network = build("cnn13", (3, 16, 16))
    seen, _ = seen_by_taps(network, torch.randn(8, 3, 16, 16, dtype=torch.float64))
    assert [tuple(h.shape[1:]) for h in seen] == [
        (3, 16, 16),
        (128, 16, 16),
        (256, 8, 8),
        (128, 2, 2),
        (128,),
    ]
    for h in seen[1:4]:
        assert h.mean((0, 2, 3)).abs().max() < 1e-9
        assert (h.std((0, 2, 3), correction=0) - 1).abs().max() < 1e-3
        assert (h < -0.5).double().mean() > 0.25


def test_layers_of_cnn13() -> None:
    network = build("cnn13")
    three = [
        "Conv2d",
        "BatchNorm2d",
        "LeakyReLU",
        "Conv2d",
        "BatchNorm2d",
        "LeakyReLU",
        "Conv2d",
        "BatchNorm2d",
    ]
    pool = ["LeakyReLU", "MaxPool2d", "Dropout"]
    stages = [kinds(s) for s in network.stages[:4]]
    assert stages == [three, [*pool, *three], [*pool, *three], ["LeakyReLU", "GlobalMean"]]
    assert {(m.momentum, m.eps) for m in of_type(network, nn.BatchNorm2d)} == {(0.1, 1e-5)}


def test_weight_norm_leaves_the_initial_function_as_it_is() -> None:
    normed, plain = build("cnn13"), build("cnn13", weight_norm=False)
    assert not any("parametrizations" in key for key in plain.state_dict())
    x = inputs("cnn13")
    torch.testing.assert_close(normed(x), plain(x), rtol=0, atol=1e-6)  # the norms were taken in float32


def test_default_cnn13_has_its_names_and_draws() -> None:
    """The options of other papers' networks change nothing where they are not used."""
    torch.manual_seed(0)
    draws = nn.Conv2d(3, 128, 3).weight, nn.Conv2d(128, 128, 3).weight
    plain: Any = build("cnn13", weight_norm=False)
    assert [torch.equal(plain.stages[0][3 * i].weight, w.double()) for i, w in enumerate(draws)] == [True, True]
    assert [key for key in plain.state_dict() if key.startswith("stages.4")] == ["stages.4.weight", "stages.4.bias"]
    names = [key.removeprefix("stages.0.") for key in plain.state_dict() if key.startswith("stages.0.")]
    norm = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    for i in (0, 3, 6):
        assert names[:7] == [f"{i}.weight", f"{i}.bias", *(f"{i + 1}.{key}" for key in norm)]
        names = names[7:]


@pytest.mark.parametrize(("settings", "n"), [({}, 9), ({"top_norm": True}, 10), ({"norm": "mean-only"}, 10)])
def test_norm_momentum_reaches_every_norm(settings: dict[str, Any], n: int) -> None:
    network = build("cnn13", norm_momentum=0.001, **settings)
    assert [m.momentum for m in of_type(network, _BatchNorm)] == [0.001] * n


def test_top_norm_standardizes_the_logits() -> None:
    network = build("cnn13", top_norm=True)
    assert kinds(network.stages[-1]) == ["Linear", "BatchNorm1d"] and network.n_stages == 5
    x = inputs("cnn13", n=8)
    h = network.features(x)
    logits = network.head(h)
    last: Any = network.stages[-1]
    z = F.linear(h, last[0].weight, last[0].bias)
    expected = (z - z.mean(0)) / (z.var(0, correction=0) + 1e-5).sqrt()
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-9)


# Mean-only batch norm


@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 3, 5)])
def test_mean_only_batch_norm_is_the_formula(shape: tuple[int, ...]) -> None:
    draws = np.random.default_rng(0)
    norm = MeanOnlyBatchNorm(4, momentum=0.2).double()
    bias, running = draws.normal(size=4), draws.normal(size=4)
    norm.bias.data.copy_(torch.from_numpy(bias))
    norm.running_mean.copy_(torch.from_numpy(running))
    for batch in range(3):
        x = draws.normal(2.0, 3.0, size=shape)
        mean, expected = np.zeros(4), np.zeros(shape)
        for channel in range(4):
            mean[channel] = x[:, channel].mean()
            expected[:, channel] = x[:, channel] - mean[channel] + bias[channel]
        np.testing.assert_allclose(norm(torch.from_numpy(x)).detach(), expected, atol=1e-12)
        running = 0.8 * running + 0.2 * mean
        np.testing.assert_allclose(norm.running_mean, running, atol=1e-12)
        assert norm.num_batches_tracked == batch + 1
    norm.eval()
    x = draws.normal(2.0, 3.0, size=shape)
    expected = np.stack([x[:, c] - running[c] + bias[c] for c in range(4)], axis=1)
    np.testing.assert_allclose(norm(torch.from_numpy(x)).detach(), expected, atol=1e-12)
    np.testing.assert_allclose(norm.running_mean, running, atol=1e-12)
    assert norm.num_batches_tracked == 3


def test_mean_only_batch_norm_has_a_bias_and_nothing_to_spare() -> None:
    norm = MeanOnlyBatchNorm(4)
    assert {name: tuple(p.shape) for name, p in norm.named_parameters()} == {"bias": (4,)}
    assert set(norm.state_dict()) == {"bias", "running_mean", "num_batches_tracked"}
    norm(torch.randn(5, 4))
    norm.bias.data.fill_(1)
    norm.reset_parameters()
    assert not any(value.any() for value in norm.state_dict().values())


def test_gradients_of_mean_only_batch_norm_pass_through_the_batch_mean() -> None:
    norm, x = MeanOnlyBatchNorm(2).double(), torch.randn(5, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(norm, x)
    g = torch.randn(x.shape, dtype=torch.float64)
    by_input, by_bias = torch.autograd.grad(norm(x), [x, norm.bias], g)
    torch.testing.assert_close(by_input, g - g.mean((0, 2, 3), keepdim=True))
    torch.testing.assert_close(by_bias, g.sum((0, 2, 3)))
    assert not norm.running_mean.requires_grad


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_mean_only_batch_norm_keeps_statistics_as_torch_does(momentum: float | None, dtype: torch.dtype) -> None:
    """Torch's own batch norm is the reference: tracked, frozen by track_running_stats, then in eval mode."""
    ours, torchs = MeanOnlyBatchNorm(4, momentum), nn.BatchNorm2d(4, momentum=momentum)
    for tracks, training in [(True, True), (True, True), (False, True), (True, True), (False, False), (True, False)]:
        x = (torch.randn(6, 4, 3, 3) + 1).to(dtype)
        before = ours.running_mean.clone()
        outputs = []
        for norm in (ours, torchs):
            norm.train(training)
            norm.track_running_stats = tracks
            outputs.append(norm(x))
        assert outputs[0].dtype == outputs[1].dtype == dtype
        torch.testing.assert_close(ours.running_mean, torchs.running_mean, rtol=1e-5, atol=1e-6)
        assert torch.equal(ours.num_batches_tracked, torchs.num_batches_tracked)  # type: ignore[arg-type]
        assert torch.equal(before, ours.running_mean) == (not tracks or not training)
        mean = x.float().mean((0, 2, 3)) if training else before
        torch.testing.assert_close(outputs[0], (x - mean[:, None, None]).to(dtype), rtol=0, atol=0.03)


@pytest.mark.parametrize("weight_norm", [False, True])
def test_update_bn_makes_the_plain_mean_over_batches(weight_norm: bool) -> None:
    network: Any = build("cnn13", norm="mean-only", weight_norm=weight_norm)
    shake(network)
    batches = [inputs("cnn13", seed=seed) for seed in range(3)]
    means: list[Tensor] = []
    network.stages[0][0].register_forward_hook(lambda _, __, out: means.append(out.mean((0, 2, 3)).detach()))
    update_bn(batches, network)
    first = network.stages[0][1]
    torch.testing.assert_close(first.running_mean, (means[0] + means[1] + means[2]) / 3)
    assert first.momentum == 0.1 and first.num_batches_tracked == 3
    last = network.stages[-1][1]
    logits = torch.stack([network.stages[-1][0](network.features(x)).mean(0) for x in batches])
    torch.testing.assert_close(last.running_mean, logits.mean(0).detach())


# Laine & Aila's network


@pytest.mark.parametrize("weight_norm", [False, True])
def test_layers_of_the_mean_only_cnn13(weight_norm: bool) -> None:
    network = build("cnn13", norm="mean-only", weight_norm=weight_norm)
    three = ["Conv2d", "MeanOnlyBatchNorm", "LeakyReLU"] * 3
    pool = ["LeakyReLU", "MaxPool2d", "Dropout"]
    assert [kinds(s) for s in network.stages] == [
        three[:-1],
        [*pool, *three[:-1]],
        [*pool, *three[:-1]],
        ["LeakyReLU", "GlobalMean"],
        ["Linear", "MeanOnlyBatchNorm"],
    ]
    layers = [*of_type(network, nn.Conv2d), *of_type(network, nn.Linear)]
    assert all(parametrize.is_parametrized(m) == weight_norm and m.bias is None for m in layers)
    assert not of_type(network, nn.BatchNorm2d) and not of_type(network, nn.BatchNorm1d)
    shapes = [tuple(p.shape) for name, p in network.named_parameters() if name.endswith("bias")]
    assert shapes == [(n,) for n in (128, 128, 128, 256, 256, 256, 512, 256, 128, CLASSES)]


def mean_only_by_hand(state: dict[str, Tensor], x: Tensor, training: bool) -> Tensor:
    gains, directions, biases, means = (
        [value for key, value in state.items() if key.endswith(ending)]
        for ending in ("original0", "original1", "bias", "running_mean")
    )
    assert [len(tensors) for tensors in (gains, directions, biases, means)] == [10] * 4
    weights = [g * v / v.flatten(1).norm(dim=1).reshape(g.shape) for g, v in zip(gains, directions, strict=True)]
    h = x
    for i in range(9):
        if i in (3, 6):
            rows, columns = h.shape[2] // 2, h.shape[3] // 2
            h = h.reshape(*h.shape[:2], rows, 2, columns, 2).amax((3, 5))
        h = F.conv2d(h, weights[i], padding=1 if i < 6 else 0)
        mean = h.mean((0, 2, 3)) if training else means[i]
        h = leaky(h + (biases[i] - mean)[:, None, None], 0.1)
    z = F.linear(h.flatten(2).mean(2), weights[9], biases[9])
    return z - (z.mean(0) - biases[9] if training else means[9])


@pytest.mark.parametrize("training", [False, True])
def test_the_mean_only_cnn13_is_the_formula(training: bool) -> None:
    network = build("cnn13", (3, 16, 16), norm="mean-only").train(training)
    shake(network)
    state = {key: value.clone() for key, value in network.state_dict().items()}
    x = torch.randn(3, 3, 16, 16, dtype=torch.float64)
    torch.testing.assert_close(network(x), mean_only_by_hand(state, x, training), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "settings", [{"norm": "mean-only"}, {"norm": "mean-only", "weight_norm": False}, {"top_norm": True}]
)
def test_other_norms_of_cnn13_split_train_and_copy(settings: dict[str, Any]) -> None:
    network, x = build("cnn13", **settings), inputs("cnn13")
    assert torch.equal(network.head(network.features(x)), network(x))
    goal = torch.randn(3, CLASSES, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    (network(x) - goal).square().sum().backward()
    needless = {m.bias for m in [*of_type(network, nn.Conv2d), *of_type(network, nn.Linear)]}  # batch norm undoes them
    for p in network.parameters():
        assert p.grad is not None and (p.grad.any() or p in needless)
    copy = deepcopy(network)
    assert torch.equal(copy(x), network(x))
    copy.load_state_dict(build("cnn13", **settings).state_dict())


# Wide ResNets


def wrn_block_by_hand(
    state: dict[str, Tensor], x: Tensor, strides: tuple[int, int], slope: float, activated: bool
) -> Tensor:
    def norm(h: Tensor, prefix: str) -> Tensor:
        ends = ("weight", "bias", "running_mean", "running_var")
        weight, bias, mean, var = (state[prefix + end] for end in ends)
        return leaky(batch_norm(h, weight, bias, mean, var, training=True), slope)

    def conv(h: Tensor, prefix: str, stride: int, padding: int = 1) -> Tensor:
        return F.conv2d(h, state[prefix + "weight"], state.get(prefix + "bias"), stride, padding)

    pre = norm(x, "activate.0.")
    residual = conv(norm(conv(pre, "residual.0.", strides[0]), "residual.2."), "residual.4.", strides[1])
    if "shortcut.weight" not in state:
        return residual + x
    return residual + conv(pre if activated else x, "shortcut.", strides[0] * strides[1], padding=0)


@pytest.mark.parametrize(
    ("variant", "group", "index", "n_in", "by_hand"),
    [
        ("authors", 0, 1, 16, {"strides": (1, 1), "slope": 0.01, "activated": False}),
        ("authors", 0, 2, 32, {"strides": (1, 1), "slope": 0.01, "activated": False}),
        ("authors", 1, 0, 32, {"strides": (1, 2), "slope": 0.01, "activated": False}),
        ("authors", 2, 0, 64, {"strides": (1, 2), "slope": 0.01, "activated": False}),
        ("oliver", 0, 1, 16, {"strides": (1, 1), "slope": 0.1, "activated": True}),
        ("oliver", 0, 2, 32, {"strides": (1, 1), "slope": 0.1, "activated": False}),
        ("oliver", 1, 0, 32, {"strides": (2, 1), "slope": 0.1, "activated": False}),
        ("oliver", 2, 0, 64, {"strides": (2, 1), "slope": 0.1, "activated": False}),
    ],
)
def test_a_wrn_block_is_the_formula(variant: str, group: int, index: int, n_in: int, by_hand: dict[str, Any]) -> None:
    stage: Any = build("wrn-28-2", variant=variant).stages[group]
    block = stage[index]
    shake(block)
    x = torch.randn(3, n_in, 7, 6, dtype=torch.float64)
    expected = wrn_block_by_hand(block.state_dict(), x, **by_hand)
    torch.testing.assert_close(block(x), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("variant", "strides", "slope"), [("authors", (1, 2), 0.01), ("oliver", (2, 1), 0.1)])
def test_strides_and_slope_of_a_wrn(variant: str, strides: tuple[int, int], slope: float) -> None:
    network = build("wrn-28-2", variant=variant)
    assert {m.negative_slope for m in of_type(network, nn.LeakyReLU)} == {slope}
    found = {tuple(m.stride) for m in of_type(network.stages[0], nn.Conv2d)}
    assert found == {(1, 1)}
    for stage in network.stages[1:3]:
        convs = [m for m in of_type(stage, nn.Conv2d) if m.kernel_size == (3, 3)]
        assert [m.stride[0] for m in convs] == [*strides, *[1] * 6]


@variants
def test_stages_of_a_wrn(variant: str) -> None:
    network = build("wrn-28-2", variant=variant)
    blocks = ["Block"] * 4
    stages = [kinds(s) for s in network.stages[:4]]
    assert stages == [["Conv2d", *blocks], blocks, blocks, ["BatchNorm2d", "LeakyReLU", "GlobalMean"]]
    seen, _ = seen_by_taps(network, inputs("wrn-28-2"))
    assert [tuple(h.shape[1:]) for h in seen] == [(3, 8, 8), (32, 8, 8), (64, 4, 4), (128, 2, 2), (128,)]
    assert all((conv.bias is not None) == (variant == "authors") for conv in of_type(network, nn.Conv2d))


@pytest.mark.parametrize(("variant", "momentum", "final"), [("authors", 0.1, 0.9), ("oliver", 0.001, 0.001)])
def test_batch_norm_momentum_of_a_wrn(variant: str, momentum: float, final: float) -> None:
    found = [m.momentum for m in of_type(build("wrn-28-2", variant=variant), nn.BatchNorm2d)]
    assert found == [momentum] * 24 + [final]


def test_dropout_of_a_wrn_block_is_after_its_first_convolution() -> None:
    stage: Any = build("wrn-28-2").stages[1]
    assert kinds(stage[0].residual) == ["Conv2d", "Dropout", "BatchNorm2d", "LeakyReLU", "Conv2d"]


def test_depth_and_width_of_a_wrn() -> None:
    network = build("wrn-28-2", depth=10, width=1)
    assert len(of_type(network, nn.Conv2d)) == 1 + 6 + 2  # in the first group, 16 to 16, the shortcut is identity
    seen, _ = seen_by_taps(network, inputs("wrn-28-2"))
    assert [h.shape[1] for h in seen[1:]] == [16, 32, 64, 64]


def test_initial_weights_of_olivers_wrn() -> None:
    network = build("wrn-28-2", n_classes=100, variant="oliver")
    linear: Any = network.stages[-1]
    deviations: list[tuple[Tensor, float]] = [
        (m.weight, sqrt(2 / (m.out_channels * m.kernel_size[0] ** 2))) for m in of_type(network, nn.Conv2d)
    ]
    deviations.append((linear.weight, sqrt(2 / (128 + 100))))
    for weight, std in deviations:
        assert abs(weight.std() / std - 1) < 4 / sqrt(2 * weight.numel())
        assert weight.abs().max() > 2 * std  # a uniform draw would end at 1.73
    assert not linear.bias.any()


def test_initial_weights_of_the_authors_wrn_are_pytorchs() -> None:
    network = build("wrn-28-2")
    for m in [*of_type(network, nn.Conv2d), *of_type(network, nn.Linear)]:
        bound = 1 / sqrt(m.weight[0].numel())
        assert 0.8 * bound < m.weight.abs().max() <= bound
        assert 0 < m.bias.abs().max() <= bound


def test_mean_only_networks_start_with_predictions_that_depend_on_the_image() -> None:
    images = torch.randn(16, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    for norm in ("batch", "mean-only"):
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            logits = NETWORKS["cnn13"]((3, 32, 32), 10, norm=norm)(images)
        assert 0.01 < logits.std().item() < 10
