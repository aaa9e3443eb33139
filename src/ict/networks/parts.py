"""Batch norms that take several batches as one: each is normalised by itself, as if they came one after the other.

One forward of all parts keeps a GPU busier than one forward of each. While `parts` is empty these are torch's own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class InParts(_BatchNorm):
    """For a batch norm to inherit from first."""

    parts: tuple[int, ...] = ()  # sizes

    def forward(self, x: Tensor) -> Tensor:
        normalise: Any = super().forward
        if not self.parts or not self.training:
            return normalise(x)  # type: ignore[no-any-return]
        return torch.cat([normalise(part) for part in x.split(self.parts)])


class BatchNorm1d(InParts, nn.BatchNorm1d):
    pass


class BatchNorm2d(InParts, nn.BatchNorm2d):
    pass


def can_join(network: nn.Module) -> bool:
    """Whether all of a network's batch norms take parts."""
    return all(isinstance(m, InParts) for m in network.modules() if isinstance(m, _BatchNorm))


@contextmanager
def joined(network: nn.Module, sizes: tuple[int, ...]) -> Iterator[None]:
    """Forwards inside are of batches of these sizes, one behind the other."""
    norms = [m for m in network.modules() if isinstance(m, InParts)]
    for norm in norms:
        norm.parts = sizes
    try:
        yield
    finally:
        for norm in norms:
            norm.parts = ()
