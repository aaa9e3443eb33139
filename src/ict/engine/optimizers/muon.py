"""Muon (Jordan et al. 2024) for convolutions: a step rotates a weight by the same angle in all of its directions.

torch's Muon does not take convolutions and always rounds to bfloat16.
"""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from ict.base.errors import UserError
from ict.engine.optimizers.torch_optimizers import SGD

_ROUNDS = 5
_LEAST = 1e-12  # smallest norm of a gradient; a smaller one is rounding noise, and its step fades to zero
_POLYNOMIAL = (3.4445, -4.7750, 2.0315)  # of odd powers; five rounds take all from .003 to 1 between .68 and 1.21


class Muon(SGD):
    """Muon for convolutions, SGD for all other weights.

    A convolution's weight keeps the norm of an orthogonal matrix and moves by `ratio` * lr of that norm. Batch norm or
    weight norm after a convolution cancels its norm. Weight decay could change only the norm, so convolutions get none.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float | Tensor, *, ratio: float, **options: Any) -> None:
        """`ratio`: `optimizer.turn` divided by the learning rate, so that one schedule serves both."""
        super().__init__(parameters, lr, **options)
        self.ratio, self.streams = ratio, defaultdict[torch.Size, torch.cuda.Stream](torch.cuda.Stream)
        if not any(map(_turns, self.param_groups[0]["params"])):
            raise UserError("optimizer.name is muon: it needs a network with convolutions of images; use sgd.")

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        assert closure is None
        (group,) = self.param_groups
        gradients = {p: p.grad for p in group["params"] if p.grad is not None and _turns(p)}
        alike: dict[torch.Size, dict[nn.Parameter, Tensor]] = defaultdict(dict)
        for p, gradient in gradients.items():
            alike[p.shape][p] = gradient
            p.grad = None  # so that SGD leaves it alone
        for shape in sorted(alike, key=torch.Size.numel, reverse=True):  # the slowest first
            with self._beside(shape, next(iter(alike[shape])).device):
                self._turn(alike[shape], group)
        super().step()
        for p, gradient in gradients.items():
            p.grad = gradient
        for stream in self.streams.values():
            torch.cuda.current_stream().wait_stream(stream)

    def _turn(self, gradients: dict[nn.Parameter, Tensor], group: dict[str, Any]) -> None:
        """Update all weights of one shape at once, with few operations."""
        momentum, values = group["momentum"], list(gradients.values())
        kept = [self._kept(p) for p in gradients]
        torch._foreach_mul_(kept, momentum)
        torch._foreach_add_(kept, values)
        steps = torch._foreach_add(values, kept, alpha=momentum) if group["nesterov"] else kept
        # one row per output channel; with channels last, as in fast mode, this copies nothing
        turns = orthogonal(torch.stack([step.movedim(1, -1).flatten(1) for step in steps]))
        norm = min(turns.shape[1:]) ** 0.5  # the norm of an orthogonal matrix, and about that of a turn
        for p, turn in zip(gradients, turns, strict=True):
            weight = p.movedim(1, -1)
            weight.mul_(norm / weight.norm().clamp(min=_LEAST))
            weight.sub_(turn.view(weight.shape) * (group["lr"] * self.ratio))

    def _kept(self, p: nn.Parameter) -> Tensor:
        if "momentum_buffer" not in self.state[p]:
            self.state[p]["momentum_buffer"] = torch.zeros_like(p)
        kept: Tensor = self.state[p]["momentum_buffer"]
        return kept

    def _beside(self, shape: torch.Size, device: torch.device) -> AbstractContextManager[object]:
        """A stream per shape: small matrix products leave most of a GPU idle."""
        if device.type != "cuda":
            return nullcontext()
        self.streams[shape].wait_stream(torch.cuda.current_stream())
        return torch.cuda.stream(self.streams[shape])


def orthogonal(matrices: Tensor) -> Tensor:
    """Matrices with the same singular vectors and singular values near 1. [N, rows, columns]."""
    a, b, c = _POLYNOMIAL
    wide = matrices if matrices.shape[1] <= matrices.shape[2] else matrices.mT
    x = wide / wide.norm(dim=(1, 2), keepdim=True).clamp(min=_LEAST)
    for _ in range(_ROUNDS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    turned: Tensor = x if wide is matrices else x.mT
    return turned


def _turns(p: Tensor) -> bool:
    """Whether this is the weight of a convolution. The lengths of weight norm have four dimensions too, but size 1."""
    return p.dim() == 4 and p.shape[1:].numel() > 1
