"""Supervised manifold mixup (Verma et al., 2019): mixup of hidden states, the third row of the paper's tables.

    L = CE(f_k(Mix(g_k(x), g_k(x'))), Mix(y, y')),  k uniform in 0 ... depth,  lambda ~ Beta(alpha, alpha) per batch

g_k is the network up to stage k, f_k the rest; k = 0 is the input.
Ours: cross-entropy with the mixed labels, as in the ICT authors' program, not binary cross-entropy.
"""

from dataclasses import dataclass

from torch import Tensor

from ict.algorithms.hidden_mixing import mix_at_random_depth
from ict.base.fields import at_least_zero, check_fields, positive
from ict.contract import Batch, Draws, Loss, Needs, Network
from ict.ops import cross_entropy, one_hot


@dataclass(frozen=True, kw_only=True)
class ManifoldMixup:
    alpha: float = 1.0  # of lambda ~ Beta(alpha, alpha)
    depth: int = 2  # the deepest stage whose input may be mixed; CNN-13 and WRN of the paper: 3

    def __post_init__(self) -> None:
        check_fields(self)
        positive(alpha=self.alpha)
        at_least_zero(depth=self.depth)

    @property
    def needs(self) -> Needs:
        return Needs(views=0, stages=self.depth + 1)

    def loss(self, student: Network, teacher: Network, batch: Batch, w: Tensor, rng: Draws) -> Loss:  # noqa: ARG002
        lam = rng.beta(self.alpha)
        z = student(batch.x, tap=mix_at_random_depth(lam, self.depth, batch, rng))
        y = one_hot(batch.y, like=z)
        l_s = cross_entropy(z, batch.mixed(lam, y))
        return Loss(l_s, {"supervised": l_s.detach()})
