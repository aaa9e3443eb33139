"""Mean-only batch normalization (Salimans & Kingma 2016), the companion of weight norm in Laine & Aila's network."""

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ict.networks.parts import InParts


class _MeanOnly(_BatchNorm):
    """Takes the mean of each channel away and adds a learned bias; deviations stay as they are. [B, C, ...].

    A kind of torch's batch norm, so that whatever freezes, averages or makes anew the statistics of batch norm, such
    as `update_bn`, does it here too.
    """

    running_mean: Tensor
    num_batches_tracked: Tensor

    def __init__(self, n: int, momentum: float | None = 0.1) -> None:
        super().__init__(n, momentum=momentum, affine=False)
        self.bias = nn.Parameter(torch.zeros(n))
        self.running_var = None

    def reset_running_stats(self) -> None:
        self.running_mean.zero_()
        self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        self.reset_running_stats()
        if self.bias is not None:  # not there yet while the base class is being made
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        mean = self.running_mean
        if self.training:
            mean = x.mean([d for d in range(x.dim()) if d != 1], dtype=self.running_mean.dtype)
            if self.track_running_stats:
                self._track(mean.detach())
        shift = mean - self.bias  # one pass over x instead of two
        return x - shift.to(x.dtype).reshape(-1, *(1 for _ in x.shape[2:]))

    def _track(self, mean: Tensor) -> None:
        self.num_batches_tracked.add_(1)
        # momentum none: the plain mean of all batches since the last reset
        weight = 1 / self.num_batches_tracked.to(mean.dtype) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, weight)


class MeanOnlyBatchNorm(InParts, _MeanOnly):
    pass
