"""Temperature scaling (Guo et al., 2017): calibrated probabilities by one temperature, fitted to held-out examples.

Dividing a network's logits by one number T changes no prediction and corrects most of its over- or underconfidence.
Logits are log-probabilities up to a constant, so this works with the probabilities of any model.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from ict.base.array_types import Array, Labels

# T = 0 would be optimal for a few examples that are all correct, and one wrong prediction with probability 0 would
# determine T. Hence bounds, a weak prior (log T is normal around 0, so ten examples cannot move T far) and a smallest
# probability.
_BOUNDS = (0.1, 10.0)
_PRIOR = 0.5  # deviation of log T
_LEAST = 1e-30


def fit_temperature(probs: Array, labels: Labels) -> float:
    """The maximum a posteriori T, given probabilities [n, classes] and labels [n]."""
    logits = _logits(probs)

    def loss(log_t: float) -> float:
        likelihood = log_softmax(logits / np.exp(log_t), axis=1)[np.arange(len(labels)), labels].sum()
        return float(0.5 * (log_t / _PRIOR) ** 2 - likelihood)

    result = minimize_scalar(loss, bounds=np.log(_BOUNDS), method="bounded", options={"xatol": 1e-6})
    return float(np.exp(result.x))


def tempered(probs: Array, temperature: float) -> Array:
    """The probabilities at a temperature: less confident above 1, more confident below, unchanged at 1."""
    if temperature == 1.0:
        return probs
    return np.asarray(softmax(_logits(probs) / temperature, axis=1))


def _logits(probs: Array) -> Array:
    return np.asarray(np.log(np.maximum(probs, _LEAST)))


@dataclass(frozen=True)
class Reliability:
    """A reliability diagram: the accuracy of predictions in equally wide, non-empty bins of their probability."""

    probability: Array  # mean in each bin
    accuracy: Array
    counts: Labels

    @property
    def error(self) -> float:
        """Expected calibration error: the mean distance of probability and accuracy, bins weighted by their counts."""
        return float(np.average(np.abs(self.probability - self.accuracy), weights=self.counts))


def reliability(probs: Array, labels: Labels, n_bins: int = 10) -> Reliability:
    """The reliability of predictions with probabilities [n, classes] for labels [n]; n is at least 1."""
    best = probs.max(1)
    right = probs.argmax(1) == labels
    which = np.minimum((best * n_bins).astype(np.int64), n_bins - 1)
    counts = np.bincount(which, minlength=n_bins)
    used = counts > 0
    sums = (np.bincount(which, weights, minlength=n_bins)[used] for weights in (best, right))
    probability, accuracy = (total / counts[used] for total in sums)
    return Reliability(probability, accuracy, counts[used])
