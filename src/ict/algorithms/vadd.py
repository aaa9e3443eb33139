"""Virtual adversarial dropout (Park et al., 2018), on the features before the last layer.

    L = CE(f(x), y) + w * D(f(u_1), head(m * h(u_2))) + entropy * H(f(u_1))

u_1, u_2 are two views, h the features of the second. The mask m starts at 1 and drops the units whose removal increases
D most, to first order by the gradient of D: at most a fraction `flips` of them. Then it is scaled to keep its sum.
D is KL or, in the "QE" variant, the mean squared error. The gradient flows through both of its sides.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ict.base.fields import at_least_zero, check_fields, positive, share
from ict.contract import Batch, Draws, Loss, Needs, Network
from ict.ops import cross_entropy, entropy, kl_of_logits, mse, one_hot, probabilities


@dataclass(frozen=True, kw_only=True)
class VAdD:
    distance: Literal["kl", "mse"] = "kl"  # D; "mse" is the QE variant
    flips: float = 0.05  # fraction of the features that may be dropped
    entropy: float = 1.0  # weight of the entropy of the predictions, as in the source's program; w does not scale it

    needs: ClassVar[Needs] = Needs(views=2, stages=2)

    def __post_init__(self) -> None:
        check_fields(self)
        positive(flips=self.flips)
        share(flips=self.flips)
        at_least_zero(entropy=self.entropy)

    def loss(self, student: Network, teacher: Network, batch: Batch, w: Tensor, rng: Draws) -> Loss:  # noqa: ARG002
        h_x, h_1, h_2 = student.features(batch.x, *batch.u)
        z_x, z_1 = student.head(h_x), student.head(h_1)
        z_2 = student.head(h_2 * self.mask(student, h_2.detach(), z_1.detach()))

        l_s = cross_entropy(z_x, one_hot(batch.y, like=z_x))
        l_us = self._distance(z_1, z_2)
        h = entropy(probabilities(z_1))
        metrics = {"supervised": l_s.detach(), "consistency": l_us.detach(), "entropy": h.detach()}
        return Loss(l_s + w * l_us + self.entropy * h, metrics)

    def mask(self, student: Network, h: Tensor, z: Tensor) -> Tensor:
        """The adversarial mask [U, F] of features h [U, F] against logits z."""
        h = h.requires_grad_()
        (gradient,) = torch.autograd.grad(self._distance(z, student.head(h)), h)
        gain = -(h * gradient).detach()  # to first order, the increase of the distance when a unit is dropped
        most = max(int(self.flips * h.shape[1]), 1)
        best, units = gain.topk(most, dim=1)
        mask = torch.ones_like(gain).scatter(1, units, (best <= 0).to(gain.dtype))
        return mask * (h.shape[1] / mask.sum(1, keepdim=True))

    def _distance(self, z: Tensor, other: Tensor) -> Tensor:
        return kl_of_logits(z, other) if self.distance == "kl" else mse(probabilities(z), probabilities(other))
