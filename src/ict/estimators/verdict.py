"""Tests whether unlabeled rows helped: two methods on the same folds, by the corrected resampled t-test.

Folds share training rows, so their differences are not independent, and the plain paired t-test reports effects that do
not exist. Nadeau and Bengio (2003) increase the variance of the mean difference from s^2 / k to s^2 (1/k + test/train).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import t as student_t

from ict.base.errors import UserError

LEVEL = 0.05


@dataclass(frozen=True)
class Verdict:
    gain: float  # mean error without minus mean error with them: positive if they helped
    low: float  # the 95 % interval of the gain
    high: float
    p: float  # two-sided
    answer: Literal["helped", "hurt", "cannot tell"]

    def __str__(self) -> str:
        gain, low, high = (f"{100 * value:+.1f}" for value in (self.gain, self.low, self.high))
        answer = "Cannot tell whether the unlabeled rows helped"
        if self.answer != "cannot tell":
            answer = f"The unlabeled rows {self.answer}"
        return f"{answer}: {gain} points of accuracy, 95 % interval {low} to {high}, p = {self.p:.2g}."


def verdict(errors_without: Sequence[float], errors_with: Sequence[float], n_test: Sequence[int]) -> Verdict:
    """Compare errors, fractions per fold of one cross-validation. `n_test`: the number of test rows in each fold.

    test/train is the ratio of labeled test rows to labeled training rows, since only these differ between folds.
    """
    without, with_, sizes = (np.asarray(v, dtype=np.float64) for v in (errors_without, errors_with, n_test))
    if without.ndim != 1 or not without.shape == with_.shape == sizes.shape or len(sizes) < 2:
        raise UserError("give the errors without, the errors with and the test sizes of the same two or more folds.")
    errors = np.concatenate([without, with_])
    if not (np.isfinite(errors).all() and errors.min() >= 0 and errors.max() <= 1 and sizes.min() >= 1):
        raise UserError("errors are fractions from 0 to 1 and every fold tests at least one row.")
    difference = without - with_
    k, gain = len(difference), float(difference.mean())
    if not difference.any():
        return Verdict(0.0, 0.0, 0.0, 1.0, "cannot tell")
    test = sizes.mean()
    train = sizes.sum() - test
    # If all folds differ by the same amount, their spread is 0. The smallest spread that could have been observed is
    # that of one row in one fold.
    least = 1.0 / (sizes.max() * np.sqrt(k))
    spread = max(float(difference.std(ddof=1)), float(least))
    error = spread * np.sqrt(1.0 / k + test / train)
    p = float(2 * student_t.sf(abs(gain) / error, k - 1))
    reach = float(student_t.ppf(1 - LEVEL / 2, k - 1) * error)
    answer: Literal["helped", "hurt", "cannot tell"] = "cannot tell"
    if p < LEVEL:
        answer = "helped" if gain > 0 else "hurt"
    return Verdict(gain, gain - reach, gain + reach, p, answer)
