"""Fast mode on a CPU: the eager step with networks in bfloat16, if the processor has instructions for it.

Weights, statistics, losses and averages stay float32; convolutions and matrix products round their inputs to bfloat16.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ict.engine.forward import Forward


class HalfForward(Forward):
    """A network that computes in bfloat16 and returns float32."""

    def __init__(self, module: nn.Module, gradient: bool = True) -> None:
        super().__init__(module, gradient)
        self._half = True

    @contextmanager
    def precise(self) -> Iterator[None]:
        before, self._half = self._half, False
        try:
            yield
        finally:
            self._half = before

    def along(self, x: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        with self.precise():  # the derivative forward in bfloat16 is slower than both in float32
            return super().along(x, d)

    def _run(self, function: Callable[..., Tensor], x: Tensor, **options: Any) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self._half):
            return super()._run(function, x, **options).float()


def evaluator(network: nn.Module) -> Callable[[Tensor], Tensor]:
    """A function that predicts like the network, in bfloat16."""
    return HalfForward(network, gradient=False)
