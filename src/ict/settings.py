"""The sections of a recipe other than its named parts, as plain data: nothing here imports torch."""

from dataclasses import dataclass
from typing import Literal

from ict.errors import UserError
from ict.fields import check_fields, positive


class Section:
    """Checks the types of its fields as it is made."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Split(Section):
    """Which training examples are labeled, held out and unlabeled; counts are over all classes."""

    labeled: int | None = None  # none: the rows that the data itself marks as labeled
    valid: int = 0
    unlabeled: Literal["rest", "disjoint", "all"] = "rest"  # all but validation / nor labeled / everything


@dataclass(frozen=True, kw_only=True)
class Inputs(Section):
    """From stored examples to the network's input: random shift and flip, then scaling, then ZCA."""

    pad: int = 0
    reflect: bool = False  # pad by reflection instead of zeros
    flip: bool = False
    scale: Literal["none", "channels", "half"] = "channels"
    zca: Literal["none", "authors", "ridge"] = "none"
    zca_epsilon: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pad < 0:
            raise UserError(f"inputs.pad is {self.pad}: it must be 0 or more.")


@dataclass(frozen=True, kw_only=True)
class Optimizer(Section):
    """SGD with momentum, or Adam with (momentum, beta2) as its betas."""

    name: Literal["sgd", "adam"] = "sgd"
    lr: float = 0.1
    momentum: float = 0.9
    nesterov: bool = True
    beta2: float = 0.999
    weight_decay: float = 1e-4
    cosine: float | None = 1.125  # the cosine ends at this multiple of the run; none: a constant rate

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(**{"optimizer.lr": self.lr})
        if self.cosine is not None and self.cosine < 1:
            raise UserError(f"optimizer.cosine is {self.cosine}: it must be at least 1, or none.")
        for name in ("momentum", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"optimizer.{name} is {getattr(self, name)}: it must be at least 0 and below 1.")
        if self.weight_decay < 0:
            raise UserError(f"optimizer.weight_decay is {self.weight_decay}: it must be 0 or more.")
        if self.name == "sgd" and self.nesterov and self.momentum == 0:
            raise UserError("optimizer.momentum is 0: Nesterov needs momentum, so set optimizer.nesterov=false first.")


@dataclass(frozen=True, kw_only=True)
class Average(Section):
    """The mean teacher."""

    decay: float | None = 0.999  # none: no average, the student is its own teacher
    warmup: bool = True  # min(1 - 1/(k+1), decay) at update k
    when: Literal["after", "before"] = "after"  # the optimizer's step; Algorithm 1 of the paper says before
    batchnorm: Literal["own", "averaged"] = "own"  # train mode with its own statistics, or eval mode with averages

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decay is not None and not 0 <= self.decay < 1:
            raise UserError(f"average.decay is {self.decay}: it must be at least 0 and below 1, or none.")


@dataclass(frozen=True, kw_only=True)
class Train(Section):
    """How long, on how much at a time, and how strong the consistency loss is."""

    steps: int = 1000
    labeled_batch: int = 100
    unlabeled_batch: int = 100
    labeled_order: Literal["reshuffled", "repeated"] = "reshuffled"  # repeated: the same batches all epoch long
    pair_groups: int = 1  # pairs are formed inside this many equal parts of a batch
    weight: float = 100.0  # w_max
    rampup: float = 0.25  # share of the run over which w rises to its maximum
    rampup_from_zero: bool = False  # start at 0 instead of e^-5 of the maximum

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("steps", "labeled_batch", "unlabeled_batch", "pair_groups"):
            positive(**{f"train.{name}": getattr(self, name)})
        for name in ("labeled_batch", "unlabeled_batch"):
            if getattr(self, name) % self.pair_groups:
                raise UserError(
                    f"train.pair_groups is {self.pair_groups}: it must divide train.{name} = {getattr(self, name)}."
                )


@dataclass(frozen=True, kw_only=True)
class Eval(Section):
    """When to look, and at how much."""

    every: int = 500  # updates between evaluations on the validation set
    log_every: int = 50  # updates between lines of metrics
    batch: int = 500
    augmented_valid: bool = False  # shift and flip the validation images too, as the authors' program does
    test_limit: int | None = None  # read only this many test examples; the result is marked partial

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(**{"eval.every": self.every, "eval.log_every": self.log_every, "eval.batch": self.batch})
        if self.test_limit is not None:
            positive(**{"eval.test_limit": self.test_limit})
