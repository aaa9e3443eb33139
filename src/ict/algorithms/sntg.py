"""Smooth neighbors on teacher graphs (Luo et al., 2018), on top of the Pi-model, temporal ensembling or mean teacher.

    L = L_base + w * strength * mean over pairs of (d^2 if y_a = y_b else max(0, margin - d)^2)

d^2 is the mean over features of (h_a - h_b)^2, with h the input of the last layer. A pair is one example of the batch's
first half and one of its second. y is the label if it is known, else the most probable class of the base's target.
Ours: a pair with an example that has no target yet adds nothing.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from ict.algorithms.consistency import Target
from ict.algorithms.mean_teacher import MeanTeacher
from ict.algorithms.pi import Pi
from ict.algorithms.temporal_ensembling import TemporalEnsembling
from ict.base.fields import at_least_zero, check_fields, positive
from ict.contract import Batch, Draws, Loss, Needs, Network


@dataclass(frozen=True, kw_only=True)
class SNTG:
    base: Literal["pi", "temporal-ensembling", "mean-teacher"] = "pi"  # the method whose loss it adds to
    strength: float = 0.4  # the source's k
    margin: float = 1.0  # distance up to which examples of different classes repel each other
    momentum: float = 0.6  # of temporal ensembling
    consistency_on: Literal["all", "unlabeled"] = "all"  # of the base

    def __post_init__(self) -> None:
        check_fields(self)
        positive(margin=self.margin)
        at_least_zero(strength=self.strength)
        _ = self._base  # checks the fields of the base

    @property
    def needs(self) -> Needs:
        return replace(self._base.needs, stages=2, halves=True)

    def loss(self, student: Network, teacher: Network, batch: Batch, w: Tensor, rng: Draws) -> Loss:  # noqa: ARG002
        base = self._base
        h = student.features(*batch.apart, *base.student_views(batch))
        terms = base.terms(tuple(student.head(part) for part in h), teacher, batch)
        l_g = self._graph(h[len(batch.apart)], terms.target, batch)
        metrics = {"supervised": terms.l_s, "consistency": terms.l_us, "graph": l_g}
        total = terms.l_s + w * (terms.l_us + self.strength * l_g)
        return Loss(total, {name: value.detach() for name, value in metrics.items()}, terms.target.memory)

    def _graph(self, h: Tensor, target: Target, batch: Batch) -> Tensor:
        h_a, h_b = batch.halves(h)
        y_a, y_b = batch.halves(_classes(target, batch))
        d2 = (h_a - h_b).square().mean(1)
        d = (d2 + 1e-12).sqrt()  # the root alone has no gradient at 0
        pairs = torch.where(y_a == y_b, d2, (self.margin - d).clamp_min(0).square())
        return (pairs * ((y_a >= 0) & (y_b >= 0))).mean()

    @property
    def _base(self) -> Pi | TemporalEnsembling | MeanTeacher:
        if self.base == "pi":
            return Pi(consistency_on=self.consistency_on)
        if self.base == "mean-teacher":
            return MeanTeacher(consistency_on=self.consistency_on)
        return TemporalEnsembling(momentum=self.momentum, consistency_on=self.consistency_on)


def _classes(target: Target, batch: Batch) -> Tensor:
    """The label if it is known, else the target's class, else -1."""
    guess = target.probs.argmax(1)
    if target.known is not None:
        guess = torch.where(target.known > 0, guess, -1)
    return guess if batch.u_y is None else torch.where(batch.u_y >= 0, batch.u_y, guess)
