"""Convolutions of float32 numbers on matrix units that read only the first bits of each.

Those units keep 11 of a number's 24 bits (TF32) and add up in full. A number is the sum of two that are as short, to
its last 2 bits, so a convolution is the sum of three: long by long, long by rest and rest by long. Rest by rest would
be smaller than what float32 rounds away. Three of them take less time than one on the units for full float32.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_FIRST_BITS = -(1 << 13)  # all but the last 13 of float32's 32


class SplitConvolutions(TorchFunctionMode):
    """Convolutions of images inside, and their gradients whenever they are taken, are made of three."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (convolve if func is torch.conv2d else func)(*args, **(kwargs or {}))


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, *others: Any) -> Tensor:
    """`torch.conv2d`."""
    if others != ((1, 1), 1) or isinstance(padding, str) or x.dtype != torch.float32:
        return torch.conv2d(x, weight, bias, stride, padding, *others)
    run: Any = _Convolve.apply
    out: Tensor = run(x, weight, stride, padding)
    return out if bias is None else out + bias[:, None, None]


class _Convolve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: Any, padding: Any) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        ctx.save_for_backward(x, weight)
        ctx.how = stride, padding
        return _of_three(lambda x, weight: torch.conv2d(x, weight, None, stride, padding), x, weight)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        found: list[Tensor | None] = [None, None]
        if ctx.needs_input_grad[0]:
            found[0] = _of_three(lambda g, weight: _gradient(0, g, x, weight, *ctx.how), gradient, weight)
        if ctx.needs_input_grad[1]:
            found[1] = _of_three(lambda g, x: _gradient(1, g, x, weight, *ctx.how), gradient, x)
        return *found, None, None


def _gradient(which: int, gradient: Tensor, x: Tensor, weight: Tensor, stride: Any, padding: Any) -> Tensor:
    wanted = [which == 0, which == 1, False]
    arguments = (gradient, x, weight, None, stride, padding, (1, 1), False, (0, 0), 1, wanted)
    found: Tensor = torch.ops.aten.convolution_backward(*arguments)[which]
    return found


def _of_three(product: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
    """What is linear in a and in b."""
    (a, rest_a), (b, rest_b) = split(a), split(b)
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = True
    try:
        return product(a, b) + (product(a, rest_b) + product(rest_a, b))  # the small ones first
    finally:
        torch.backends.cudnn.allow_tf32 = before


def split(x: Tensor) -> tuple[Tensor, Tensor]:
    """x in short, and the rest; their sum is x exactly."""
    short = x.view(torch.int32).bitwise_and(_FIRST_BITS).view(torch.float32)
    return short, x - short
