"""Batch norm, activation and pooling with the fewest passes over memory: kernels for a GPU.

The activations of a wide network are larger than the caches, so the time depends on how often they are read and
written. Forward: one pass for the statistics of each part, one that normalizes, activates and pools. Backward: one pass
for the two sums in batch norm's gradient, one that writes the gradient; a forward-mode derivative works the same way.
Intermediate values are recomputed, not stored.

Images are in channels-last order. The programs for the GPU are in `norm_programs`; this file launches them.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
import triton
from torch import Tensor, nn

from ict.engine.fast.kernels.norm_programs import denormalise, measure, measure_gradients, move, normalise

_TILE = 4096  # numbers in a tile
_MOST = 65_535  # programs along the second axis of a grid
_PROGRAMS = 1024  # programs in a reduction: enough to hide memory latency, few enough to add up their partial sums


@dataclass(frozen=True)
class Running:
    """The running statistics and their momentum."""

    mean: Tensor
    var: Tensor
    batches: Tensor
    momentum: float


@cache
def _starts(sizes: tuple[int, ...], device: torch.device) -> Tensor:
    ends = torch.tensor([0, *sizes]).cumsum(0).to(torch.int32)
    if device.type == "cuda":
        ends = ends.pin_memory()
    return ends.to(device, non_blocking=True)


@dataclass(frozen=True)
class Layout:
    """The layout of a batch in memory, and its division among programs."""

    sizes: tuple[int, ...]  # rows of each part
    channels: int
    width: int  # of the pooled image; 1 without pooling
    pool: bool

    @property
    def longest(self) -> int:
        return max(self.sizes) // (4 if self.pool else 1)

    def tiles(self) -> tuple[tuple[int, int, int], dict[str, Any]]:
        """One program per tile of the output."""
        columns = min(64, triton.next_power_of_2(self.channels))
        rows = _TILE // columns
        while triton.cdiv(self.longest, rows) > _MOST:
            rows *= 2
        grid = triton.cdiv(self.channels, columns), triton.cdiv(self.longest, rows), len(self.sizes)
        return grid, {"ROWS": rows, "COLUMNS": columns}

    def shares(self) -> tuple[tuple[int, int, int], dict[str, Any]]:
        """For a reduction: a few programs per column of tiles. Columns are narrow, so a program adds up many rows."""
        columns = min(32, triton.next_power_of_2(self.channels))
        rows = _TILE // columns
        n = triton.cdiv(self.channels, columns)
        share = triton.next_power_of_2(max(_PROGRAMS // (n * len(self.sizes)), 1) + 1) // 2
        splits = min(share, triton.next_power_of_2(triton.cdiv(self.longest, rows)), 128)
        even = self.channels % columns == 0
        how = {"PARTS": len(self.sizes), "SPLITS": splits, "EVEN": even, "ROWS": rows, "COLUMNS": columns}
        return (n, splits, len(self.sizes)), how


def _layout(x: Tensor, parts: tuple[int, ...], pool: bool) -> Layout:
    pixels = x[0, 0].numel()
    sizes = tuple(n * pixels for n in parts) if parts else (len(x) * pixels,)
    return Layout(sizes, x.shape[1], x.shape[3] // 2 if pool else 1, pool)


def _dense(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x.contiguous()


def counters(norm: nn.BatchNorm1d | nn.BatchNorm2d) -> Tensor:
    """The counters of finished programs. Forwards that run at the same time must not share them."""
    return torch.zeros(norm.num_features, dtype=torch.int32, device=norm.weight.device)


@dataclass(frozen=True)
class How:
    """The options of a fused batch norm."""

    counters: Tensor
    eps: float
    slope: float = 1.0  # of the LeakyReLU after it; 1: none
    pool: bool = False  # 2 x 2, after the activation
    parts: tuple[int, ...] = ()  # sizes of parts with their own statistics
    running: Running | None = None
    shifts: tuple[Tensor, ...] = ()  # per input and channel, a constant not yet added, such as a convolution's bias
    still: int = 0  # how many of the last parts do not update the running statistics


class NormAct(torch.autograd.Function):
    """Batch norm of x, or of x + plus, with each part's statistics. The sum is the second output."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, plus: Tensor | None, weight: Tensor, bias: Tensor, how: How) -> Any:
        x = _dense(x)
        layout = _layout(x, how.parts, how.pool)
        starts = _starts(layout.sizes, x.device)
        both = x if plus is None else torch.empty_like(x)
        running, c = how.running, layout.channels
        grid, shares = layout.shares()
        moments = weight.new_empty(len(layout.sizes), 2, c)
        shift, shift_plus = (*how.shifts, moments, moments)[:2]
        shift_both = torch.empty_like(shift) if len(how.shifts) > 1 else shift
        measure[grid](
            x,
            x if plus is None else _dense(plus),
            both,
            starts,
            weight.new_empty(len(layout.sizes), shares["SPLITS"], 2, c),
            how.counters,
            moments,
            running.mean if running else moments,
            running.var if running else moments,
            running.batches if running else moments,
            shift,
            shift_plus,
            shift_both,
            c,
            running.momentum if running else 0.0,
            how.eps,
            TRACKED=len(layout.sizes) - how.still if running else 0,
            SHIFTS=len(how.shifts),
            PLUS=plus is not None,
            **shares,
        )
        out = _normalised(both, moments, weight, bias, layout, how.slope)
        ctx.save_for_backward(both, weight, bias, moments, starts)
        ctx.save_for_forward(both, weight, bias, moments, starts)
        ctx.layout, ctx.how, ctx.summed = layout, how, plus is not None
        ctx.set_materialize_grads(False)
        if len(how.shifts) < 2:
            return out, both, None
        ctx.mark_non_differentiable(shift_both)
        return out, both, shift_both

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor, beside: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
        x, weight, bias, moments, starts = ctx.saved_tensors
        layout, how, c = ctx.layout, ctx.how, ctx.layout.channels
        gradient, out = _dense(gradient), torch.empty_like(x)
        means, for_weight, for_bias = _means(x, gradient, weight, bias, moments, layout, how.slope, how.counters)
        grid, tiles = layout.tiles()
        denormalise[grid](
            x, gradient, gradient if beside is None else _dense(beside), out, starts, moments, means, weight, bias, c,
            how.slope, layout.width, POOL=layout.pool, PLUS=beside is not None, **tiles,
        )  # fmt: skip
        return out, out if ctx.summed else None, for_weight, for_bias, None

    @staticmethod
    def jvp(ctx: Any, x: Tensor, plus: Tensor | None, *_: None) -> tuple[Tensor, Tensor, None]:
        """The derivative along x and plus."""
        both, weight, bias, moments = ctx.saved_tensors[:4]
        d = _dense(x if plus is None else x + plus)
        whole = replace(ctx.layout, pool=False, width=1)
        means = _means(both, d, weight, bias, moments, whole, 1.0, ctx.how.counters)[0]
        out = _moved(both, d, moments, means, weight, bias, ctx.layout, ctx.how.slope)
        return out, d.view_as(d), None  # without `plus` torch needs a view


