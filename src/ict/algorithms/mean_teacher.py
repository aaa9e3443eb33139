"""Mean teacher (Tarvainen & Valpola, 2017): the student should agree with the average of its weights on another view.

L = CE(f(x), y) + w * mse(f(u_1), f'(u_2))
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ict.algorithms.consistency import Consistency, Target
from ict.contract import Batch, Needs, Network
from ict.ops import probabilities


@dataclass(frozen=True, kw_only=True)
class MeanTeacher(Consistency):
    needs: ClassVar[Needs] = Needs(views=2, teacher=True, labels_within=True)

    def target(self, z: tuple[Tensor, ...], teacher: Network, batch: Batch) -> Target:  # noqa: ARG002
        return Target(probabilities(teacher(batch.u[1])))
