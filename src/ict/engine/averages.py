"""Averages of a network's weights over the updates: the mean teacher, and the equal-weight mean of SWA and fast-SWA.

    moving average: a <- decay a + (1 - decay) f        mean of n: a <- (n - 1) / n a + 1 / n f

SWA (Izmailov et al., 2018) takes the weights f at the end of each cycle of a cyclic learning rate, fast-SWA
(Athiwaratkun et al., 2019) several times per cycle. The mean's batch-norm statistics are recomputed at the end of the
run, since no forward pass ever ran with its weights. Ours: no second head for the consistency loss.
"""

from copy import deepcopy

import torch
from torch import Tensor, nn


class WeightAverage:
    """average <- decay * average + (1 - decay) * student, over all parameters.

    A constant `decay` gives a moving average; (n - 1) / n at the n-th update gives the mean of all n.
    Buffers (batch-norm statistics) come from the average's own forward passes. With `average_buffers` they are
    averaged like the parameters, and the average can run in eval mode.
    """

    def __init__(self, student: nn.Module, average_buffers: bool = False) -> None:
        self.student, self.module = student, deepcopy(student).requires_grad_(False)
        self.average_buffers = average_buffers

    @torch.no_grad()
    def update(self, decay: float) -> None:
        averages, values = self.tensors
        torch._foreach_lerp_(averages, values, 1 - decay)

    @property
    def tensors(self) -> tuple[list[Tensor], list[Tensor]]:
        """The tensors of the average and of the student. Not cached, since a parameter's memory can be replaced."""
        averages, values = (_tensors(network, self.average_buffers) for network in (self.module, self.student))
        return averages, values


def _tensors(module: nn.Module, buffers: bool) -> list[Tensor]:
    floating = [b for b in module.buffers() if b.is_floating_point()] if buffers else []
    return [*module.parameters(), *floating]