def _means(
    x: Tensor, gradient: Tensor, weight: Tensor, bias: Tensor, moments: Tensor, layout: Layout, slope: float,
    counted_by: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The means of g and of g times the normalized value, and the gradients of weight and bias.

    `gradient` is the gradient after the activation, g the one before it.
    """
    c, (grid, shares) = layout.channels, layout.shares()
    partial = weight.new_empty(len(layout.sizes), shares["SPLITS"], 2, c)
    means, for_weight, for_bias = torch.empty_like(moments), torch.empty_like(weight), torch.empty_like(bias)
    measure_gradients[grid](
        x, gradient, _starts(layout.sizes, x.device), moments, weight, bias, partial, counted_by, means, for_weight,
        for_bias, c, slope, layout.width, POOL=layout.pool, **shares,
    )  # fmt: skip
    return means, for_weight, for_bias


def _moved(
    x: Tensor, d: Tensor, moments: Tensor, means: Tensor, weight: Tensor, bias: Tensor, layout: Layout, slope: float
) -> Tensor:
    """The derivative of `_normalised` along d."""
    out, (grid, tiles) = _empty(x, layout), layout.tiles()
    around = (_starts(layout.sizes, x.device), moments, means, weight, bias)
    move[grid](x, d, out, *around, layout.channels, slope, layout.width, POOL=layout.pool, **tiles)
    return out


def _empty(x: Tensor, layout: Layout) -> Tensor:
    """Memory for the output."""
    if not layout.pool:
        return torch.empty_like(x)
    n, c, *size = x.shape
    shape = (n, c, *(s // 2 for s in size))
    return torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)


def _normalised(x: Tensor, moments: Tensor, weight: Tensor, bias: Tensor, layout: Layout, slope: float) -> Tensor:
    """Normalize, activate and pool with the mean and 1 / deviation of each part (`moments` [parts, 2, C])."""
    out, (grid, tiles) = _empty(x, layout), layout.tiles()
    around = (_starts(layout.sizes, x.device), moments, weight, bias)
    normalise[grid](x, out, *around, layout.channels, slope, layout.width, POOL=layout.pool, **tiles)
    return out


class ActPool(torch.autograd.Function):
    """An activation and a pooling: the same kernels with a norm that changes nothing."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: float) -> Tensor:
        x = _dense(x)
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        ctx.slope = slope
        moments, weight, bias, _ = _unchanged(x.shape[1], x.device)
        return _normalised(x, moments, weight, bias, _layout(x, (), True), slope)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        gradient, layout, out = _dense(gradient), _layout(x, (), True), torch.empty_like(x)
        moments, weight, bias, means = _unchanged(x.shape[1], x.device)
        starts, (grid, tiles) = _starts(layout.sizes, x.device), layout.tiles()
        denormalise[grid](
            x, gradient, gradient, out, starts, moments, means, weight, bias, layout.channels, ctx.slope, layout.width,
            POOL=True, PLUS=False, **tiles,
        )  # fmt: skip
        return out, None

    @staticmethod
    def jvp(ctx: Any, d: Tensor, _: None) -> Tensor:
        (x,) = ctx.saved_tensors
        moments, weight, bias, means = _unchanged(x.shape[1], x.device)
        return _moved(x, _dense(d), moments, means, weight, bias, _layout(x, (), True), ctx.slope)


@cache
def _unchanged(channels: int, device: torch.device) -> tuple[Tensor, ...]:
    """Moments, weight and bias of a norm that changes nothing, and zero means, which leave gradients uncentered."""
    zeros, ones = torch.zeros(channels, device=device), torch.ones(channels, device=device)
    return torch.stack([zeros, ones])[None], ones, zeros, torch.stack([zeros, zeros])[None]


def act_pool(x: Tensor, slope: float) -> Tensor:
    """LeakyReLU and a 2 x 2 pooling of images of even height and width."""
    run: Any = ActPool.apply
    out: Tensor = run(x, slope)
    return out


def norm_act(
    x: Tensor, plus: Tensor | None, weight: Tensor, bias: Tensor, how: How
) -> tuple[Tensor, Tensor, Tensor | None]:
    """In training mode, with the batch's statistics: the output, x + plus, and the sum of the shifts."""
    run: Any = NormAct.apply
    out, both, shift = run(x, plus, weight, bias, how)
    return out, x if plus is None else both, how.shifts[0] if len(how.shifts) == 1 else shift


def norm_act_by(mean: Tensor, var: Tensor, x: Tensor, weight: Tensor, bias: Tensor, how: How) -> Tensor:
    """In eval mode, with given statistics, without a gradient."""
    x = _dense(x)
    moments = torch.stack([mean, (var + how.eps).rsqrt()])[None]
    return _normalised(x, moments, weight, bias, _layout(x, (), how.pool), how.slope)
