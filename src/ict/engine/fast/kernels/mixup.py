"""Mixes examples with their partners, with one pass over memory forward and one backward."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024


@triton.jit
def _mixed(x, lam, out, size, group, STEP: tl.constexpr, BLOCK: tl.constexpr):
    """lam times each row of x [*, size] plus 1 - lam times the row STEP further on, cyclic within a group of rows."""
    row = tl.program_id(0)
    first = row // group * group
    other = first + (row - first + STEP + group) % group
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = k < size
    share = tl.load(lam).to(tl.float32)
    here = row.to(tl.int64) * size + k
    a = tl.load(x + here, mask=inside).to(tl.float32)
    b = tl.load(x + other.to(tl.int64) * size + k, mask=inside).to(tl.float32)
    tl.store(out + here, (share * a + (1 - share) * b).to(out.dtype.element_ty), mask=inside)


class Mixed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, lam: Tensor, groups: int) -> Tensor:
        ctx.save_for_backward(lam)
        ctx.groups = groups
        return _run(x, lam, groups, -1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (lam,) = ctx.saved_tensors
        return _run(gradient, lam, ctx.groups, 1), None, None  # each example is the partner of the next one


def _run(x: Tensor, lam: Tensor, groups: int, step: int) -> Tensor:
    if not (x.is_contiguous() or (x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last))):
        x = x.contiguous()
    out, size = torch.empty_like(x), x[0].numel()
    _mixed[(len(x), triton.cdiv(size, _BLOCK))](x, lam, out, size, len(x) // groups, STEP=step, BLOCK=_BLOCK)
    return out


def mixed(x: Tensor, lam: Tensor, groups: int) -> Tensor:
    """`Batch.mixed` with `groups` pair groups. There is one lambda for all examples; it gets no gradient."""
    run: Any = Mixed.apply
    out: Tensor = run(x, lam, groups)
    return out
