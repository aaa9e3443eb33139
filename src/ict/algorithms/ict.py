"""Interpolation Consistency Training (Verma et al., 2019), Algorithm 1.

    L = CE(f(Mix(x, x')), Mix(y, y'))  +  w(t) * mse(f(Mix(u_j, u_k)), Mix(f'(u_j), f'(u_k)))

f' is the mean teacher, or the student itself if the recipe has no average (the paper's first ablation).
The other fields are choices in which the paper and the authors' program differ, or that the paper leaves open
("any loss"). docs/deviations.md explains both, and the defaults.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ict.algorithms.hidden_mixing import mix_at_random_depth
from ict.base.errors import UserError
from ict.base.fields import at_least_zero, check_fields, positive
from ict.contract import Batch, Draws, Loss, Needs, Network
from ict.ops import cross_entropy, kl, mix, mse, one_hot, probabilities


@dataclass(frozen=True, kw_only=True)
class ICT:
    alpha: float = 1.0  # lambda ~ Beta(alpha, alpha), one draw for the labeled and one for the unlabeled batch
    alpha_labeled: float | None = None  # another alpha for the labeled batch; none: the same
    mix_labeled: bool = True  # False: plain cross-entropy, the paper's second ablation
    targets: Literal["probs", "logits"] = "probs"  # the teacher's output that is interpolated; the program: logits
    pairs: Literal["within", "halves"] = "within"  # u_k: u_j's neighbor in the batch, or the batch's other half
    consistency: Literal["mse", "ce", "kl"] = "mse"  # the paper: "any loss"
    temperature: float = 1.0  # below 1 sharpens the teacher's predictions
    depth: int = 0  # mix at a random stage up to this one, the paper's "future work"; 0: mix only the inputs
    logging_forwards: bool = False  # repeat the program's forwards for logging, which update BN's running statistics

    def __post_init__(self) -> None:
        check_fields(self)
        positive(alpha=self.alpha, alpha_labeled=self._alpha_labeled, temperature=self.temperature)
        at_least_zero(depth=self.depth)
        if self.depth and self.pairs == "halves":
            raise UserError(f"depth is {self.depth}: hidden states are mixed within a batch, so set pairs=within.")

    @property
    def needs(self) -> Needs:
        return Needs(teacher=True, stages=self.depth + 1 if self.depth else 0, halves=self.pairs == "halves")

    def loss(self, student: Network, teacher: Network, batch: Batch, w: Tensor, rng: Draws) -> Loss:
        x, (u,) = batch.x, batch.u
        lam_s = rng.beta(self._alpha_labeled) if self.mix_labeled else None
        lam = rng.beta(self.alpha)
        u_j, u_k = (u, batch.partner(u)) if self.pairs == "within" else batch.halves(u)
        if self.depth:
            z_x = student(x, None if lam_s is None else mix_at_random_depth(lam_s, self.depth, batch, rng))
            self._log(student, x, u)
            z_m = student(u, mix_at_random_depth(lam, self.depth, batch, rng))
        else:
            x_m = x if lam_s is None else mix(lam_s, x, batch.partner(x))
            u_m = mix(lam, u_j, u_k)
            if self.logging_forwards:
                z_x = student(x_m)
                self._log(student, x, u)
                z_m = student(u_m)
            else:
                z_x, z_m = student.each(x_m, u_m)
        if self.pairs == "within":
            z_j = teacher(u)
            z_k = batch.partner(z_j)
        else:
            z_j, z_k = teacher.each(u_j, u_k)
        self._log(teacher, x)
        y_m = self._fake_labels(lam, z_j, z_k)

        y = one_hot(batch.y, like=z_x)
        if lam_s is not None:
            y = mix(lam_s, y, batch.partner(y))
        l_s = cross_entropy(z_x, y)
        l_us = self._consistency(z_m, y_m)
        return Loss(l_s + w * l_us, {"supervised": l_s.detach(), "consistency": l_us.detach()})

    def _log(self, network: Network, *parts: Tensor) -> None:
        """The program's forwards for logging, in its order, since the later one weighs more in a running statistic."""
        if self.logging_forwards:
            with torch.no_grad():
                network.each(*parts)

    @property
    def _alpha_labeled(self) -> float:
        return self.alpha if self.alpha_labeled is None else self.alpha_labeled

    def _fake_labels(self, lam: Tensor, z_j: Tensor, z_k: Tensor) -> Tensor:
        if self.targets == "logits":
            return probabilities(mix(lam, z_j, z_k), self.temperature)
        return mix(lam, probabilities(z_j, self.temperature), probabilities(z_k, self.temperature))

    def _consistency(self, z_m: Tensor, y_m: Tensor) -> Tensor:
        if self.consistency == "ce":
            return cross_entropy(z_m, y_m)
        if self.consistency == "kl":
            return kl(y_m, z_m)
        return mse(probabilities(z_m), y_m)
