"""Batch norm over the whole batch where several ranks share it: torch's own would know one rank's part alone.

With it K ranks compute what one computes. torch's SyncBatchNorm works on GPUs only and knows no mean-only norm.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ict.engine.dist import Ranks
from ict.networks.mean_only import MeanOnlyBatchNorm


@contextmanager
def shared_norms(ranks: Ranks, networks: Iterable[nn.Module]) -> Iterator[None]:
    """Inside, the batch norms of these networks normalise by all ranks' parts of a batch."""
    norms = [m for network in networks for m in network.modules() if isinstance(m, _BatchNorm)]
    for norm in norms:
        vars(norm)["forward"] = _Shared(norm, ranks)  # hides the class's own `forward`
    try:
        yield
    finally:
        for norm in norms:
            del vars(norm)["forward"]


class _Shared:
    """The forward of a batch norm. Parts of a joined batch are normalised one by one, as `networks.parts` does."""

    def __init__(self, norm: _BatchNorm, ranks: Ranks) -> None:
        self.norm, self.ranks = norm, ranks

    def __call__(self, x: Tensor) -> Tensor:
        if not self.norm.training:
            out: Tensor = type(self.norm).forward(self.norm, x)
            return out
        parts = getattr(self.norm, "parts", ())
        return torch.cat([self._normalised(part) for part in x.split(parts)]) if parts else self._normalised(x)

    def _normalised(self, x: Tensor) -> Tensor:
        norm, dims = self.norm, [d for d in range(x.dim()) if d != 1]
        values = x if x.dtype == torch.float64 else x.float()
        per_channel = (-1, *(1 for _ in x.shape[2:]))
        # both moments of every rank in one message; means of squares would lose digits where the mean is large
        local = torch.stack([values.mean(dims), values.var(dims, correction=0)])
        means, variances = self.ranks.stacked(local).unbind(1)
        mean = means.mean(0)
        variance = (variances + (means - mean).square()).mean(0)
        if norm.track_running_stats:
            n = self.ranks.size * x.numel() // x.shape[1]
            self._track(mean.detach(), variance.detach() * n / max(n - 1, 1))
        centered = values - mean.view(per_channel)
        if isinstance(norm, MeanOnlyBatchNorm):
            return (centered + norm.bias.view(per_channel)).to(x.dtype)
        scale = (variance + norm.eps).rsqrt()
        if norm.affine:
            return (centered * (scale * norm.weight).view(per_channel) + norm.bias.view(per_channel)).to(x.dtype)
        return (centered * scale.view(per_channel)).to(x.dtype)

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor) -> None:
        norm = self.norm
        if norm.num_batches_tracked is None or norm.running_mean is None:
            return
        norm.num_batches_tracked.add_(1)
        # momentum none: the plain mean of all batches since the last reset
        weight = 1 / norm.num_batches_tracked.to(mean.dtype) if norm.momentum is None else norm.momentum
        norm.running_mean.lerp_(mean, weight)
        if norm.running_var is not None:
            norm.running_var.lerp_(variance, weight)
