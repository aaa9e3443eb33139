"""ICT with targets anchored to experts: consistency alone can erase what a network learned from a few labels.

    L = CE(f(Mix(x, x')), Mix(y, y'))  +  w * CE(f(Mix(u_j, u_k)), Mix(t_j, t_k))
    t = softmax((s log p(u) + (1 - s) log f'(u)) / T)

p(u) is the experts' prior, f' the mean teacher, and s the weight of the prior, which follows a schedule. So a target is
the sharpened geometric mean of both. With s = 1 and T = 1 the prior is distilled; with s = 0 this is ICT with
cross-entropy.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ict.base.fields import check_fields, positive
from ict.contract import Batch, Draws, Loss, Needs, Network
from ict.ops import cross_entropy, one_hot, probabilities


@dataclass(frozen=True, kw_only=True)
class AnchoredICT:
    alpha: float = 1.0  # lambda ~ Beta(alpha, alpha), one draw for the labeled and one for the unlabeled batch
    temperature: float = 0.5  # T; below 1 sharpens the targets
    floor: float = 1e-4  # smallest probability of the prior, since experts are overconfident

    needs: ClassVar[Needs] = Needs(teacher=True, prior=True)

    def __post_init__(self) -> None:
        check_fields(self)
        positive(alpha=self.alpha, temperature=self.temperature, floor=self.floor)

    def loss(self, student: Network, teacher: Network, batch: Batch, w: Tensor, rng: Draws) -> Loss:
        (u,) = batch.u
        assert batch.prior is not None and batch.share is not None
        lam_s, lam = rng.beta(self.alpha), rng.beta(self.alpha)
        z_x, z_m = student.each(batch.mixed(lam_s, batch.x), batch.mixed(lam, u))

        anchor = batch.prior.clamp(min=self.floor).log()
        t = probabilities(batch.share * anchor + (1 - batch.share) * teacher(u), self.temperature)

        l_s = cross_entropy(z_x, batch.mixed(lam_s, one_hot(batch.y, like=z_x)))
        l_us = cross_entropy(z_m, batch.mixed(lam, t))
        return Loss(l_s + w * l_us, {"supervised": l_s.detach(), "consistency": l_us.detach()})
