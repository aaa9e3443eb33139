"""The common base of the Pi-model, temporal ensembling and the mean teacher. They differ only in the target of f(u).

    L = CE(f(x), y) + w * mse(f(u), target)

The labeled examples are a batch of their own or part of the unlabeled batch; see `settings.Train`.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor

from ict.base.fields import check_fields
from ict.contract import Batch, Draws, Loss, Network
from ict.ops import cross_entropy, one_hot, probabilities


class Target(NamedTuple):
    """The target of the predictions for the unlabeled batch."""

    probs: Tensor  # [U, C]
    known: Tensor | None = None  # 1 for examples with a target, 0 for others [U]; None: all have one
    memory: Tensor | None = None  # new rows of the memory


class Terms(NamedTuple):
    """The supervised loss, the consistency loss and the target."""

    l_s: Tensor
    l_us: Tensor
    target: Target


@dataclass(frozen=True, kw_only=True)
class Consistency:
    """A subclass defines `student_views`, the views that the student runs on, and `target`."""

    consistency_on: Literal["all", "unlabeled"] = "all"  # all of the unlabeled batch, or those without a known label

    def __post_init__(self) -> None:
        check_fields(self)

    def student_views(self, batch: Batch) -> tuple[Tensor, ...]:
        """The views that the student runs on. The predictions for the first one are compared with the target."""
        return batch.u[:1]

    def target(self, z: tuple[Tensor, ...], teacher: Network, batch: Batch) -> Target:
        """The target, given the student's logits for `student_views`."""
        raise NotImplementedError

    def loss(self, student: Network, teacher: Network, batch: Batch, w: Tensor, rng: Draws) -> Loss:  # noqa: ARG002
        terms = self.terms(student.each(*batch.apart, *self.student_views(batch)), teacher, batch)
        metrics = {"supervised": terms.l_s.detach(), "consistency": terms.l_us.detach()}
        return Loss(terms.l_s + w * terms.l_us, metrics, terms.target.memory)

    def terms(self, logits: tuple[Tensor, ...], teacher: Network, batch: Batch) -> Terms:
        """The losses, from the student's logits for the labeled batch, if there is one, and for `student_views`."""
        z = logits[len(batch.apart) :]
        target = self.target(z, teacher, batch)
        # without a labeled batch, an example without a label has a row of zeros, which adds nothing to the mean
        z_x, y = (logits[0], batch.y) if batch.apart else (z[0], _labels(batch))
        l_s = cross_entropy(z_x, one_hot(y, like=z_x))
        errors = (probabilities(z[0]) - target.probs).square().mean(1)
        if target.known is not None:
            errors = errors * target.known
        if self.consistency_on == "unlabeled":
            errors = errors * (_labels(batch) < 0)
        return Terms(l_s, errors.mean(), target)


def _labels(batch: Batch) -> Tensor:
    assert batch.u_y is not None, "the engine passes the labels of every unlabeled batch"
    return batch.u_y
