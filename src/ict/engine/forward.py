"""Implements `contract.Network` for a torch module."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from ict.contract import Tap
from ict.networks.batch_norm import tracking


class Forward:
    """Runs a module for an algorithm. With `gradient` false, as for the teacher, its forwards carry no gradient."""

    def __init__(self, module: nn.Module, gradient: bool = True) -> None:
        self.module, self.gradient = module, gradient
        self._frozen: list[_NormBase] = []
        self._masked: list[_DropoutNd] = []

    @contextmanager
    def in_line(self) -> Iterator[None]:
        """Forwards inside run one after the other. Here they always do."""
        yield

    def __call__(self, x: Tensor, tap: Tap | None = None) -> Tensor:
        return self._run(self.module, x) if tap is None else self._run(self.module, x, tap=tap)

    def each(self, *parts: Tensor) -> tuple[Tensor, ...]:
        return tuple(self(part) for part in parts)

    def features(self, *parts: Tensor) -> tuple[Tensor, ...]:
        function: Any = self.module.features
        return tuple(self._run(function, part) for part in parts)

    def head(self, h: Tensor) -> Tensor:
        function: Any = self.module.head
        return self._run(function, h)

    @contextmanager
    def frozen_stats(self) -> Iterator[None]:
        self._frozen = [m for m in self.module.modules() if isinstance(m, _NormBase) and m.track_running_stats]
        try:
            with tracking(self._frozen, False):
                yield
        finally:
            self._frozen = []

    @contextmanager
    def same_masks(self) -> Iterator[None]:
        self._masked = self._dropouts()
        try:
            with standing_in({layer: _OneMask(layer) for layer in self._masked}):
                yield
        finally:
            self._masked = []

    def beside(self, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        with self._usual():
            z = self(x)
        return z, self(v)

    @contextmanager
    def _usual(self) -> Iterator[None]:
        """Undo `frozen_stats` and `same_masks` inside."""
        own = {layer: partial(type(layer).forward, layer) for layer in self._masked}
        with tracking(self._frozen, True), standing_in(own):
            yield

    def _dropouts(self) -> list[_DropoutNd]:
        return [m for m in self.module.modules() if isinstance(m, _DropoutNd) and m.p > 0]

    @contextmanager
    def precise(self) -> Iterator[None]:
        yield  # everything here is float32 already

    def along(self, x: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        _load_forward_mode()
        with forward_ad.dual_level():
            z, dz = forward_ad.unpack_dual(self(forward_ad.make_dual(x, d)))
            assert dz is not None
            return z, dz.detach()

    def back(self, z: Tensor, x: Tensor, v: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad(z, x, v, retain_graph=True)
        return gradient

    def _run(self, function: Callable[..., Tensor], x: Tensor, **options: Any) -> Tensor:
        with torch.set_grad_enabled(self.gradient and torch.is_grad_enabled()):
            return function(x, **options)


@contextmanager
def standing_in(forwards: Mapping[Any, Callable[[Tensor], Tensor]]) -> Iterator[None]:
    """Replace the forward of these modules inside."""
    before = {module: vars(module).get("forward") for module in forwards}
    for module, forward in forwards.items():
        vars(module)["forward"] = forward  # hides the class's forward
    try:
        yield
    finally:
        for module, forward in before.items():
            if forward is None:
                del vars(module)["forward"]
            else:
                vars(module)["forward"] = forward


@cache
def _load_forward_mode() -> None:
    """Load forward-mode differentiation: its first use gives a deprecation warning from within torch, hidden here."""
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning), forward_ad.dual_level():
        forward_ad.make_dual(torch.zeros(1), torch.zeros(1))


class _OneMask:
    """A dropout layer that draws its mask at the first call and reuses it."""

    def __init__(self, layer: _DropoutNd) -> None:
        self.layer = layer
        self.mask: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        if self.mask is None:
            self.mask = type(self.layer).forward(self.layer, torch.ones_like(x))
        return x * self.mask
