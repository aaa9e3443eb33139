"""3 x 3 convolutions with few channels. Libraries are slow on them, since they cannot fill the matrix units.

The time depends on how often a pixel is read. Images are in channels-last order.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _product(a, b):
    return tl.dot(a, b, input_precision="ieee")  # keeps the float32 of the tests exact


@triton.jit
def _convolve(
    x, weight, out, pixels, height, width, FLIP: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr,
    PIXELS: tl.constexpr,
):  # fmt: skip
    """A 3 x 3 convolution with padding 1; with FLIP the gradient of its input.

    `weight` is [OUT, 3, 3, IN], with FLIP [IN, 3, 3, OUT].
    """
    i, o = tl.arange(0, IN), tl.arange(0, OUT)
    p = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    row, column = (p // width) % height, p % width
    total = tl.zeros((PIXELS, OUT), tl.float32)
    for place in tl.static_range(9):
        down, right = place // 3 - 1, place % 3 - 1
        real = (p < pixels) & (row + down >= 0) & (row + down < height)
        real = real & (column + right >= 0) & (column + right < width)
        value = tl.load(x + (p + down * width + right)[:, None] * IN + i[None, :], mask=real[:, None], other=0.0)
        if FLIP:
            part = tl.load(weight + i[:, None] * 9 * OUT + (8 - place) * OUT + o[None, :])
        else:
            part = tl.load(weight + o[None, :] * 9 * IN + place * IN + i[:, None])
        total += _product(value, part)
    at = out + p[:, None] * OUT + o[None, :]
    tl.store(at, total.to(out.dtype.element_ty), mask=(p < pixels)[:, None])


def convolve(x: Tensor, weight: Tensor, *, flip: bool = False) -> Tensor:
    """A 3 x 3 convolution with padding 1. `flip`: x is the gradient of its output, the result that of its input."""
    n, n_in, height, width = x.shape
    n_out = weight.shape[1 if flip else 0]
    out = torch.empty((n, n_out, height, width), dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    pixels = n * height * width
    _convolve[(triton.cdiv(pixels, 128),)](
        x, weight, out, pixels, height, width, FLIP=flip, IN=n_in, OUT=n_out, PIXELS=128
    )
    return out


@triton.jit
def _weight_gradient(
    x, gradient, out, pixels, height, width, SPLITS: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr,
    PIXELS: tl.constexpr,
):  # fmt: skip
    """The gradient of the weight of a 3 x 3 convolution with padding 1, added to `out` [OUT, 3, 3, IN].

    All nine positions of the kernel read the same few pixels, so each pixel is read from memory once.
    """
    i, o = tl.arange(0, IN), tl.arange(0, OUT)
    upper_left = tl.zeros((OUT, IN), tl.float32)
    upper = tl.zeros((OUT, IN), tl.float32)
    upper_right = tl.zeros((OUT, IN), tl.float32)
    left = tl.zeros((OUT, IN), tl.float32)
    middle = tl.zeros((OUT, IN), tl.float32)
    right = tl.zeros((OUT, IN), tl.float32)
    lower_left = tl.zeros((OUT, IN), tl.float32)
    lower = tl.zeros((OUT, IN), tl.float32)
    lower_right = tl.zeros((OUT, IN), tl.float32)
    for at in tl.range(tl.program_id(0) * PIXELS, pixels, SPLITS * PIXELS, num_stages=2):
        p = at + tl.arange(0, PIXELS)
        row, column = (p // width) % height, p % width
        real = p < pixels
        above, below = real & (row > 0), real & (row < height - 1)
        before, after = column > 0, column < width - 1
        g = tl.trans(tl.load(gradient + p[:, None] * OUT + o[None, :], mask=real[:, None], other=0.0))
        here = x + p[:, None] * IN + i[None, :]
        up, down = here - width * IN, here + width * IN
        upper_left += _product(g, tl.load(up - IN, mask=(above & before)[:, None], other=0.0))
        upper += _product(g, tl.load(up, mask=above[:, None], other=0.0))
        upper_right += _product(g, tl.load(up + IN, mask=(above & after)[:, None], other=0.0))
        left += _product(g, tl.load(here - IN, mask=(real & before)[:, None], other=0.0))
        middle += _product(g, tl.load(here, mask=real[:, None], other=0.0))
        right += _product(g, tl.load(here + IN, mask=(real & after)[:, None], other=0.0))
        lower_left += _product(g, tl.load(down - IN, mask=(below & before)[:, None], other=0.0))
        lower += _product(g, tl.load(down, mask=below[:, None], other=0.0))
        lower_right += _product(g, tl.load(down + IN, mask=(below & after)[:, None], other=0.0))
    to = out + o[:, None] * 9 * IN + i[None, :]
    tl.atomic_add(to, upper_left, sem="relaxed")
    tl.atomic_add(to + IN, upper, sem="relaxed")
    tl.atomic_add(to + 2 * IN, upper_right, sem="relaxed")
    tl.atomic_add(to + 3 * IN, left, sem="relaxed")
    tl.atomic_add(to + 4 * IN, middle, sem="relaxed")
    tl.atomic_add(to + 5 * IN, right, sem="relaxed")
    tl.atomic_add(to + 6 * IN, lower_left, sem="relaxed")
    tl.atomic_add(to + 7 * IN, lower, sem="relaxed")
    tl.atomic_add(to + 8 * IN, lower_right, sem="relaxed")


def weight_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    """The gradient of the weight of a 3 x 3 convolution with padding 1: [out, in, 3, 3], in channels-last order."""
    n, n_in, height, width = x.shape
    n_out = gradient.shape[1]
    shape = (n_out, n_in, 3, 3)
    out = torch.empty(shape, device=x.device, memory_format=torch.channels_last).zero_()
    splits = torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 2
    _weight_gradient[(splits,)](
        x, gradient, out, n * height * width, height, width, SPLITS=splits, IN=n_in, OUT=n_out, PIXELS=64
    )
    return out.to(x.dtype)
