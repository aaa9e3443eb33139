"""Randomness as a function of (seed, use, step): no generator state is carried from step to step.

Every use has its own tag, so no two uses share a key, and a checkpoint needs no generator state.
"""

from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

_MASK = 2**64 - 1


class Use(IntEnum):
    """What a key is for: the first thing folded into the seed."""

    INIT = 1  # network weights
    DATA = 2  # synthetic data, held-out test rows
    SPLIT = 3  # labeled, validation and unlabeled rows
    ROWS = 4  # the order of examples in an epoch
    DRAWS = 5  # explicit draws: lambda, crops, flips, noise
    DROPOUT = 6  # implicit draws from torch's default generator
    REPEATED = 7  # crops and flips of labeled batches that repeat within an epoch
    VALID = 8  # crops and flips of validation images
    SWA = 9  # the batches that set the batch-norm statistics of averaged weights
    EXPERTS = 10  # their trees, and the folds of labeled examples that weigh them


def fold(seed: int, *data: int) -> int:
    """Hash a seed and any integers to a 63-bit key (splitmix64, one round per integer)."""
    key = 0
    for value in (seed, *data):
        key = (key + value + 0x9E3779B97F4A7C15) & _MASK  # the constant keeps zeros from mapping to zero
        key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) & _MASK
        key ^= key >> 31
    return key >> 1


def default_generator(device: torch.device) -> torch.Generator:
    """Torch's default generator of a device, which dropout draws from.

    Seeding it directly is cheaper than `torch.manual_seed`, which queues a CUDA call with a stack trace each time.
    """
    if device.type == "cuda":
        torch.cuda.init()
        return torch.cuda.default_generators[device.index or 0]
    return torch.default_generator


@dataclass(frozen=True)
class Share:
    """One rank's part of a batch: part `index` of `count` equal parts."""

    index: int = 0
    count: int = 1

    def of(self, batch: Tensor) -> Tensor:
        return batch if self.count == 1 else batch.chunk(self.count)[self.index]


_WHOLE = Share()


class Rng:
    """Explicit draws on a device, from a generator that is reseeded at every step.

    Draws per example are made for the whole batch and a rank keeps those of its share, so that an example gets the
    same draw however many ranks there are.
    """

    def __init__(self, device: torch.device, key: int = 0, share: Share = _WHOLE) -> None:
        self.device, self.share = device, share
        self.generator = torch.Generator(device).manual_seed(key)

    def reseed(self, key: int) -> None:
        self.generator.manual_seed(key)

    def beta(self, alpha: float) -> Tensor:
        """One draw of Beta(alpha, alpha), 0-d.

        It is G1 / (G1 + G2) with G ~ Gamma(alpha), computed from logarithms: at a small alpha the gammas themselves
        underflow to 0 / 0. Gamma(alpha) = Gamma(alpha + 1) U^(1 / alpha).
        """
        shape = torch.full((2,), alpha + 1, dtype=torch.float64, device=self.device)
        gammas = torch._standard_gamma(shape, generator=self.generator)
        uniforms = torch.rand((2,), generator=self.generator, dtype=torch.float64, device=self.device)
        log_1, log_2 = gammas.log() + uniforms.log() / alpha
        return torch.sigmoid(log_1 - log_2).to(torch.get_default_dtype())

    def integer(self, high: int) -> Tensor:
        """One integer in [0, high), 0-d."""
        return torch.randint(high, (1,), generator=self.generator, device=self.device)[0]

    def integers(self, high: int, n: int) -> Tensor:
        """n integers in [0, high), one per example of the batch."""
        size = (n * self.share.count,)
        return self.share.of(torch.randint(high, size, generator=self.generator, device=self.device))

    def uniform(self, n: int) -> Tensor:
        """n numbers in [0, 1), one per example of the batch."""
        return self.share.of(torch.rand((n * self.share.count,), generator=self.generator, device=self.device))

    def normal_like(self, x: Tensor) -> Tensor:
        """Standard normal noise in the shape of a batch."""
        size = (len(x) * self.share.count, *x.shape[1:])
        return self.share.of(torch.randn(size, generator=self.generator, device=self.device, dtype=x.dtype))
