"""Mixing in the network at a random depth, as manifold mixup does it: without a branch on what was drawn."""

import torch

from ict.contract import Batch, Draws, Tap


def mix_at_random_depth(lam: torch.Tensor, depth: int, batch: Batch, rng: Draws) -> Tap:
    """A tap that mixes each example with its partner at one stage of 0 ... depth; at the others lambda is 1."""
    drawn = rng.integer(depth + 1)
    stages = torch.arange(depth + 1, device=drawn.device)
    lams = torch.where(drawn == stages, lam, 1.0)

    def tap(stage: int, h: torch.Tensor) -> torch.Tensor:
        return h if stage > depth else batch.mixed(lams[stage], h)

    return tap
