"""Batch norm layers for several batches in one forward. Each batch is normalized separately, as in separate forwards.

One forward of all parts uses a GPU better than one forward each. While `parts` is empty, these are torch's layers.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase


class InParts(_BatchNorm):
    """A mixin: a batch norm class inherits from it first."""

    parts: tuple[int, ...] = ()  # sizes of the batches
    still: int = 0  # how many of the last parts do not update the running statistics

    def forward(self, x: Tensor) -> Tensor:
        normalise: Any = super().forward
        return self.by_parts(normalise, x) if self.training else normalise(x)

    def by_parts(self, normalise: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        if not self.parts:
            return normalise(x)
        moving = len(self.parts) - self.still
        out = []
        for i, part in enumerate(x.split(self.parts)):
            with nullcontext() if i < moving else tracking([self], False):
                out.append(normalise(part))
        return torch.cat(out)


class BatchNorm1d(InParts, nn.BatchNorm1d):
    pass


class BatchNorm2d(InParts, nn.BatchNorm2d):
    pass


def can_join(network: nn.Module) -> bool:
    """Whether all of a network's batch norms support parts."""
    return all(isinstance(m, InParts) for m in network.modules() if isinstance(m, _BatchNorm))


@contextmanager
def joined(network: nn.Module, sizes: tuple[int, ...], still: int = 0) -> Iterator[None]:
    """Forwards inside are of batches of these sizes, concatenated. The last `still` do not update statistics."""
    norms = [m for m in network.modules() if isinstance(m, InParts)]
    for norm in norms:
        norm.parts, norm.still = sizes, still
    try:
        yield
    finally:
        for norm in norms:
            norm.parts, norm.still = (), 0


@contextmanager
def tracking(norms: Iterable[_NormBase], on: bool) -> Iterator[None]:
    """Turn the update of running statistics on or off inside. In training mode a norm uses the batch either way."""
    changed = [norm for norm in norms if norm.track_running_stats != on]
    for norm in changed:
        norm.track_running_stats = on
    try:
        yield
    finally:
        for norm in changed:
            norm.track_running_stats = not on


class _MeanOnly(_BatchNorm):
    """Mean-only batch norm (Salimans & Kingma 2016), used with weight norm in Laine & Aila's network.

    Subtracts the mean of each channel and adds a learned bias; it does not divide by the deviation. [B, C, ...].

    It subclasses torch's batch norm, so that code that freezes, averages or recomputes batch-norm statistics, such as
    `update_bn`, works on it too.
    """

    running_mean: Tensor
    num_batches_tracked: Tensor

    def __init__(self, n: int, momentum: float | None = 0.1) -> None:
        super().__init__(n, momentum=momentum, affine=False)
        self.bias = nn.Parameter(torch.zeros(n))
        self.running_var = None

    def reset_running_stats(self) -> None:
        self.running_mean.zero_()
        self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        self.reset_running_stats()
        if self.bias is not None:  # the base class calls this before the bias exists
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        mean = self.running_mean
        if self.training:
            mean = x.mean([d for d in range(x.dim()) if d != 1], dtype=self.running_mean.dtype)
            if self.track_running_stats:
                self._track(mean.detach())
        shift = mean - self.bias  # one pass over x instead of two
        return x - shift.to(x.dtype).reshape(-1, *(1 for _ in x.shape[2:]))

    def _track(self, mean: Tensor) -> None:
        self.num_batches_tracked.add_(1)
        # momentum None: the mean of all batches since the last reset
        weight = 1 / self.num_batches_tracked.to(mean.dtype) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, weight)


class MeanOnlyBatchNorm(InParts, _MeanOnly):
    pass
