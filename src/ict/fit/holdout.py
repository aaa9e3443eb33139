"""Holds out labeled examples from training, and scores a model's predictions for them."""

from dataclasses import dataclass

import numpy as np
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from ict.base.array_types import Array, Rows
from ict.base.errors import UserError
from ict.estimators.verdict import RightOf
from ict.experts.folds import hidden_folds, possible_folds


def hold_out(labels: Rows, share: float, seed: int, groups: Rows | None = None, items: str = "rows") -> Rows:
    """Test rows: a share of the labeled ones, stratified by class, in whole groups."""
    if share == 0:
        return labels[:0]
    if not 0 < share <= 0.5:
        raise UserError(f"--holdout is {share}: give a share of the labels above 0 and up to 0.5.")
    n_folds = round(1 / share)
    if possible_folds(labels, n_folds, groups) < n_folds:
        raise UserError(
            f"--holdout {share} needs {n_folds} different labeled {items} of every class: label more, hold out a "
            "larger share, or leave it out and let folds measure."
        )
    _, test = next(hidden_folds(labels, n_folds, seed, groups))
    return test


class Score(RightOf):
    """The accuracy on held-out examples, in words."""

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
