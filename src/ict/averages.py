"""A moving average of a network's weights: the mean teacher."""

from copy import deepcopy

import torch
from torch import Tensor, nn


class Ema:
    """teacher <- decay * teacher + (1 - decay) * student, over parameters.

    Buffers (batch-norm statistics) are the teacher's own, made by its own forward passes, unless
    `average_buffers`: then they follow the student's in the same way and the teacher can run in eval mode.
    """

    def __init__(self, student: nn.Module, average_buffers: bool = False) -> None:
        self.module = deepcopy(student).requires_grad_(False)
        self.average_buffers = average_buffers
        self._pairs = _tensors(self.module, average_buffers), _tensors(student, average_buffers)

    @torch.no_grad()
    def update(self, decay: float) -> None:
        averages, values = self._pairs
        torch._foreach_lerp_(averages, values, 1 - decay)


def _tensors(module: nn.Module, buffers: bool) -> list[Tensor]:
    floating = [b for b in module.buffers() if b.is_floating_point()] if buffers else []
    return [p.detach() for p in module.parameters()] + floating
