"""The Triton programs of the kernels in `norm`.

A batch is a matrix with one row per pixel and one column per channel. Parts are ranges of rows with their own
statistics; `starts` holds the first row of each and the end of the last.
"""

import triton
import triton.language as tl


@triton.jit
def measure(
    x, plus, both, starts, partial, counters, moments, running_mean, running_var, batches,
    shift, shift_plus, shift_both, channels, momentum, eps,
    PARTS: tl.constexpr, SPLITS: tl.constexpr, TRACKED: tl.constexpr, SHIFTS: tl.constexpr, PLUS: tl.constexpr,
    EVEN: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Mean and 1 / deviation of each part of x, or of `both` = x + plus, which is written.

    The first TRACKED parts update the running statistics. Up to two shifts, constants that x and plus do not include
    yet, are added to their mean; the sum of the shifts is written too.
    A program adds up a share of a part's rows; the last program of a column of tiles finishes the sums.
    Sums are taken relative to the part's first row: around zero, a large mean would hide a small deviation.
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
        if TRACKED > 0:
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
            if p < TRACKED:
                if SHIFTS > 0:
                    middle += shifted
                old_mean += momentum * (middle - old_mean)
                old_var += momentum * (var * n / tl.maximum(n - 1.0, 1.0) - old_var)
        if TRACKED > 0:
            tl.store(running_mean + c, old_mean, mask=inside)
            tl.store(running_var + c, old_var, mask=inside)
            if tl.program_id(0) == 0:
                tl.store(batches, tl.load(batches) + TRACKED)


@triton.jit
def _first_row(x, plus, start, c, channels, inside, PLUS: tl.constexpr):
    first = tl.load(x + start * channels + c, mask=inside, other=0.0).to(tl.float32)
    if PLUS:
        first += tl.load(plus + start * channels + c, mask=inside, other=0.0).to(tl.float32)
    return first


@triton.jit
def _is_last(counters, n):
    """Whether all other programs of this column have stored their sums. Resets the counter to zero."""
    tl.debug_barrier()  # the stores of all threads of this program come before the count
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
    """The position of the first of the four pixels under a pooled one; `width` is that of the pooled image."""
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
    """A program's part, rows and columns. With pooling a row is a pixel of the pooled image."""
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.program_id(2)
    start, end = tl.load(starts + part), tl.load(starts + part + 1)
    if POOL:
        start, end = start // 4, end // 4
    inside = c < channels
    r = start + tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    return part, r, c, inside, (r < end)[:, None] & inside[None, :]


@triton.jit
def normalise(
    x, out, starts, moments, weight, bias, channels, slope, width,
    POOL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The output of norm, activation and pooling."""
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
def _largest(xa, xb, xd, xe, gain, offset, slope):
    """Which of the four pixels is the maximum, the first if several are equal. If none of the three: the last."""
    a, b = _activated(xa, gain, offset, slope), _activated(xb, gain, offset, slope)
    d, e = _activated(xd, gain, offset, slope), _activated(xe, gain, offset, slope)
    most = tl.maximum(tl.maximum(a, b), tl.maximum(d, e))
    to_a = a == most
    to_b = (b == most) & ~to_a
    return to_a, to_b, (d == most) & ~to_a & ~to_b


@triton.jit
def _four_slopes(xa, xb, xd, xe, gradient, gain, offset, slope):
    """A pooled pixel's gradient goes to the largest of its four, through its activation."""
    to_a, to_b, to_d = _largest(xa, xb, xd, xe, gain, offset, slope)
    to_e = ~to_a & ~to_b & ~to_d
    zero = gradient * 0.0
    return (
        _slopes(xa, tl.where(to_a, gradient, zero), gain, offset, slope),
        _slopes(xb, tl.where(to_b, gradient, zero), gain, offset, slope),
        _slopes(xd, tl.where(to_d, gradient, zero), gain, offset, slope),
        _slopes(xe, tl.where(to_e, gradient, zero), gain, offset, slope),
    )


@triton.jit
def measure_gradients(
    x, gradient, starts, moments, weight, bias, partial, counters, means, for_weight, for_bias, channels, slope, width,
    PARTS: tl.constexpr, SPLITS: tl.constexpr, POOL: tl.constexpr, EVEN: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Means over each part of the gradient g and of g times the normalized value; gradients of weight and bias."""
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
            part_total = tl.sum(tl.load(sums, mask=inside[None, :], other=0.0, cache_modifier=".cg"), 0)
            part_products = tl.sum(tl.load(sums + channels, mask=inside[None, :], other=0.0, cache_modifier=".cg"), 0)
            tl.store(means + p * 2 * channels + c, part_total / n, mask=inside)
            tl.store(means + (p * 2 + 1) * channels + c, part_products / n, mask=inside)
            all_total += part_total
            all_products += part_products
        tl.store(for_bias + c, all_total, mask=inside)
        tl.store(for_weight + c, all_products, mask=inside)


@triton.jit
def _centered(value, g, mean, scale, gain, total, product):
    """Batch norm's gradient: g minus its mean and minus its component along the normalized value."""
    return gain * (g - total - (value - mean) * scale * product)


@triton.jit
def denormalise(
    x, gradient, plus, out, starts, moments, means, weight, bias, channels, slope, width,
    POOL: tl.constexpr, PLUS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The gradient of the input; `plus` is added: the gradient through another path."""
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
        result = _centered(value, g, mean, scale, gain, total, product)
        if PLUS:
            result += tl.load(plus + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(out + at, result.to(kind), mask=mask)


@triton.jit
def move(
    x, d, out, starts, moments, means, weight, bias, channels, slope, width,
    POOL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The derivative of the output along d; `means` are those of d, as of a gradient.

    Batch norm maps a change of its input as it maps a gradient in the backward pass.
    """
    part, r, c, inside, mask = _tile(starts, channels, POOL, ROWS, COLUMNS)
    mean, scale, gain, offset = _affine(moments, weight, bias, part, c, channels, inside)
    total = tl.load(means + part * 2 * channels + c, mask=inside, other=0.0)[None, :]
    product = tl.load(means + (part * 2 + 1) * channels + c, mask=inside, other=0.0)[None, :]
    if POOL:
        corner = _corner(r, c, channels, width)
        xa, xb, xd, xe = _four(x, corner, channels, width, mask)
        da, db, dd, de = _four(d, corner, channels, width, mask)
        to_a, to_b, to_d = _largest(xa, xb, xd, xe, gain, offset, slope)
        value = tl.where(to_a, xa, tl.where(to_b, xb, tl.where(to_d, xd, xe)))
        moved = tl.where(to_a, da, tl.where(to_b, db, tl.where(to_d, dd, de)))
    else:
        at = r[:, None] * channels + c[None, :]
        value = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
        moved = tl.load(d + at, mask=mask, other=0.0).to(tl.float32)
    moved = _centered(value, moved, mean, scale, gain, total, product)
    moved = _slopes(value, moved, gain, offset, slope)
    tl.store(out + r[:, None] * channels + c[None, :], moved.to(out.dtype.element_ty), mask=mask)
