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
        if not self.parts or not self.training:
            return normalise(x)  # type: ignore[no-any-return]
        return torch.cat(list(self.each_part(normalise, x)))

    def each_part(self, normalise: Callable[[Tensor], Tensor], x: Tensor) -> Iterator[Tensor]:
        moving = len(self.parts) - self.still
        for i, part in enumerate(x.split(self.parts)):
            with nullcontext() if i < moving else frozen([self]):
                yield normalise(part)


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
def frozen(norms: Iterable[_NormBase]) -> Iterator[None]:
    """In training mode these norms normalise by the batch inside, and update nothing."""
    tracking = [norm for norm in norms if norm.track_running_stats]
    for norm in tracking:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in tracking:
            norm.track_running_stats = True
