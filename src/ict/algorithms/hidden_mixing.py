"""Mixing hidden states at a random depth, as in manifold mixup, without a branch on the drawn depth."""

import torch

from ict.contract import Batch, Draws, Tap


def mix_at_random_depth(lam: torch.Tensor, depth: int, batch: Batch, rng: Draws) -> Tap:
    """A tap that mixes each example with its partner at one random stage of 0 ... depth. Elsewhere lambda is 1."""
    drawn = rng.integer(depth + 1)
    stages = torch.arange(depth + 1, device=drawn.device)
    lams = torch.where(drawn == stages, lam, 1.0)

    def tap(stage: int, h: torch.Tensor) -> torch.Tensor:
        return h if stage > depth else batch.mixed(lams[stage], h)

    return tap
