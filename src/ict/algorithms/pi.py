"""The Pi-model (Laine & Aila, 2017): predictions for two views of an example, with noise and dropout, should agree.

    L = CE(f(x), y) + w * mse(f(u_1), f(u_2))

The gradient flows through both sides. If the labels are within the unlabeled batch, the cross-entropy uses the first
view.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ict.algorithms.consistency import Consistency, Target
from ict.contract import Batch, Needs, Network
from ict.ops import probabilities


@dataclass(frozen=True, kw_only=True)
class Pi(Consistency):
    needs: ClassVar[Needs] = Needs(views=2, labels_within=True)

    def student_views(self, batch: Batch) -> tuple[Tensor, ...]:
        return batch.u

    def target(self, z: tuple[Tensor, ...], teacher: Network, batch: Batch) -> Target:  # noqa: ARG002
        return Target(probabilities(z[1]))
