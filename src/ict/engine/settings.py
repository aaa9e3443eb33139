"""The sections of a recipe other than its named components, as plain data. Imports no torch."""

from dataclasses import dataclass
from typing import Literal

from ict.base.errors import UserError
from ict.base.fields import Later, at_least_zero, at_most, check_fields, positive, share


class Section:
    """Checks the types of its fields on creation."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Split(Section):
    """The labeled, validation and unlabeled parts of the training examples. Counts are over all classes."""

    labeled: int | None = None  # none: the rows that have a label in the data
    valid: int = 0
    unlabeled: Literal["rest", "disjoint", "all"] = "rest"  # all but validation / nor labeled / everything


@dataclass(frozen=True, kw_only=True)
class Inputs(Section):
    """From stored examples to the network's input: random shift and flip, scaling, ZCA, noise."""

    pad: int = 0
    reflect: bool = False  # pad by reflection instead of zeros
    flip: bool = False
    shared_flip: bool = False  # flip all views of an example or none
    augment: Literal["pixels", "inputs"] = "pixels"  # shift and flip before scaling and ZCA, or after them
    scale: Literal["none", "centered", "half", "channels", "image", "gcn"] = "channels"
    zca: Literal["none", "authors", "ridge"] = "none"
    zca_epsilon: float = 1e-6
    noise: float = 0.0  # standard deviation of Gaussian noise, added to inputs when they are augmented

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_zero(**{"inputs.pad": self.pad, "inputs.noise": self.noise})
        at_most(10_000, **{"inputs.pad": self.pad})


@dataclass(frozen=True, kw_only=True)
class Optimizer(Section):
    """SGD with momentum, Adam with (momentum, beta2) as its betas, or Muon for convolutions and SGD for all else.

    AdamW is Adam with decoupled weight decay.
    """

    name: Literal["sgd", "adam", "adamw", "muon"] = "sgd"
    lr: float = 0.1
    turn: Later[float] = 0.01  # muon: length of a convolution's step, relative to its norm
    momentum: float = 0.9
    final_momentum: float | None = None  # momentum after the rate's `rampdown`; none: no change
    nesterov: bool = True
    beta2: float = 0.999
    weight_decay: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(**{"optimizer.lr": self.lr, "optimizer.turn": self.turn})
        for name in ("momentum", "final_momentum", "beta2"):
            if (value := getattr(self, name)) is not None and not 0 <= value < 1:
                raise UserError(f"optimizer.{name} is {value}: it must be at least 0 and below 1.")
        at_least_zero(**{"optimizer.weight_decay": self.weight_decay})
        if self.name not in ("adam", "adamw") and self.nesterov and self.momentum == 0:
            raise UserError("optimizer.momentum is 0: Nesterov needs momentum, so set optimizer.nesterov=false first.")


@dataclass(frozen=True, kw_only=True)
class Rate(Section):
    """The learning rate over the run, as a factor of optimizer.lr. Lengths are fractions of the run."""

    shape: Literal["cosine", "cyclic", "gaussian", "linear", "step", "constant"] = "cosine"
    stretch: float = 1.125  # cosine, cyclic: the cosine would end at this multiple of the run
    cycle_from: float = 0.15  # cyclic: from here on the last `cycle` of the cosine repeats
    cycle: float = 0.025
    rampup: float = 0.0  # length of a sigmoid ramp-up at the start
    rampdown: float = 0.2  # gaussian, linear: length of the ramp-down at the end; step: multiplied by `drop` there
    drop: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(**{"rate.stretch": self.stretch, "rate.cycle": self.cycle, "rate.drop": self.drop})
        for name in ("cycle_from", "cycle", "rampup", "rampdown"):
            share(**{f"rate.{name}": getattr(self, name)})
        if self.shape == "cosine" and self.stretch < 1:
            raise UserError(f"rate.stretch is {self.stretch}: it must be at least 1, where the run ends.")
        if self.shape == "cyclic" and self.cycle > self.cycle_from:
            raise UserError(f"rate.cycle is {self.cycle}: it must be at most rate.cycle_from = {self.cycle_from}.")


