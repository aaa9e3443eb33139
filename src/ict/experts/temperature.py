"""Probabilities that mean what they say: one temperature, fitted to examples that were not trained on.

Guo et al. (2017): dividing a network's logits by one number T leaves every guess as it is and mends most of what it is
too sure or too unsure of. Logits are log-probabilities but for a constant, so any model's probabilities will do.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from ict.base.array_types import Array, Labels

# Few examples that are all right would be fitted best by T = 0, and a hard zero that is wrong would decide T alone.
# Hence bounds, a weak prior (log T is normal around 0, so ten examples cannot move T far) and a least probability.
_BOUNDS = (0.1, 10.0)
_PRIOR = 0.5  # deviation of log T
_LEAST = 1e-30


def fit_temperature(probs: Array, labels: Labels) -> float:
    """T of the largest posterior probability, given probabilities [n, classes] and labels [n]."""
    logits = _logits(probs)

    def loss(log_t: float) -> float:
        likelihood = log_softmax(logits / np.exp(log_t), axis=1)[np.arange(len(labels)), labels].sum()
        return float(0.5 * (log_t / _PRIOR) ** 2 - likelihood)

    found = minimize_scalar(loss, bounds=np.log(_BOUNDS), method="bounded", options={"xatol": 1e-6})
    return float(np.exp(found.x))


def tempered(probs: Array, temperature: float) -> Array:
    """The probabilities at a temperature: above 1 less certain, below 1 more; at 1 as they are."""
    if temperature == 1.0:
        return probs
    return np.asarray(softmax(_logits(probs) / temperature, axis=1))


def _logits(probs: Array) -> Array:
    return np.asarray(np.log(np.maximum(probs, _LEAST)))


@dataclass(frozen=True)
class Reliability:
    """How often guesses of about the same probability are right, over equally wide bins that are not empty."""

    probability: Array  # mean in each bin
    accuracy: Array
    counts: Labels

    @property
    def error(self) -> float:
        """Expected calibration error: the mean distance of probability and accuracy, bins weighted by their counts."""
        return float(np.average(np.abs(self.probability - self.accuracy), weights=self.counts))


def reliability(probs: Array, labels: Labels, n_bins: int = 10) -> Reliability:
    """Of the guesses for examples with these probabilities [n, classes] and labels [n]; n is at least 1."""
    best = probs.max(1)
    right = probs.argmax(1) == labels
    which = np.minimum((best * n_bins).astype(np.int64), n_bins - 1)
    counts = np.bincount(which, minlength=n_bins)
    used = counts > 0
    sums = (np.bincount(which, weights, minlength=n_bins)[used] for weights in (best, right))
    probability, accuracy = (total / counts[used] for total in sums)
    return Reliability(probability, accuracy, counts[used])
