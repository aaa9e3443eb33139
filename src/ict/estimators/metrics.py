"""What candidates are compared by: the weighted mean of a score for every held-out row, higher if better."""

from typing import Literal, get_args

import numpy as np

from ict.base.array_types import Array, Labels
from ict.base.errors import unknown

Metric = Literal["accuracy", "balanced_accuracy", "log_loss"]
METRICS: tuple[Metric, ...] = get_args(Metric)
LEAST = 1e-15  # probability of the true class, so that one row cannot make the log loss infinite


def check_metric(name: str) -> Metric:
    for metric in METRICS:
        if name == metric:
            return metric
    raise unknown("metric", name, METRICS)


def row_scores(metric: Metric, probs: Array, labels: Labels) -> Array:
    """1 for a right row and 0 for a wrong one, or the logarithm of the true class's probability."""
    if metric == "log_loss":
        return np.asarray(np.log(np.maximum(probs[np.arange(len(labels)), labels], LEAST)))
    return np.asarray(probs.argmax(1) == labels, np.float64)


def row_weights(metric: Metric, labels: Labels) -> Array:
    """Equal weights, or for the balanced accuracy equal sums of all classes' weights."""
    if metric != "balanced_accuracy":
        return np.ones(len(labels))
    counts = np.bincount(labels)
    return np.asarray(len(labels) / (np.count_nonzero(counts) * counts[labels]))


def mean_score(metric: Metric, probs: Array, labels: Labels) -> float:
    return float(np.average(row_scores(metric, probs, labels), weights=row_weights(metric, labels)))


def in_words(metric: Metric, score: float) -> str:
    """A mean score in words, such as 83.1%; the log loss is the score with the other sign."""
    return f"{-score:.3f}" if metric == "log_loss" else f"{score:.1%}"


def gain_in_words(metric: Metric, gain: float) -> str:
    if metric == "log_loss":
        return f"{-gain:+.3f} log loss"
    return f"{100 * gain:+.1f} points of {metric.replace('_', ' ')}"
