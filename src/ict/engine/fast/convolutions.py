"""Convolutions of the fast step: in half precision, with the gradients of their weights on a separate stream.

They are custom autograd functions, so that a backward pass does not wait for the gradients of weights. They also
support forward-mode derivatives.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

Size = tuple[int, int]
HALF = torch.bfloat16
_CHANNELS = 8  # matrix units take this many channels at once; with 3 the first layer is as slow as a wide one


def widened(x: Tensor) -> Tensor:
    """Convert to half precision and channels last, padded with channels of zeros to a multiple of `_CHANNELS`."""
    n, c, height, width = x.shape
    if c % _CHANNELS == 0:  # `to` keeps the gaps of a slice, `contiguous` removes them and leaves a dense tensor alone
        return x.to(HALF, memory_format=torch.channels_last).contiguous(memory_format=torch.channels_last)
    shape = (n, c + -c % _CHANNELS, height, width)
    out = torch.empty(shape, dtype=HALF, device=x.device, memory_format=torch.channels_last).zero_()
    out[:, :c] = x
    return out


class Aside:
    """A second stream for the gradients of weights. Only the end of a backward pass waits for it."""

    def __init__(self) -> None:
        self.stream: torch.cuda.Stream | None = None
        self.off = False  # use the current stream
        self.unwanted = False  # compute no gradients of weights
        self.held: list[Tensor] = []  # tensors that the stream may still read, so that their memory is not reused

    @contextmanager
    def __call__(self, *read: Tensor) -> Iterator[None]:
        """Operations inside run on the second stream."""
        if self.off:
            yield
            return
        if self.stream is None:
            self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.held += read
        with torch.cuda.stream(self.stream):
            yield

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Backward passes inside skip gradients of weights. Autograd does not pass that on to a custom function."""
        self.unwanted = True
        try:
            yield
        finally:
            self.unwanted = False

    def join(self) -> None:
        if self.stream is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
            self.held.clear()


def convolved(x: Tensor, weight: Tensor, conv: nn.Conv2d, aside: Aside) -> Tensor:
    """Convolve x with the half-precision `weight`, without the bias."""
    run: Any = _Convolve.apply
    out: Tensor = run(widened(x), weight, conv.stride, conv.padding, aside)
    return out


def halves(convolutions: list[nn.Conv2d], aside: Aside) -> tuple[Tensor, ...]:
    """The weights of convolutions in half precision, converted all at once."""
    sources = [_sources(conv) for conv in convolutions]
    run: Any = _Halves.apply
    made: tuple[Tensor, ...] = run(
        aside, tuple(map(len, sources)), *(tensor for source in sources for tensor in source)
    )
    return made


class _Convolve(torch.autograd.Function):
    """A convolution without a bias. The gradient of the weight is computed on the second stream."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: Size, padding: Size, aside: Aside) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.save_for_forward(x, weight)
        ctx.narrow = _is_narrow(weight, stride, padding)
        ctx.how, ctx.aside = (stride, padding), aside
        return _product(ctx, x, weight)

    @staticmethod
    def jvp(ctx: Any, x: Tensor, *_: None) -> Tensor:
        """The derivative along x only. The convolution is linear in x."""
        return _product(ctx, x.contiguous(memory_format=torch.channels_last), ctx.saved_tensors[1].detach())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        from ict.engine.fast.kernels.small_conv import convolve, weight_gradient

        x, weight = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)

        def by_library(*wanted: bool) -> Any:
            how = (*ctx.how, (1, 1), False, (0, 0), 1, (*wanted, False))
            return torch.ops.aten.convolution_backward(gradient, x, weight, None, *how)

        for_x = for_weight = None
        if ctx.needs_input_grad[1] and not ctx.aside.unwanted:
            with ctx.aside(gradient, x):
                for_weight = weight_gradient(gradient, x) if ctx.narrow else by_library(False, True)[1]
        if ctx.needs_input_grad[0]:
            for_x = convolve(gradient, weight, flip=True) if ctx.narrow else by_library(True, False)[0]
        return for_x, for_weight, None, None, None


def _product(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
    if ctx.narrow:
        from ict.engine.fast.kernels.small_conv import convolve

        return convolve(x, weight)
    return F.conv2d(x, weight, None, *ctx.how)


def _is_narrow(weight: Tensor, stride: Size, padding: Size) -> bool:
    """Whether a convolution has so few channels that libraries are slow: they cannot fill the matrix units."""
    n_out, n_in, *size = weight.shape
    return (size, stride, padding) == ([3, 3], (1, 1), (1, 1)) and {n_in, n_out} <= {16, 32}


def _sources(conv: nn.Conv2d) -> tuple[Tensor, ...]:
    """The weight, or under weight norm the lengths and directions of its rows."""
    if parametrize.is_parametrized(conv, "weight"):
        parametrizations: Any = conv.parametrizations
        made_by = parametrizations.weight
        if len(made_by) == 1 and type(made_by[0]).__name__ == "_WeightNorm" and made_by[0].dim == 0:
            return made_by.original0, made_by.original1
    return (conv.weight.contiguous(memory_format=torch.channels_last),)  # a parametrization may change the layout


class _Halves(torch.autograd.Function):
    """One autograd node for all weights, so that only its backward waits for the second stream."""

    @staticmethod
    def forward(ctx: Any, aside: Aside, counts: tuple[int, ...], *tensors: Tensor) -> tuple[Tensor, ...]:
        from ict.engine.fast.kernels.weight_norm import unit_rows

        sources = _grouped(tensors, counts)
        plain = [source[0] for source in sources if len(source) == 1]
        copies = [torch.empty_like(weight, dtype=HALF) for weight in plain]
        if plain:
            torch._foreach_copy_([_line(copy) for copy in copies], [_line(weight) for weight in plain])
        made, lengths, rest = [], [], iter(copies)
        for source in sources:
            if len(source) == 1:
                made.append(next(rest))
            else:
                weight, length = unit_rows(source[0], source[1], HALF)
                made.append(weight)
                lengths.append(length)
        ctx.save_for_backward(*tensors, *lengths)
        ctx.aside, ctx.counts = aside, counts
        return tuple(map(widened, made))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        from ict.engine.fast.kernels.weight_norm import unit_rows_gradient

        ctx.aside.join()
        n = sum(ctx.counts)
        sources, lengths = _grouped(ctx.saved_tensors[:n], ctx.counts), iter(ctx.saved_tensors[n:])
        found: list[Tensor] = []
        plain: list[tuple[Tensor, Tensor]] = []
        for source, widened in zip(sources, gradients, strict=True):
            gradient = widened[:, : source[-1].shape[1]].contiguous(memory_format=torch.channels_last)
            if len(source) == 1:
                found.append(torch.empty_like(source[0]))
                plain.append((_line(found[-1]), _line(gradient)))
            else:
                found += unit_rows_gradient(source[0], source[1], next(lengths), gradient)
        if plain:
            torch._foreach_copy_([mine for mine, _ in plain], [given for _, given in plain])
        return None, None, *found


def _grouped(tensors: tuple[Tensor, ...], counts: tuple[int, ...]) -> list[tuple[Tensor, ...]]:
    rest = iter(tensors)
    return [tuple(next(rest) for _ in range(count)) for count in counts]


def _line(x: Tensor) -> Tensor:
    """The numbers in memory order, as a vector. Strides of size-1 dimensions may differ otherwise."""
    return x.as_strided((x.numel(),), (1,))
