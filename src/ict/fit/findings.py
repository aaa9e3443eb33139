"""What a report shows: the facts of a fit, as plain values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ict.base.array_types import Array
from ict.data.user.records import Items
from ict.engine.loop import Record
from ict.estimators.auto import HeldOutProbs, Judged
from ict.estimators.metrics import Metric
from ict.fit.earlier import Change
from ict.fit.label_next import Suggestion

ENOUGH = 30  # examples from which a chart is drawn, or a test set measures a model


@dataclass(frozen=True)
class Example:
    """An example as a page shows it: its name, and its image or text if it has one."""

    name: str
    image: NDArray[np.uint8] | None = None
    text: str = ""


@dataclass(frozen=True)
class Mistake:
    """A held-out example that was taken for another class."""

    example: Example
    label: int
    guess: int
    probability: float  # of the guess


@dataclass(frozen=True)
class Findings:
    """The content of a report."""

    judged: Judged
    compared: bool  # with other methods, as far as there were labels for it
    metric: Metric
    items: Items
    classes: tuple[str, ...]
    labeled: NDArray[np.int64]  # number of labels trained on, by class
    held_out: HeldOutProbs | None  # test examples, or those of folds
    tested: bool  # the held-out examples are for a test, and were not used to choose
    no_test: str  # why there are no held-out examples
    history: Sequence[Record]
    seeding: int  # updates before the history, on labels that a graph guessed
    names: Sequence[str]  # of the unlabeled examples
    probs: Array  # of the unlabeled examples, calibrated
    example: Callable[[int], Example]  # an unlabeled example
    suggestions: Sequence[Suggestion]
    remarks: Sequence[str]  # on the data
    origin: dict[str, str]  # command, seed, versions, time
    n_valid: int = 0  # examples on which errors were followed
    mistakes: Sequence[Mistake] = ()  # the surest first
    small_test: str = ""  # the result on a test set too small to measure the model
    again: str = ""  # the command that fits again with more labels
    columns: Sequence[tuple[str, str]] = ()  # of a table by name, and what each became
    change: Change | None = None  # against an earlier model
