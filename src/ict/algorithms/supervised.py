"""Plain supervised training, the baseline of every table.

    L = CE(f(x), y)

The unlabeled examples are not used.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ict.contract import Batch, Draws, Loss, Needs, Network
from ict.ops import cross_entropy, one_hot


@dataclass(frozen=True, kw_only=True)
class Supervised:
    needs: ClassVar[Needs] = Needs(views=0)

    def loss(self, student: Network, teacher: Network, batch: Batch, w: Tensor, rng: Draws) -> Loss:  # noqa: ARG002
        z = student(batch.x)
        l_s = cross_entropy(z, one_hot(batch.y, like=z))
        return Loss(l_s, {"supervised": l_s.detach()})
