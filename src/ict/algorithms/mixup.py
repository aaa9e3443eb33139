"""Supervised mixup (Zhang et al., 2018), the second row of the paper's tables.

    L = CE(f(Mix(x, x')), Mix(y, y')),  lambda ~ Beta(alpha, alpha) per batch

x' is x's neighbor in the shuffled batch. The unlabeled examples are not used.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ict.base.fields import check_fields, positive
from ict.contract import Batch, Draws, Loss, Needs, Network
from ict.ops import cross_entropy, one_hot


@dataclass(frozen=True, kw_only=True)
class Mixup:
    alpha: float = 1.0  # of lambda ~ Beta(alpha, alpha)

    needs: ClassVar[Needs] = Needs(views=0)

    def __post_init__(self) -> None:
        check_fields(self)
        positive(alpha=self.alpha)

    def loss(self, student: Network, teacher: Network, batch: Batch, w: Tensor, rng: Draws) -> Loss:  # noqa: ARG002
        lam = rng.beta(self.alpha)
        z = student(batch.mixed(lam, batch.x))
        y = one_hot(batch.y, like=z)
        l_s = cross_entropy(z, batch.mixed(lam, y))
        return Loss(l_s, {"supervised": l_s.detach()})
