"""Holds out labeled examples from training, and scores a model's predictions for them."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support
from sklearn.model_selection import train_test_split

from ict.base.array_types import Array, Rows

TEST_ENOUGH = 5  # with at least this many labels in every class, a fifth is held out for the test
_TEST = 0.2
_VALID_ENOUGH = 20  # with at least this many labels in every class, a tenth is held out for validation
_VALID = 0.1
_VALID_LEAST = 50  # fewer validation examples are less useful for a temperature than folds, and better used in training


def hold_out(labels: Rows, seed: int) -> tuple[Rows, Rows]:
    """Validation and test rows, stratified by class; empty if a class has too few labels."""
    labeled = np.flatnonzero(labels >= 0)
    fewest = np.bincount(labels[labeled]).min()
    test = valid = labeled[:0]
    if fewest >= TEST_ENOUGH:
        rest, test = _split(labeled, labels, _TEST, seed)
        n_valid = round(_VALID * len(labeled))
        if fewest >= _VALID_ENOUGH and n_valid >= _VALID_LEAST:
            _, valid = _split(rest, labels, n_valid, seed)
    return valid, test


def _split(rows: Rows, labels: Rows, size: float, seed: int) -> tuple[Rows, Rows]:
    kept, taken = train_test_split(rows, test_size=size, stratify=labels[rows], random_state=seed % 2**32)
    return np.sort(kept), np.sort(taken)


@dataclass(frozen=True)
class Score:
    """The number of correct predictions, and Wilson's 95 % interval of the accuracy, valid for few examples too."""

    right: int
    n: int

    @property
    def accuracy(self) -> float:
        return self.right / self.n

    @property
    def interval(self) -> tuple[float, float]:
        interval = binomtest(self.right, self.n).proportion_ci(0.95, "wilson")
        return float(interval.low), float(interval.high)

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.right} of {self.n} held-out labels right: {self.accuracy:.1%} "
            f"(95 % interval {low:.1%} to {high:.1%})"
        )


def score(probs: Array, labels: Rows) -> Score:
    return Score(int((probs.argmax(1) == labels).sum()), len(labels))


@dataclass(frozen=True)
class ByClass:
    """Metrics per class, and the confusion matrix."""

    precision: Array
    recall: Array
    f1: Array
    confusion: Rows  # [true class, guess]


def by_class(probs: Array, labels: Rows) -> ByClass:
    classes, guesses = np.arange(probs.shape[1]), probs.argmax(1)
    # a class that is never predicted has no precision: 0, as in scikit-learn, but without its warning
    precision, recall, f1, _ = precision_recall_fscore_support(labels, guesses, labels=classes, zero_division=0)
    return ByClass(precision, recall, f1, confusion_matrix(labels, guesses, labels=classes))
