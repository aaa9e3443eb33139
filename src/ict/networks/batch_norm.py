"""Batch norms that take several batches as one: each is normalised by itself, as if they came one after the other.

One forward of all parts keeps a GPU busier than one forward of each. While `parts` is empty these are torch's own.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase


class InParts(_BatchNorm):
    """For a batch norm to inherit from first."""

    parts: tuple[int, ...] = ()  # sizes
    still: int = 0  # of the parts, the last ones, which leave the running statistics alone

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
    """Whether all of a network's batch norms take parts."""
    return all(isinstance(m, InParts) for m in network.modules() if isinstance(m, _BatchNorm))


@contextmanager
def joined(network: nn.Module, sizes: tuple[int, ...], still: int = 0) -> Iterator[None]:
    """Forwards inside are of batches of these sizes, one behind the other; the last `still` move no statistics."""
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
    """Whether these norms update their statistics inside; in training mode they normalise by the batch either way."""
    changed = [norm for norm in norms if norm.track_running_stats != on]
    for norm in changed:
        norm.track_running_stats = on
    try:
        yield
    finally:
        for norm in changed:
            norm.track_running_stats = not on


class _MeanOnly(_BatchNorm):
    """Mean-only batch norm (Salimans & Kingma 2016), the companion of weight norm in Laine & Aila's network.

    Takes the mean of each channel away and adds a learned bias; deviations stay as they are. [B, C, ...].

    A kind of torch's batch norm, so that whatever freezes, averages or makes anew the statistics of batch norm, such
    as `update_bn`, does it here too.
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
        if self.bias is not None:  # not there yet while the base class is being made
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
        # momentum none: the plain mean of all batches since the last reset
        weight = 1 / self.num_batches_tracked.to(mean.dtype) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, weight)


class MeanOnlyBatchNorm(InParts, _MeanOnly):
    pass
