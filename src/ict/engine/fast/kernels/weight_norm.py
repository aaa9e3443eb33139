"""Weight norm with a half-precision result: w = g v / |v| for each row of v."""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _unit_rows(v, g, out, lengths, size, BLOCK: tl.constexpr):
    """Each row of v divided by its length and multiplied by its g."""
    row = tl.program_id(0)
    k = tl.arange(0, BLOCK)
    squares = tl.zeros((BLOCK,), tl.float32)
    for at in range(0, size, BLOCK):
        value = tl.load(v + row * size + at + k, mask=at + k < size, other=0.0)
        squares += value * value
    length = tl.sqrt(tl.sum(squares, 0))
    tl.store(lengths + row, length)
    factor = tl.load(g + row) / length
    for at in range(0, size, BLOCK):
        mask = at + k < size
        value = tl.load(v + row * size + at + k, mask=mask, other=0.0)
        tl.store(out + row * size + at + k, (value * factor).to(out.dtype.element_ty), mask=mask)


@triton.jit
def _unit_rows_gradient(v, g, lengths, gradient, for_v, for_g, size, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    k = tl.arange(0, BLOCK)
    products = tl.zeros((BLOCK,), tl.float32)
    for at in range(0, size, BLOCK):
        mask = at + k < size
        value = tl.load(v + row * size + at + k, mask=mask, other=0.0)
        products += value * tl.load(gradient + row * size + at + k, mask=mask, other=0.0).to(tl.float32)
    length = tl.load(lengths + row)
    along = tl.sum(products, 0) / length
    tl.store(for_g + row, along)
    factor = tl.load(g + row) / length
    for at in range(0, size, BLOCK):
        mask = at + k < size
        value = tl.load(v + row * size + at + k, mask=mask, other=0.0)
        slope = tl.load(gradient + row * size + at + k, mask=mask, other=0.0).to(tl.float32)
        tl.store(for_v + row * size + at + k, factor * (slope - value * (along / length)), mask=mask)


def unit_rows(g: Tensor, v: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Weight norm g v / |v| of each row, in v's memory order, and the lengths."""
    out, lengths = torch.empty_like(v, dtype=dtype), torch.empty_like(g)
    _unit_rows[(len(v),)](v, g, out, lengths, v[0].numel(), BLOCK=1024)
    return out, lengths


def unit_rows_gradient(g: Tensor, v: Tensor, lengths: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of g and v. `gradient` has v's memory layout."""
    for_g, for_v = torch.empty_like(g), torch.empty_like(v)
    _unit_rows_gradient[(len(v),)](v, g, lengths, gradient, for_v, for_g, v[0].numel(), BLOCK=1024)
    return for_g, for_v
