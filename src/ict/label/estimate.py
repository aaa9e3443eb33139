"""How good the model is, from random checks alone, and whether more labels are worth it.

The model never learns from checks, and what is asked besides them is chosen by it, so only checks give an estimate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ict.estimators.verdict import RightOf

STABLE, ROUNDS = 0.99, 3  # Cohen's kappa of guesses from one round to the next, in so many rounds
NARROW = 0.15  # width of an interval that needs no more checks
_CHECKS, _POINTS = 30, 4  # for a curve: checks, and rounds with different numbers of labels
_MOST = 1000  # times as many labels: so far no curve can be drawn


class Checked(RightOf):
    """The accuracy on random checks, in words."""

    def __str__(self) -> str:
        low, high = self.interval
        checks = "random check" if self.n == 1 else "random checks"
        return f"{self.accuracy:.0%} ({low:.0%} to {high:.0%}) from {self.n} {checks}"


@dataclass(frozen=True)
class Advice:
    """Whether to stop, and what one more point of accuracy costs. It is advice: nothing stops by itself."""

    stable: bool
    precise: bool
    more: int | None  # labels for one more point; None: too early to tell

    @property
    def stop(self) -> bool:
        return self.stable and self.precise


class History:
    """The guesses of every round for the checks, by name."""

    def __init__(self) -> None:
        self._rounds: list[tuple[int, Mapping[int, str], float | None]] = []

    def add(self, n_labels: int, guesses: Mapping[int, str], agreement: float | None) -> None:
        self._rounds.append((n_labels, guesses, agreement))

    @property
    def guesses(self) -> Mapping[int, str]:
        return self._rounds[-1][1] if self._rounds else {}

    def estimate(self, checks: Mapping[int, str]) -> Checked | None:
        """The accuracy of the last round. `checks`: the answers, by row."""
        if not checks or not self._rounds:
            return None
        return Checked(_right(self.guesses, checks), len(checks))

    def advice(self, checks: Mapping[int, str], target: float | None = None) -> Advice:
        estimate = self.estimate(checks)
        agreements = [agreement for _, _, agreement in self._rounds[-ROUNDS:]]
        stable = len(agreements) == ROUNDS and all(one is not None and one >= STABLE for one in agreements)
        if estimate is None:
            return Advice(stable, False, None)
        low, high = estimate.interval
        precise = low >= target if target is not None else high - low <= NARROW
        return Advice(stable, precise, self._more(checks))

    def _more(self, checks: Mapping[int, str]) -> int | None:
        """Labels until the error is a point lower, if it goes on falling as a power of the number of labels."""
        if len(checks) < _CHECKS:
            return None
        errors = {n: 1 - _right(guesses, checks) / len(checks) for n, guesses, _ in self._rounds if n}
        points = [(n, error) for n, error in errors.items() if error > 0]
        if len(points) < _POINTS or max(errors) != points[-1][0]:
            return None
        return labels_for_a_point(points)


def labels_for_a_point(points: Sequence[tuple[int, float]]) -> int | None:
    """By the curve `error = a n^-b` through (labels, error), how many more labels lower the error by .01."""
    n, error = np.array(points, np.float64).T
    slope, start = np.polyfit(np.log(n), np.log(error), 1)
    now = float(np.exp(start + slope * np.log(n[-1])))
    if slope >= 0 or now <= 0.01:
        return None
    growth = -np.log(now / (now - 0.01)) / slope  # of the logarithm of the number of labels
    return round(float(n[-1] * np.expm1(growth))) if growth < np.log(_MOST) else None


def _right(guesses: Mapping[int, str], checks: Mapping[int, str]) -> int:
    return sum(guesses.get(row) == label for row, label in checks.items())
