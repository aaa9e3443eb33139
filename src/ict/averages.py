"""Averages of a network's weights over the updates: the mean teacher, and the plain mean of SWA and fast-SWA.

    moving average: a <- decay a + (1 - decay) f        mean of n: a <- (n - 1) / n a + 1 / n f

SWA (Izmailov et al., 2018) takes the weights f at the end of each cycle of a cyclic learning rate, fast-SWA
(Athiwaratkun et al., 2019) several times a cycle. The mean's batch-norm statistics are made anew at the end of the run,
since no forward pass ever ran with its weights. Ours: no second head for the consistency loss.
"""

from copy import deepcopy

import torch
from torch import Tensor, nn


class WeightAverage:
    """average <- kept * average + (1 - kept) * student, over parameters.

    A constant share `kept` makes a moving average; (n - 1) / n at the n-th update makes the mean of all n.
    Buffers (batch-norm statistics) are the average's own, made by its own forward passes, unless
    `average_buffers`: then they follow the student's in the same way and the average can run in eval mode.
    """

    def __init__(self, student: nn.Module, average_buffers: bool = False) -> None:
        self.student, self.module = student, deepcopy(student).requires_grad_(False)
        self.average_buffers = average_buffers

    @torch.no_grad()
    def update(self, kept: float | Tensor) -> None:
        """A tensor is read on its device, so that nothing waits for it."""
        # looked up each time: a parameter's memory can be replaced, for instance by another layout
        averages, values = (_tensors(network, self.average_buffers) for network in (self.module, self.student))
        if isinstance(kept, Tensor):
            change = torch._foreach_sub(values, averages)
            torch._foreach_mul_(change, 1 - kept)
            torch._foreach_add_(averages, change)
        else:
            torch._foreach_lerp_(averages, values, 1 - kept)


def _tensors(module: nn.Module, buffers: bool) -> list[Tensor]:
    floating = [b for b in module.buffers() if b.is_floating_point()] if buffers else []
    return [*module.parameters(), *floating]
