"""Batch norm over the whole batch of several ranks; torch's layers would use one rank's part only.

With it K ranks compute the same as one. torch's SyncBatchNorm needs a GPU and has no mean-only norm.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ict.engine.distributed import Ranks
from ict.engine.forward import standing_in
from ict.networks.batch_norm import InParts, MeanOnlyBatchNorm


@contextmanager
def shared_norms(ranks: Ranks, networks: Iterable[nn.Module]) -> Iterator[None]:
    """Inside, the batch norms of these networks normalize over all ranks' parts of a batch."""
    norms = [m for network in networks for m in network.modules() if isinstance(m, _BatchNorm)]
    with standing_in({norm: _Shared(norm, ranks) for norm in norms}):
        yield


class _Shared:
    """The forward of a batch norm. Parts of a joined batch are normalized separately, as in `networks.batch_norm`."""

    def __init__(self, norm: _BatchNorm, ranks: Ranks) -> None:
        self.norm, self.ranks = norm, ranks

    def __call__(self, x: Tensor) -> Tensor:
        if not self.norm.training:
            out: Tensor = type(self.norm).forward(self.norm, x)
            return out
        return self.norm.by_parts(self._normalised, x) if isinstance(self.norm, InParts) else self._normalised(x)

    def _normalised(self, x: Tensor) -> Tensor:
        norm = self.norm
        if isinstance(norm, MeanOnlyBatchNorm):
            average: Any = _Average.apply
            mean = average(x.mean(_others(x), dtype=norm.running_mean.dtype), self.ranks)
            self._track(mean.detach(), None)
            return x - _per_channel(mean - norm.bias, x).to(x.dtype)
        normalise: Any = _Normalise.apply
        weight = norm.weight if norm.affine else x.new_ones(x.shape[1])
        out, mean, variance = normalise(x, weight, norm.bias, norm.eps, self.ranks)
        n = self.ranks.size * x.numel() // x.shape[1]
        self._track(mean, variance * n / max(n - 1, 1))
        return out  # type: ignore[no-any-return]

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor | None) -> None:
        norm = self.norm
        if not norm.track_running_stats or norm.num_batches_tracked is None or norm.running_mean is None:
            return
        norm.num_batches_tracked.add_(1)
        # momentum None: the mean of all batches since the last reset
        weight = 1 / norm.num_batches_tracked.to(mean.dtype) if norm.momentum is None else norm.momentum
        norm.running_mean.lerp_(mean, weight)
        if norm.running_var is not None and variance is not None:
            norm.running_var.lerp_(variance, weight)


class _Average(torch.autograd.Function):
    """The mean over the ranks. Its gradient is that of the sum of all ranks' losses."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks, out = ranks, x.clone()
        ranks.average_([out])
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        gradient = gradient.clone()
        ctx.ranks.average_([gradient])
        return gradient, None

    @staticmethod
    def jvp(ctx: Any, d: Tensor, _: None) -> Tensor:
        d = d.clone()
        ctx.ranks.average_([d])
        return d


class _Normalise(torch.autograd.Function):
    """Batch norm with the moments of all ranks, which are returned too. The work is torch's eval-mode batch norm."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float, ranks: Ranks
    ) -> tuple[Tensor, Tensor, Tensor]:
        local = torch.stack(torch.var_mean(x, _others(x), correction=0))
        variances, means = ranks.gathered(local[None]).unbind(1)
        mean = means.mean(0)
        variance = (variances + (means - mean).square()).mean(0)  # the mean of squares would lose precision
        ctx.save_for_backward(x, weight, mean, variance)
        ctx.save_for_forward(x, weight, mean, variance)
        ctx.eps, ctx.ranks = eps, ranks
        ctx.mark_non_differentiable(mean, variance)
        return F.batch_norm(x, mean, variance, weight, bias, training=False, eps=eps), mean, variance

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        for_x, for_weight, for_bias = _through(ctx, gradient)
        wanted = ctx.needs_input_grad
        return for_x, for_weight if wanted[1] else None, for_bias if wanted[2] else None, None, None

    @staticmethod
    def jvp(ctx: Any, d: Tensor, *_: None) -> tuple[Tensor, None, None]:
        """The derivative along x. Batch norm maps a change of its input as it maps a gradient in the backward pass."""
        return _through(ctx, d)[0], None, None


def _through(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, weight and bias. That of x is the gradient with fixed moments, minus the part through the
    moments: scale (g - mean(g) - y mean(g y)), with y the normalized input and means over all ranks."""
    x, weight, mean, variance = ctx.saved_tensors
    fixed = torch.ops.aten.native_batch_norm_backward
    given = (mean, variance, None, None, False, ctx.eps, [True, True, True])
    for_x, for_weight, for_bias = fixed(gradient, x, weight, *given)
    means = torch.stack([for_bias, for_weight]) * (x.shape[1] / x.numel())
    ctx.ranks.average_([means])
    mean_g, mean_gy = means
    inverse = (variance + ctx.eps).rsqrt()
    slope = weight * inverse.square() * mean_gy
    offset = weight * inverse * mean_g - slope * mean
    return for_x - torch.addcmul(_per_channel(offset, x), x, _per_channel(slope, x)), for_weight, for_bias


def _others(x: Tensor) -> list[int]:
    """All dimensions except channels."""
    return [d for d in range(x.dim()) if d != 1]


def _per_channel(values: Tensor, x: Tensor) -> Tensor:
    return values.view(-1, *(1 for _ in x.shape[2:]))