@dataclass(frozen=True, kw_only=True)
class Average(Section):
    """The mean teacher."""

    decay: float | None = 0.999  # none: no average, the student is its own teacher
    warmup: bool = True  # min(1 - 1/(k+1), decay) at update k
    when: Literal["after", "before"] = "after"  # update after or before the optimizer's step; the paper: before
    batchnorm: Literal["own", "averaged"] = "own"  # train mode with its own statistics, or eval mode with averages

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decay is not None and not 0 <= self.decay < 1:
            raise UserError(f"average.decay is {self.decay}: it must be at least 0 and below 1, or none.")


@dataclass(frozen=True, kw_only=True)
class Swa(Section):
    """The mean of the student's weights at several points of the run; the run is evaluated with it.

    SWA takes the weights at the end of each cycle of the rate, fast-SWA several times per cycle. Lengths are fractions
    of the run.
    """

    start: float | None = None  # the point of the first weights in the mean; none: no mean
    every: float = 0.0025
    batches: int = 100  # training batches from which the mean's batch-norm statistics are recomputed at the end

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(**{"swa.every": self.every, "swa.batches": self.batches})
        at_most(1_000_000, **{"swa.batches": self.batches})
        share(**{"swa.every": self.every, "swa.start": self.start or 0.0})


@dataclass(frozen=True, kw_only=True)
class Train(Section):
    """The length of training, the batches and the weight of the consistency loss.

    Layout "apart": a labeled and an unlabeled batch, each loss a mean over its own batch. "joined": both as one batch,
    with losses divided by the size of the whole. "within": only the unlabeled batch, drawn from a pool that includes
    the labeled examples; their cross-entropy is divided by the size of the whole batch.

    Labeled order "reshuffled": each epoch is a permutation. "repeated": the same batches throughout an epoch.
    "replaced": every example is drawn with replacement.
    """

    steps: int = 1000
    labeled_batch: int = 100
    unlabeled_batch: int = 100
    layout: Literal["apart", "joined", "within"] = "apart"  # see above
    labeled_order: Literal["reshuffled", "repeated", "replaced"] = "reshuffled"  # see above
    pair_groups: int = 1  # pairs are formed within this many equal parts of a batch
    weight: float = 100.0  # w_max
    rampup: float = 0.25  # fraction of the run over which w rises to its maximum
    rampup_from_zero: bool = False  # start at 0 instead of e^-5 of the maximum

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("steps", "labeled_batch", "unlabeled_batch", "pair_groups"):
            positive(**{f"train.{name}": getattr(self, name)})
        at_most(10_000_000, **{"train.steps": self.steps})
        at_most(1_000_000, **{f"train.{name}": getattr(self, name) for name in ("labeled_batch", "unlabeled_batch")})
        at_least_zero(**{"train.weight": self.weight})
        share(**{"train.rampup": self.rampup})
        for name in ("labeled_batch", "unlabeled_batch"):
            if getattr(self, name) % self.pair_groups:
                raise UserError(
                    f"train.pair_groups is {self.pair_groups}: it must divide train.{name} = {getattr(self, name)}."
                )


@dataclass(frozen=True, kw_only=True)
class Anchor(Section):
    """The experts that anchor the targets of unlabeled examples, and their share in the targets."""

    experts: Later[Literal["table", "features", "graph"]] = "table"
    trees: Later[int] = 200  # in each of the table's two ensembles
    share: Later[float] = 0.5  # of the prior in the targets; the rest is the teacher's
    fall: Later[float] = 0.3  # share of the run over which it falls from 1 to that

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(**{"anchor.trees": self.trees})
        share(**{"anchor.share": self.share, "anchor.fall": self.fall})


@dataclass(frozen=True, kw_only=True)
class Eval(Section):
    """How often to validate and log, and on how many examples."""

    every: int = 500  # updates between validation passes
    log_every: int = 50  # updates between log lines
    batch: int = 500
    augmented_valid: bool = False  # shift and flip the validation images too, as in the authors' program
    test_limit: int | None = None  # use only this many test examples; the result is marked partial

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(**{"eval.every": self.every, "eval.log_every": self.log_every, "eval.batch": self.batch})
        if self.test_limit is not None:
            positive(**{"eval.test_limit": self.test_limit})
