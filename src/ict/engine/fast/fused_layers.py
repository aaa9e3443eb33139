"""Runs a network made of stages in the fast step: the same layers as fewer and larger operations.

Batch norm, activation and pooling are one operation (`kernels/`), and all weights are converted to half precision at
once. A batch norm cancels the bias of the convolution before it. So that bias is not added to the activations but kept
beside them as a `shift`, which only the running mean needs. Nothing of the network is copied or changed: parameters,
mode and statistics are those of its own modules.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple, TypeGuard, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ict.contract import Tap
from ict.engine.fast.convolutions import Aside, convolved, halves
from ict.networks.batch_norm import BatchNorm1d, BatchNorm2d
from ict.networks.staged import Staged
from ict.networks.wrn import Block

Kind = TypeVar("Kind", bound=nn.Module)
_COUNTABLE = 2**31  # the most numbers that the kernels' 32-bit integers can index


class Carried(NamedTuple):
    """Activations and terms that are not yet added to them."""

    x: Tensor
    shift: Tensor | None = None  # per channel
    plus: "Carried | None" = None

    @property
    def shifts(self) -> tuple[Tensor, ...]:
        both = self.shift, self.plus.shift if self.plus else None
        return tuple(shift for shift in both if shift is not None)

    @property
    def summed(self) -> "Carried":
        if self.plus is None:
            return self
        return Carried(self.x + self.plus.x, sum(self.shifts[1:], self.shifts[0]) if self.shifts else None)

    @property
    def whole(self) -> Tensor:
        x, shift, _ = self.summed
        return x if shift is None else x + shift.to(x.dtype).reshape(-1, *(1 for _ in x.shape[2:]))


class Fused:
    """The forward, features and head of a network, fused."""

    def __init__(self, network: Staged) -> None:
        *body, head = network.stages
        self.aside = Aside()
        self.features, self.head = Chain(body, self.aside), Chain([head], self.aside)
        self.stages = [Chain([stage], self.aside) for stage in network.stages]
        self.weights = Weights([conv for stage in self.stages for conv in stage.weights.convolutions], self.aside)
        links = [link for stage in self.stages for link in stage.links]
        self.norms_are_fused = all(link.norms_are_fused for link in links)

    def forward(self, x: Tensor, tap: Tap | None = None) -> Tensor:
        if tap is None:
            return self.head(self.features(x))
        with self.weights:
            for i, stage in enumerate(self.stages):
                x = stage.run(tap(i, x))
        return x


class Chain:
    """Layers one after the other. Neighbors are fused where one operation does the work of several."""

    def __init__(self, modules: Iterable[nn.Module], aside: Aside) -> None:
        self.links = _linked(list(_flat(modules)))
        self.weights = Weights([conv for link in self.links for conv in link.convolutions], aside)

    def __call__(self, x: Tensor) -> Tensor:
        with self.weights:
            return self.run(x)

    def run(self, x: Tensor) -> Tensor:
        """Run the layers; the half-precision weights must be ready."""
        return _run(self.links, Carried(x)).whole


class Link:
    """One layer or several fused ones."""

    convolutions: tuple["Convolution", ...] = ()
    norms_are_fused = True

    def __call__(self, carried: Carried) -> Carried:
        raise NotImplementedError


def _run(links: list[Link], carried: Carried) -> Carried:
    for link in links:
        carried = link(carried)
    return carried


class Plain(Link):
    """Any other layer, unchanged."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.norms_are_fused = not any(isinstance(m, _BatchNorm) for m in module.modules())

    def __call__(self, carried: Carried) -> Carried:
        return Carried(self.module(carried.whole))


class Convolution(Link):
    """A convolution. Its bias becomes a `shift`."""

    def __init__(self, conv: nn.Conv2d) -> None:
        self.conv, self.convolutions = conv, (self,)
        self.aside: Aside | None = None
        self.weight: Tensor | None = None  # in half precision, while a forward runs

    def __call__(self, carried: Carried) -> Carried:
        conv, shift = self.conv, self.conv.bias
        if carried.shift is not None and conv.kernel_size == (1, 1) and conv.padding == (0, 0):
            weight = conv.weight.flatten(1)  # a 1x1 convolution maps a constant to a constant
            with torch.autocast(carried.x.device.type, enabled=False):  # which would first convert each operand
                shift = weight @ carried.shift if shift is None else torch.addmv(shift, weight, carried.shift)
            carried = carried._replace(shift=None)
        x = carried.whole
        if self.weight is None or self.aside is None:
            return Carried(F.conv2d(x, conv.weight, None, conv.stride, conv.padding), shift)
        return Carried(convolved(x, self.weight, conv, self.aside), shift)


