"""What the Pi-model, temporal ensembling and the mean teacher share: they differ only in what f(u) is compared with.

    L = CE(f(x), y) + w * mse(f(u), target)

The labels come from a batch of their own or are within the unlabeled one; see `settings.Train`.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor

from ict.base.fields import check_fields
from ict.contract import Batch, Draws, Loss, Network
from ict.ops import cross_entropy, one_hot, probabilities


class Target(NamedTuple):
    """What the predictions of the unlabeled batch are compared with."""

    probs: Tensor  # [U, C]
    known: Tensor | None = None  # 1 for examples that have a target, 0 for others [U]; none: all have one
    memory: Tensor | None = None  # new rows of the memory


class Terms(NamedTuple):
    """The two losses, and what they were made of."""

    l_s: Tensor
    l_us: Tensor
    target: Target


@dataclass(frozen=True, kw_only=True)
class Consistency:
    """A method is defined by `seen`, the views that the student runs on, and `target`."""

    consistency_on: Literal["all", "unlabeled"] = "all"  # all of the unlabeled batch, or those without a known label

    def __post_init__(self) -> None:
        check_fields(self)

    def seen(self, batch: Batch) -> tuple[Tensor, ...]:
        """The views that the student runs on; the first one's predictions are compared."""
        return batch.u[:1]

    def target(self, z: tuple[Tensor, ...], teacher: Network, batch: Batch) -> Target:
        """The target, given the student's logits of the views it has seen."""
        raise NotImplementedError

    def loss(self, student: Network, teacher: Network, batch: Batch, w: Tensor, rng: Draws) -> Loss:  # noqa: ARG002
        terms = self.terms(student.each(*batch.apart, *self.seen(batch)), teacher, batch)
        metrics = {"supervised": terms.l_s.detach(), "consistency": terms.l_us.detach()}
        return Loss(terms.l_s + w * terms.l_us, metrics, terms.target.memory)

    def terms(self, logits: tuple[Tensor, ...], teacher: Network, batch: Batch) -> Terms:
        """The losses, from the student's logits of the labeled batch, where there is one, and of the views seen."""
        z = logits[len(batch.apart) :]
        target = self.target(z, teacher, batch)
        # without a labeled batch: a row of zeros for each example without a label, so it adds nothing to the mean
        z_x, y = (logits[0], batch.y) if batch.apart else (z[0], _labels(batch))
        l_s = cross_entropy(z_x, one_hot(y, like=z_x))
        errors = (probabilities(z[0]) - target.probs).square().mean(1)
        if target.known is not None:
            errors = errors * target.known
        if self.consistency_on == "unlabeled":
            errors = errors * (_labels(batch) < 0)
        return Terms(l_s, errors.mean(), target)


def _labels(batch: Batch) -> Tensor:
    assert batch.u_y is not None, "the engine hands in the labels of every unlabeled batch"
    return batch.u_y
