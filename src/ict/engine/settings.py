"""The sections of a recipe other than its named components, as plain data: nothing here imports torch."""

from dataclasses import dataclass, field
from typing import Literal

from ict.base.errors import UserError
from ict.base.fields import at_least_zero, check_fields, positive, share

# marks a setting that older recipes did not have: with its default, which must never change, it is no part of a name
LATER = {"later": True}


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
    """From stored examples to the network's input: random shift and flip, scaling, ZCA, noise."""

    pad: int = 0
    reflect: bool = False  # pad by reflection instead of zeros
    flip: bool = False
    shared_flip: bool = False  # mirror all views of an example or none of them
    augment: Literal["pixels", "inputs"] = "pixels"  # shift and flip before scaling and ZCA, or after them
    scale: Literal["none", "centered", "half", "channels", "image", "gcn"] = "channels"
    zca: Literal["none", "authors", "ridge"] = "none"
    zca_epsilon: float = 1e-6
    noise: float = 0.0  # deviation of Gaussian noise added to the input wherever examples are augmented

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_zero(**{"inputs.pad": self.pad, "inputs.noise": self.noise})


@dataclass(frozen=True, kw_only=True)
class Optimizer(Section):
    """SGD with momentum, Adam with (momentum, beta2) as its betas, or Muon for convolutions and SGD for all else."""

    name: Literal["sgd", "adam", "muon"] = "sgd"
    lr: float = 0.1
    turn: float = field(default=0.01, metadata=LATER)  # muon: the share of its norm by which a convolution moves
    momentum: float = 0.9
    final_momentum: float | None = None  # what momentum becomes as the rate's `rampdown` proceeds; none: no change
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
        if self.name != "adam" and self.nesterov and self.momentum == 0:
            raise UserError("optimizer.momentum is 0: Nesterov needs momentum, so set optimizer.nesterov=false first.")


@dataclass(frozen=True, kw_only=True)
class Rate(Section):
    """The learning rate over the run, as a factor of optimizer.lr; lengths are shares of the run."""

    shape: Literal["cosine", "cyclic", "gaussian", "linear", "step", "constant"] = "cosine"
    stretch: float = 1.125  # cosine, cyclic: the cosine would end at this multiple of the run
    cycle_from: float = 0.15  # cyclic: from here on the last `cycle` of the cosine is run through again and again
    cycle: float = 0.025
    rampup: float = 0.0  # rise by a sigmoid at the start
    rampdown: float = 0.2  # gaussian, linear: fall over this much at the end; step: be `drop` times as large there
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
    when: Literal["after", "before"] = "after"  # the optimizer's step; Algorithm 1 of the paper says before
    batchnorm: Literal["own", "averaged"] = "own"  # train mode with its own statistics, or eval mode with averages

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decay is not None and not 0 <= self.decay < 1:
            raise UserError(f"average.decay is {self.decay}: it must be at least 0 and below 1, or none.")


@dataclass(frozen=True, kw_only=True)
class Swa(Section):
    """A plain mean of the student's weights along the run, which is what is evaluated; lengths are shares of the run.

    SWA takes the weights at the end of each cycle of the rate, fast-SWA several times a cycle.
    """

    start: float | None = None  # where the first weights are taken; none: no such mean
    every: float = 0.0025
    batches: int = 100  # training batches that make the mean's batch-norm statistics anew, at the end

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(**{"swa.every": self.every, "swa.batches": self.batches})
        share(**{"swa.every": self.every, "swa.start": self.start or 0.0})


@dataclass(frozen=True, kw_only=True)
class Train(Section):
    """How long, on how much at a time, and how strong the consistency loss is.

    Layout "apart": a labeled and an unlabeled batch, each loss a mean over its own batch. "joined": both as one batch,
    the losses divided by its whole size. "within": the unlabeled batch alone, drawn from a pool that holds the labeled
    examples too; the cross-entropy of those that have a label is divided by the whole size.
    """

    steps: int = 1000
    labeled_batch: int = 100
    unlabeled_batch: int = 100
    layout: Literal["apart", "joined", "within"] = "apart"  # see below
    labeled_order: Literal["reshuffled", "repeated"] = "reshuffled"  # repeated: the same batches all epoch long
    pair_groups: int = 1  # pairs are formed inside this many equal parts of a batch
    weight: float = 100.0  # w_max
    rampup: float = 0.25  # share of the run over which w rises to its maximum
    rampup_from_zero: bool = False  # start at 0 instead of e^-5 of the maximum

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("steps", "labeled_batch", "unlabeled_batch", "pair_groups"):
            positive(**{f"train.{name}": getattr(self, name)})
        at_least_zero(**{"train.weight": self.weight})
        share(**{"train.rampup": self.rampup})
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
