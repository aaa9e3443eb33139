"""Temporal ensembling (Laine & Aila, 2017): an example's prediction should agree with the mean of its earlier ones.

    L = CE(f(x), y) + w * mse(f(u), Z / (1 - momentum^n)),   then   Z <- momentum Z + (1 - momentum) f(u)

n counts the visits to an example. Predictions sum to 1, so 1 - momentum^n is the sum of Z and needs no counter.
Ours: Z is updated at each visit, not at the end of the epoch; that is the same if an epoch visits each example once.
An example without an earlier prediction adds nothing; the source sets the weight to 0 in the first epoch.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ict.algorithms.consistency import Consistency, Target
from ict.base.errors import UserError
from ict.contract import Batch, Needs, Network
from ict.ops import probabilities


@dataclass(frozen=True, kw_only=True)
class TemporalEnsembling(Consistency):
    momentum: float = 0.6  # weight of the earlier predictions in the new mean

    needs: ClassVar[Needs] = Needs(memory=True, labels_within=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.momentum < 1:
            raise UserError(f"momentum is {self.momentum}: it must be at least 0 and below 1.")

    def target(self, z: tuple[Tensor, ...], teacher: Network, batch: Batch) -> Target:  # noqa: ARG002
        assert batch.memory is not None, "the engine passes a memory to algorithms that need one"
        total = batch.memory.sum(1)
        known = (total > 0).to(total.dtype)
        target = batch.memory / torch.where(total > 0, total, 1.0)[:, None]
        memory = self.momentum * batch.memory + (1 - self.momentum) * probabilities(z[0]).detach()
        return Target(target, known, memory)
