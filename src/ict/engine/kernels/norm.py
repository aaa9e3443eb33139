"""Batch norm, an activation and a pooling in as few passes over memory as they need: kernels for a GPU.

An activation of a wide network is larger than the caches, so what counts is how often it is read and written. Forward:
one pass for the statistics of each part, one that normalises, activates and pools. Backward: one pass for the two sums
that batch norm's gradient needs, one that writes the gradient. What lies between is computed again instead of stored.

Images are in channels-last order, so a batch is a matrix with a row for each pixel and a column for each channel.
Parts are ranges of rows with statistics of their own; `starts` holds where each begins and where the last one ends.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

_TILE = 4096  # numbers in a tile
_PROGRAMS = 1024  # that share a reduction: enough to hide the latency of memory, few enough to add up what they found


@triton.jit
def _measure(
    x, plus, both, starts, partial, counters, moments, running_mean, running_var, batches,
    shift, shift_plus, shift_both, channels, momentum, eps,
    PARTS: tl.constexpr, SPLITS: tl.constexpr, TRACK: tl.constexpr, SHIFTS: tl.constexpr, PLUS: tl.constexpr,
    EVEN: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Mean and 1 / deviation of each part of x, or of `both` = x + plus, which is written; running statistics follow.

    To these the mean is larger by what x and plus are short of: none, one or two shifts, whose sum is written too.
    A program adds up a share of a part's rows; the last one to be done with a column of tiles goes on with the sums.
    They are taken around the part's first row, because around zero a large mean would swallow a small deviation.
    """
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    split, part = tl.program_id(1), tl.program_id(2)
    start, end = tl.load(starts + part), tl.load(starts + part + 1)
    inside = c < channels
    first = _first_row(x, plus, start, c, channels, inside, PLUS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    squares = tl.zeros((ROWS, COLUMNS), tl.float32)
    for row in tl.range(start + split * ROWS, end, SPLITS * ROWS, num_stages=3):
        r = row + tl.arange(0, ROWS)
        mask = (r < end)[:, None] if EVEN else (r < end)[:, None] & inside[None, :]
        at = r[:, None] * channels + c[None, :]
        value = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
        if PLUS:
            value += tl.load(plus + at, mask=mask, other=0.0).to(tl.float32)
            rounded = value.to(both.dtype.element_ty)
            tl.store(both + at, rounded, mask=mask)
            value = rounded.to(tl.float32)
        value = tl.where(mask, value - first[None, :], 0.0)
        total += value
        squares += value * value
    own = partial + (part * SPLITS + split) * 2 * channels + c
    tl.store(own, tl.sum(total, 0), mask=inside)
    tl.store(own + channels, tl.sum(squares, 0), mask=inside)
    if _is_last(counters, SPLITS * PARTS):
        s = tl.arange(0, SPLITS)
        if SHIFTS > 0:
            shifted = tl.load(shift + c, mask=inside, other=0.0)
            if SHIFTS > 1:
                shifted += tl.load(shift_plus + c, mask=inside, other=0.0)
                tl.store(shift_both + c, shifted, mask=inside)
        if TRACK:
            old_mean = tl.load(running_mean + c, mask=inside, other=0.0)
            old_var = tl.load(running_var + c, mask=inside, other=0.0)
        for p in tl.static_range(PARTS):
            begin = tl.load(starts + p)
            n = (tl.load(starts + p + 1) - begin).to(tl.float32)
            sums = partial + (p * SPLITS + s[:, None]) * 2 * channels + c[None, :]
            off = tl.sum(tl.load(sums, mask=inside[None, :], other=0.0, cache_modifier=".cg"), 0) / n
            square = tl.sum(tl.load(sums + channels, mask=inside[None, :], other=0.0, cache_modifier=".cg"), 0) / n
            middle = _first_row(x, plus, begin, c, channels, inside, PLUS) + off
            var = tl.maximum(square - off * off, 0.0)
            tl.store(moments + p * 2 * channels + c, middle, mask=inside)
            tl.store(moments + (p * 2 + 1) * channels + c, tl.rsqrt(var + eps), mask=inside)
            if TRACK:
                if SHIFTS > 0:
                    middle += shifted
                old_mean += momentum * (middle - old_mean)
                old_var += momentum * (var * n / tl.maximum(n - 1.0, 1.0) - old_var)
        if TRACK:
            tl.store(running_mean + c, old_mean, mask=inside)
            tl.store(running_var + c, old_var, mask=inside)
            if tl.program_id(0) == 0:
                tl.store(batches, tl.load(batches) + PARTS)


@triton.jit
def _first_row(x, plus, start, c, channels, inside, PLUS: tl.constexpr):
    first = tl.load(x + start * channels + c, mask=inside, other=0.0).to(tl.float32)
    if PLUS:
        first += tl.load(plus + start * channels + c, mask=inside, other=0.0).to(tl.float32)
    return first


@triton.jit
def _is_last(counters, n):
    """Whether all other programs of this column have stored what they found; it leaves the counter at zero."""
    tl.debug_barrier()  # what all threads of this program stored comes before the count
    counter = counters + tl.program_id(0)
    last = tl.atomic_add(counter, 1, sem="acq_rel") == n - 1
    if last:
        tl.store(counter, 0)
    return last


@triton.jit
def _activated(value, gain, offset, slope):
    value = value * gain + offset
    return tl.where(value > 0, value, slope * value)


@triton.jit
def _affine(moments, weight, bias, part, c, channels, inside):
    """Batch norm as one product and one sum."""
    mean = tl.load(moments + part * 2 * channels + c, mask=inside, other=0.0)
    scale = tl.load(moments + (part * 2 + 1) * channels + c, mask=inside, other=0.0)
    gain = scale * tl.load(weight + c, mask=inside, other=0.0)
    offset = tl.load(bias + c, mask=inside, other=0.0) - mean * gain
    return mean[None, :], scale[None, :], gain[None, :], offset[None, :]


@triton.jit
def _corner(r, c, channels, width):
    """Where the first of the four pixels is that a pooled one looks at; `width` is that of the pooled image."""
    return (4 * (r // width) * width + 2 * (r % width))[:, None] * channels + c[None, :]


@triton.jit
def _four(x, corner, channels, width, mask):
    """The four pixels: two in a row, and those below them."""
    first = x + corner
    below = first + 2 * width * channels
    return (
        tl.load(first, mask=mask, other=0.0).to(tl.float32),
        tl.load(first + channels, mask=mask, other=0.0).to(tl.float32),
        tl.load(below, mask=mask, other=0.0).to(tl.float32),
        tl.load(below + channels, mask=mask, other=0.0).to(tl.float32),
    )


@triton.jit
def _tile(starts, channels, POOL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A program's part, and its rows and columns there. Where it pools, a row is a pixel of the pooled image."""
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.program_id(2)
    start, end = tl.load(starts + part), tl.load(starts + part + 1)
    if POOL:
        start, end = start // 4, end // 4
    inside = c < channels
    r = start + tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    return part, r, c, inside, (r < end)[:, None] & inside[None, :]


@triton.jit
def _normalise(
    x, out, starts, moments, weight, bias, channels, slope, width,
    POOL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """What comes out of the norm, the activation and the pooling."""
    part, r, c, inside, mask = _tile(starts, channels, POOL, ROWS, COLUMNS)
    _, _, gain, offset = _affine(moments, weight, bias, part, c, channels, inside)
    if POOL:
        xa, xb, xd, xe = _four(x, _corner(r, c, channels, width), channels, width, mask)
        a, b = _activated(xa, gain, offset, slope), _activated(xb, gain, offset, slope)
        d, e = _activated(xd, gain, offset, slope), _activated(xe, gain, offset, slope)
        value = tl.maximum(tl.maximum(a, b), tl.maximum(d, e))
    else:
        value = tl.load(x + r[:, None] * channels + c[None, :], mask=mask, other=0.0).to(tl.float32)
        value = _activated(value, gain, offset, slope)
    tl.store(out + r[:, None] * channels + c[None, :], value.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _slopes(value, gradient, gain, offset, slope):
    """The gradient before the activation."""
    return tl.where(value * gain + offset > 0, gradient, slope * gradient)


@triton.jit
def _four_slopes(xa, xb, xd, xe, gradient, gain, offset, slope):
    """A pooled pixel's gradient goes to the first of the largest of its four, through its activation."""
    a, b = _activated(xa, gain, offset, slope), _activated(xb, gain, offset, slope)
    d, e = _activated(xd, gain, offset, slope), _activated(xe, gain, offset, slope)
    most = tl.maximum(tl.maximum(a, b), tl.maximum(d, e))
    to_a = a == most
    to_b = (b == most) & ~to_a
    to_d = (d == most) & ~to_a & ~to_b
    to_e = ~to_a & ~to_b & ~to_d
    zero = gradient * 0.0
    return (
        _slopes(xa, tl.where(to_a, gradient, zero), gain, offset, slope),
        _slopes(xb, tl.where(to_b, gradient, zero), gain, offset, slope),
        _slopes(xd, tl.where(to_d, gradient, zero), gain, offset, slope),
        _slopes(xe, tl.where(to_e, gradient, zero), gain, offset, slope),
    )


@triton.jit
def _measure_gradients(
    x, gradient, starts, moments, weight, bias, partial, counters, means, for_weight, for_bias, channels, slope, width,
    PARTS: tl.constexpr, SPLITS: tl.constexpr, POOL: tl.constexpr, EVEN: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Means over each part of the gradient g and of g times the normalised value; gradients of weight and bias."""
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    split, part = tl.program_id(1), tl.program_id(2)
    start, end = tl.load(starts + part), tl.load(starts + part + 1)
    if POOL:
        start, end = start // 4, end // 4
    inside = c < channels
    mean, scale, gain, offset = _affine(moments, weight, bias, part, c, channels, inside)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    products = tl.zeros((ROWS, COLUMNS), tl.float32)
    for row in tl.range(start + split * ROWS, end, SPLITS * ROWS, num_stages=2):
        r = row + tl.arange(0, ROWS)
        mask = (r < end)[:, None] if EVEN else (r < end)[:, None] & inside[None, :]
        g = tl.load(gradient + r[:, None] * channels + c[None, :], mask=mask, other=0.0).to(tl.float32)
        if POOL:
            xa, xb, xd, xe = _four(x, _corner(r, c, channels, width), channels, width, mask)
            ga, gb, gd, ge = _four_slopes(xa, xb, xd, xe, g, gain, offset, slope)
            total += ga + gb + gd + ge
            products += ga * (xa - mean) + gb * (xb - mean) + gd * (xd - mean) + ge * (xe - mean)
        else:
            value = tl.load(x + r[:, None] * channels + c[None, :], mask=mask, other=0.0).to(tl.float32)
            g = _slopes(value, g, gain, offset, slope)
            total += g
            products += g * (value - mean)
    own = partial + (part * SPLITS + split) * 2 * channels + c
    tl.store(own, tl.sum(total, 0), mask=inside)
    tl.store(own + channels, tl.sum(products * scale, 0), mask=inside)
    if _is_last(counters, SPLITS * PARTS):
        s = tl.arange(0, SPLITS)
        all_total = tl.zeros((COLUMNS,), tl.float32)
        all_products = tl.zeros((COLUMNS,), tl.float32)
        for p in tl.static_range(PARTS):
            n = (tl.load(starts + p + 1) - tl.load(starts + p)).to(tl.float32)
            sums = partial + (p * SPLITS + s[:, None]) * 2 * channels + c[None, :]
            found = tl.sum(tl.load(sums, mask=inside[None, :], other=0.0, cache_modifier=".cg"), 0)
            along = tl.sum(tl.load(sums + channels, mask=inside[None, :], other=0.0, cache_modifier=".cg"), 0)
            tl.store(means + p * 2 * channels + c, found / n, mask=inside)
            tl.store(means + (p * 2 + 1) * channels + c, along / n, mask=inside)
            all_total += found
            all_products += along
        tl.store(for_bias + c, all_total, mask=inside)
        tl.store(for_weight + c, all_products, mask=inside)


@triton.jit
def _centered(value, g, mean, scale, gain, total, product):
    """Batch norm's gradient: g less its mean and less its share along the normalised value."""
    return gain * (g - total - (value - mean) * scale * product)


@triton.jit
def _denormalise(
    x, gradient, plus, out, starts, moments, means, weight, bias, channels, slope, width,
    POOL: tl.constexpr, PLUS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The gradient of what came in; `plus` is one that reached it by another way."""
    part, r, c, inside, mask = _tile(starts, channels, POOL, ROWS, COLUMNS)
    mean, scale, gain, offset = _affine(moments, weight, bias, part, c, channels, inside)
    total = tl.load(means + part * 2 * channels + c, mask=inside, other=0.0)[None, :]
    product = tl.load(means + (part * 2 + 1) * channels + c, mask=inside, other=0.0)[None, :]
    kind = out.dtype.element_ty
    g = tl.load(gradient + r[:, None] * channels + c[None, :], mask=mask, other=0.0).to(tl.float32)
    if POOL:
        corner = _corner(r, c, channels, width)
        below = corner + 2 * width * channels
        xa, xb, xd, xe = _four(x, corner, channels, width, mask)
        ga, gb, gd, ge = _four_slopes(xa, xb, xd, xe, g, gain, offset, slope)
        tl.store(out + corner, _centered(xa, ga, mean, scale, gain, total, product).to(kind), mask=mask)
        tl.store(out + corner + channels, _centered(xb, gb, mean, scale, gain, total, product).to(kind), mask=mask)
        tl.store(out + below, _centered(xd, gd, mean, scale, gain, total, product).to(kind), mask=mask)
        tl.store(out + below + channels, _centered(xe, ge, mean, scale, gain, total, product).to(kind), mask=mask)
    else:
        at = r[:, None] * channels + c[None, :]
        value = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
        g = _slopes(value, g, gain, offset, slope)
        found = _centered(value, g, mean, scale, gain, total, product)
        if PLUS:
            found += tl.load(plus + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(out + at, found.to(kind), mask=mask)


@dataclass(frozen=True)
class Running:
    """The statistics that follow the batches, and how."""

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
    """How a batch lies in memory, and in which pieces kernels take it."""

    sizes: tuple[int, ...]  # rows of each part
    channels: int
    width: int  # of the pooled image, where there is a pooling
    pool: bool

    @property
    def longest(self) -> int:
        return max(self.sizes) // (4 if self.pool else 1)

    def tiles(self) -> tuple[tuple[int, int, int], dict[str, Any]]:
        """A program for each tile of what comes out."""
        columns = min(64, triton.next_power_of_2(self.channels))
        rows = _TILE // columns
        grid = triton.cdiv(self.channels, columns), triton.cdiv(self.longest, rows), len(self.sizes)
        return grid, {"ROWS": rows, "COLUMNS": columns}

    def shares(self) -> tuple[tuple[int, int, int], dict[str, Any]]:
        """A few programs for each column of tiles, for a reduction: narrow, so that each has many rows to add up."""
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
    """What programs count themselves with. Forwards that run at the same time must not share them."""
    return torch.zeros(norm.num_features, dtype=torch.int32, device=norm.weight.device)


@dataclass(frozen=True)
class How:
    """What a batch norm does besides normalising."""

    counters: Tensor
    eps: float
    slope: float = 1.0  # of a LeakyReLU behind it; 1: none
    pool: bool = False  # 2 x 2, behind that
    parts: tuple[int, ...] = ()  # examples with statistics of their own
    running: Running | None = None
    shifts: tuple[Tensor, ...] = ()  # what each summand is short of in every channel, such as a convolution's bias


class NormAct(torch.autograd.Function):
    """Batch norm of x, or of x + plus, by the statistics of each part; the sum is the second of what comes out."""

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
        _measure[grid](
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
            TRACK=running is not None,
            SHIFTS=len(how.shifts),
            PLUS=plus is not None,
            **shares,
        )
        out = _normalised(both, moments, weight, bias, layout, how.slope)
        ctx.save_for_backward(both, weight, bias, moments, starts)
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
        gradient = _dense(gradient)
        grid, shares = layout.shares()
        partial, means = weight.new_empty(len(layout.sizes), shares["SPLITS"], 2, c), torch.empty_like(moments)
        for_weight, for_bias, out = torch.empty_like(weight), torch.empty_like(bias), torch.empty_like(x)
        around = (starts, moments, weight, bias)
        _measure_gradients[grid](
            x, gradient, *around, partial, how.counters, means, for_weight, for_bias, c, how.slope, layout.width,
            POOL=layout.pool, **shares,
        )  # fmt: skip
        grid, tiles = layout.tiles()
        _denormalise[grid](
            x, gradient, gradient if beside is None else _dense(beside), out, starts, moments, means, weight, bias, c,
            how.slope, layout.width, POOL=layout.pool, PLUS=beside is not None, **tiles,
        )  # fmt: skip
        return out, out if ctx.summed else None, for_weight, for_bias, None


def _normalised(x: Tensor, moments: Tensor, weight: Tensor, bias: Tensor, layout: Layout, slope: float) -> Tensor:
    """By mean and 1 / deviation of each part (`moments` [parts, 2, C])."""
    n, c, *size = x.shape
    out = torch.empty_like(x)
    if layout.pool:
        shape = (n, c, *(s // 2 for s in size))
        out = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    grid, tiles = layout.tiles()
    starts = _starts(layout.sizes, x.device)
    _normalise[grid](x, out, starts, moments, weight, bias, c, slope, layout.width, POOL=layout.pool, **tiles)
    return out


class ActPool(torch.autograd.Function):
    """An activation and a pooling: what comes behind a norm, of which this is one that changes nothing."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: float) -> Tensor:
        x = _dense(x)
        ctx.save_for_backward(x)
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
        _denormalise[grid](
            x, gradient, gradient, out, starts, moments, means, weight, bias, layout.channels, ctx.slope, layout.width,
            POOL=True, PLUS=False, **tiles,
        )  # fmt: skip
        return out, None


@cache
def _unchanged(channels: int, device: torch.device) -> tuple[Tensor, ...]:
    """Moments, weight and bias of a norm that changes nothing, and means of gradients that it does not center."""
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
    """In training mode, by the statistics of the batch: what comes out, x + plus, and the sum of the shifts."""
    run: Any = NormAct.apply
    out, both, shift = run(x, plus, weight, bias, how)
    return out, x if plus is None else both, how.shifts[0] if len(how.shifts) == 1 else shift


def norm_act_by(mean: Tensor, var: Tensor, x: Tensor, weight: Tensor, bias: Tensor, how: How) -> Tensor:
    """In eval mode, by given statistics, without a gradient."""
    x = _dense(x)
    moments = torch.stack([mean, (var + how.eps).rsqrt()])[None]
    return _normalised(x, moments, weight, bias, _layout(x, (), how.pool), how.slope)
