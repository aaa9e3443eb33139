"""Mixing in the network at a random depth, as manifold mixup does it: without a branch on what was drawn."""

import torch

from ict.contract import Batch, Draws, Tap
from ict.ops import mix


def mix_at_random_depth(lam: torch.Tensor, depth: int, batch: Batch, rng: Draws) -> Tap:
    """A tap that mixes each example with its partner at one stage of 0 ... depth; at the others lambda is 1."""
    drawn = rng.integer(depth + 1)

    def tap(stage: int, h: torch.Tensor) -> torch.Tensor:
        if stage > depth:
            return h
        return mix(torch.where(drawn == stage, lam, 1.0), h, batch.partner(h))

    return tap