class Norm(Link):
    """Batch norm with the activation and the pooling after it."""

    def __init__(self, norm: BatchNorm1d | BatchNorm2d, activation: nn.Module | None, pool: nn.Module | None):
        self.norm, self.activation, self.pool = norm, activation, pool
        self.slope = 1.0 if activation is None else _slope(activation)
        self.counters: Tensor | None = None
        self.norms_are_fused = norm.momentum is not None and norm.affine

    def __call__(self, carried: Carried) -> Carried:
        return self.both(carried)[0]

    def both(self, carried: Carried) -> tuple[Carried, Carried]:
        """The output, and the input with all its terms added up."""
        x, norm = carried.x, self.norm
        gradient = torch.is_grad_enabled()
        fits = x.is_cuda and x.dim() in (2, 4) and x.numel() < _COUNTABLE
        if not fits or not self.norms_are_fused or (gradient and not norm.training):
            carried = carried.summed
            return Carried(_one_by_one(carried.whole, norm, self.activation, self.pool)), carried
        from ict.engine.fast.kernels import norm as kernels

        if self.counters is None:
            self.counters = kernels.counters(norm)
        pool = self.pool is not None and x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0
        how = kernels.How(self.counters, norm.eps, self.slope, pool)
        mean, var, batches = norm.running_mean, norm.running_var, norm.num_batches_tracked
        if not norm.training:
            assert mean is not None and var is not None
            carried = carried.summed
            mean = mean if carried.shift is None else mean - carried.shift
            out = kernels.norm_act_by(mean, var, carried.x, norm.weight, norm.bias, how)
        else:
            running = None
            if norm.track_running_stats:
                assert mean is not None and var is not None and batches is not None and norm.momentum is not None
                running = kernels.Running(mean, var, batches, norm.momentum)
            # the shifts get no gradient: the norm cancels their effect
            shifts = tuple(shift.detach() for shift in carried.shifts)
            how = replace(how, parts=norm.parts, still=norm.still, running=running, shifts=shifts)
            plus = carried.plus.x if carried.plus else None
            out, x, shift = kernels.norm_act(x, plus, norm.weight, norm.bias, how)
            carried = Carried(x, shift)
        return Carried(out if pool or self.pool is None else self.pool(out)), carried


class Activation(Link):
    """An activation with the pooling after it, where no norm comes before them."""

    def __init__(self, activation: nn.Module, pool: nn.Module) -> None:
        self.activation, self.pool = activation, pool

    def __call__(self, carried: Carried) -> Carried:
        x = carried.whole
        if not x.is_cuda or x.shape[2] % 2 or x.shape[3] % 2:
            return Carried(_one_by_one(x, self.activation, self.pool))
        from ict.engine.fast.kernels.norm import act_pool

        return Carried(act_pool(x, _slope(self.activation)))


class Residual(Link):
    """A block of a wide residual network. The batch norm after it reads the sum anyway, so it does the addition."""

    def __init__(self, block: Block) -> None:
        (norm,) = _linked(list(_flat([block.activate])))
        assert isinstance(norm, Norm)
        self.activate = norm
        self.residual, self.shortcut = (_linked(list(_flat([side]))) for side in (block.residual, block.shortcut))
        self.activate_shortcut = block.activate_shortcut
        links = (norm, *self.residual, *self.shortcut)
        self.convolutions = tuple(c for link in links for c in link.convolutions)
        self.norms_are_fused = all(link.norms_are_fused for link in links)

    def __call__(self, carried: Carried) -> Carried:
        h, carried = self.activate.both(carried)
        residual = _run(self.residual, h)
        shortcut = _run(self.shortcut, h if self.activate_shortcut else carried)
        return residual._replace(plus=shortcut)


def _flat(modules: Iterable[nn.Module]) -> Iterator[nn.Module]:
    """The layers in order, without those that do nothing."""
    for module in modules:
        if does_as(module, nn.Sequential):
            yield from _flat(module)
        elif not does_as(module, nn.Identity) and not (does_as(module, nn.Dropout) and module.p == 0):
            yield module


def does_as(module: nn.Module, *kinds: type[Kind]) -> TypeGuard[Kind]:
    """Whether a module is of one of these kinds and behaves like it: with that kind's forward and without hooks."""
    hooked = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    return not hooked and any(isinstance(module, kind) and type(module).forward is kind.forward for kind in kinds)


def _linked(modules: list[nn.Module]) -> list[Link]:
    links: list[Link] = []
    while modules:
        module = modules.pop(0)
        if does_as(module, BatchNorm1d) or does_as(module, BatchNorm2d):
            activation = modules.pop(0) if modules and does_as(modules[0], nn.LeakyReLU, nn.ReLU) else None
            pool = modules.pop(0) if modules and _halves_the_size(modules[0]) else None
            links.append(Norm(module, activation, pool))
        elif does_as(module, nn.Conv2d) and _is_usual(module):
            links.append(Convolution(module))
        elif does_as(module, nn.LeakyReLU, nn.ReLU) and modules and _halves_the_size(modules[0]):
            links.append(Activation(module, modules.pop(0)))
        elif does_as(module, Block):
            links.append(Residual(module))
        else:
            links.append(Plain(module))
    return links


def _slope(activation: nn.Module) -> float:
    return float(getattr(activation, "negative_slope", 0.0))


def _is_usual(conv: nn.Conv2d) -> bool:
    """Whether a convolution has no groups and no dilation, and pads with zeros if at all."""
    zeros = conv.padding_mode == "zeros" and not isinstance(conv.padding, str)
    return zeros and (conv.groups, conv.dilation) == (1, (1, 1))


def _halves_the_size(module: nn.Module) -> bool:
    if not does_as(module, nn.MaxPool2d):
        return False
    plain = not module.ceil_mode and not module.return_indices
    return plain and (module.kernel_size, module.stride, module.padding, module.dilation) == (2, 2, 0, 1)


def _one_by_one(x: Tensor, *modules: nn.Module | None) -> Tensor:
    for module in modules:
        x = x if module is None else module(x)
    return x


class Weights:
    """The half-precision weights of convolutions, created at once and valid during a forward on a GPU."""

    def __init__(self, convolutions: list[Convolution], aside: Aside) -> None:
        self.convolutions, self.aside = convolutions, aside

    def __enter__(self) -> None:
        if not self.convolutions or not next(self.convolutions[0].conv.parameters()).is_cuda:
            return
        made = halves([link.conv for link in self.convolutions], self.aside)
        for link, weight in zip(self.convolutions, made, strict=True):
            link.weight, link.aside = weight, self.aside

    def __exit__(self, *_: object) -> None:
        for link in self.convolutions:
            link.weight = link.aside = None
