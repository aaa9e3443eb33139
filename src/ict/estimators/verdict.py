"""What held-out predictions of several candidates say: the score of the chosen one, and whether unlabeled rows helped.

The best of several candidates looks better than it is on the rows by which it was chosen. So every bootstrap replicate
chooses anew on the rows that it draws, and is scored on those that it does not draw (Tsamardinos, Greasidou and
Borboudakis, 2018). An interval is the middle 95 % of the replicates. These scatter more than a mean of all n rows, with
1 / n of a row's variance: that of the share q which a replicate leaves out is (1 - q) / q times as large. So their
distance from the mean shrinks by the root of q / (1 - q). Only the upper end of a score does not: the chosen candidate
is fitted to all labels in the end, and is better than its folds. Then an interval is widened to what so few rows could
show at most: Wilson's interval of an accuracy, that of Bonett and Price (2012) of a difference between two accuracies.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.stats import binomtest, norm

from ict.base.array_types import Array, Rows
from ict.estimators.metrics import Metric, gain_in_words, in_words

LEVEL = 0.05
_REPLICATES = 1000
_AT_ONCE = 2_000_000  # rows drawn at a time
_MARGIN = 1.0  # standard errors by which a candidate must be better than the default to be chosen

Answer = Literal["helped", "hurt", "cannot tell"]
Choose = Callable[[Array], Rows]  # from how often each row was drawn [replicates, rows] to candidates


@dataclass(frozen=True)
class HeldOut:
    """Scores of the held-out rows by candidate, the one first that is the default."""

    metric: Metric
    scores: Array  # [rows, candidates]; higher is better
    weights: Array  # [rows]
    group: Rows  # [rows]; rows of a group are drawn together

    def of(self, among: Sequence[int]) -> "HeldOut":
        """The scores of some candidates."""
        return replace(self, scores=self.scores[:, list(among)])

    def means(self, drawn: Array) -> Array:
        """The candidates' mean scores over the drawn rows [replicates, candidates]; NaN if there are none."""
        weighted = drawn * self.weights
        with np.errstate(invalid="ignore"):
            return np.asarray((weighted @ self.scores) / weighted.sum(1, keepdims=True))

    def choice(self, drawn: Array) -> Rows:
        """The best candidate, but the default unless another is better by more than its standard error."""
        lead = self.scores - self.scores[:, :1]
        mean = self.means(drawn) - self.means(drawn)[:, :1]
        squared = drawn * np.square(self.weights)
        spread = squared @ np.square(lead) - 2 * mean * (squared @ lead) + np.square(mean) * squared.sum(1)[:, None]
        n = drawn.sum(1)[:, None]
        error = np.sqrt(np.maximum(spread, 0) * n / np.maximum(n - 1, 1)) / (drawn @ self.weights)[:, None]
        eligible = mean > _MARGIN * error * (1 + 1e-9)
        eligible[:, 0] = True
        return np.asarray(np.where(eligible, mean, -np.inf).argmax(1))

    def best(self, drawn: Array, among: Sequence[int]) -> Rows:
        """The best of some candidates, the first of equal ones."""
        best = self.means(drawn)[:, among].argmax(1)
        return np.array([among[i] for i in best], np.int64)

    def replicates(self, seed: int) -> Iterator[Array]:
        """How often each row is drawn, [replicates, rows] at a time, groups with replacement."""
        groups, of = np.unique(self.group, return_inverse=True)
        rng, left = np.random.default_rng(seed), _REPLICATES
        while left:
            n = min(left, max(_AT_ONCE // len(of), 1))
            draws = rng.integers(0, len(groups), (n, len(groups))) + len(groups) * np.arange(n)[:, None]
            yield np.bincount(draws.ravel(), minlength=n * len(groups)).reshape(n, -1)[:, of].astype(np.float64)
            left -= n

    def n_groups(self) -> int:
        return len(np.unique(self.group))


@dataclass(frozen=True)
class Estimate:
    """The score of the chosen candidate on new rows, with its 95 % interval; higher is better."""

    metric: Metric
    value: float
    low: float
    high: float
    n: int  # held-out labels

    def __str__(self) -> str:
        ends = [in_words(self.metric, end) for end in (self.low, self.high)]
        ends = ends[::-1] if self.metric == "log_loss" else ends
        name = self.metric.replace("_", " ")
        return (
            f"{name} {in_words(self.metric, self.value)} on {self.n} labels held out in folds "
            f"(95 % interval {ends[0]} to {ends[1]})"
        )


@dataclass(frozen=True)
class Verdict:
    """The best candidate that uses unlabeled rows against the best that does not, whichever was chosen."""

    metric: Metric
    gain: float
    low: float  # the 95 % interval of the gain
    high: float
    answer: Answer
    with_unlabeled: str
    labels_only: str

    def __str__(self) -> str:
        return self.words()

    def words(self, items: str = "rows") -> str:
        """`items`: what the examples are called."""
        between = f"{self.with_unlabeled} against {self.labels_only}"
        if self.answer == "cannot tell":
            return f"Cannot tell whether the unlabeled {items} helped: the labels are too few for {between}."
        gain, low, high = (gain_in_words(self.metric, value) for value in (self.gain, self.low, self.high))
        ends = sorted((low.split()[0], high.split()[0]), key=float)
        return f"The unlabeled {items} {self.answer}: {gain}, 95 % interval {ends[0]} to {ends[1]}, {between}."

    def as_json(self) -> dict[str, Any]:
        """For programs. The gain is None if the labels are too few for an answer."""
        return asdict(self) | ({"gain": None} if self.answer == "cannot tell" else {})


def estimate(held_out: HeldOut, seed: int) -> Estimate:
    """The score of whichever candidate is chosen."""
    values = []
    for drawn in held_out.replicates(seed):
        chosen = held_out.choice(drawn)
        values.append(np.take_along_axis(held_out.means(_left_out(drawn)), chosen[:, None], axis=1)[:, 0])
    value, low, high = _middle(np.concatenate(values))
    low = _of_all_rows(low, value, held_out)
    if held_out.metric == "accuracy":
        few_low, few_high = wilson(round(value * held_out.n_groups()), held_out.n_groups())
        low, high = min(low, few_low), max(high, few_high)
    return Estimate(held_out.metric, value, low, high, len(held_out.scores))


def verdict(held_out: HeldOut, names: Sequence[str], with_unlabeled: Sequence[str], seed: int) -> Verdict:
    """Compare the best candidates of both kinds. `names`: of all; `with_unlabeled`: some of them, at least one."""
    with_ = [names.index(name) for name in with_unlabeled]
    without = [i for i in range(len(names)) if i not in with_]
    gains = []
    for drawn in held_out.replicates(seed):
        scores, rows = held_out.means(_left_out(drawn)), np.arange(len(drawn))
        gains.append(scores[rows, held_out.best(drawn, with_)] - scores[rows, held_out.best(drawn, without)])
    gain, *ends = _middle(np.concatenate(gains))
    low, high = (_of_all_rows(end, gain, held_out) for end in ends)
    every = np.ones((1, len(held_out.scores)))
    a, b = int(held_out.best(every, with_)[0]), int(held_out.best(every, without)[0])
    if held_out.metric != "log_loss":
        few_low, few_high = bonett_price(held_out.scores[:, a], held_out.scores[:, b])
        low, high = min(low, few_low), max(high, few_high)
    answer: Answer = "helped" if low > 0 else "hurt" if high < 0 else "cannot tell"
    return Verdict(held_out.metric, gain, low, high, answer, names[a], names[b])


@dataclass(frozen=True)
class RightOf:
    """How many of `n` predictions are right, with the interval of the accuracy."""

    right: int
    n: int

    @property
    def accuracy(self) -> float:
        return self.right / self.n

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.right, self.n)


def difference(held_out: HeldOut, seed: int) -> tuple[float, float, float]:
    """The second of two models' scores minus the first's on the same rows, with the 95 % interval."""
    gains = [scores[:, 1] - scores[:, 0] for scores in map(held_out.means, held_out.replicates(seed))]
    low, high = np.quantile(np.concatenate(gains), [LEVEL / 2, 1 - LEVEL / 2])
    first, second = held_out.means(np.ones((1, len(held_out.scores))))[0]
    if held_out.metric != "log_loss":
        few_low, few_high = bonett_price(held_out.scores[:, 1], held_out.scores[:, 0])
        low, high = min(low, few_low), max(high, few_high)
    return float(second - first), float(low), float(high)


def wilson(right: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a proportion, valid for few examples too."""
    interval = binomtest(right, n).proportion_ci(1 - LEVEL, "wilson")
    return float(interval.low), float(interval.high)


def bonett_price(first: Array, second: Array) -> tuple[float, float]:
    """The 95 % interval of the difference of two proportions of right rows, in pairs: one more pair of either kind."""
    n = len(first) + 2
    only_first, only_second = ((first > second).sum() + 1) / n, ((second > first).sum() + 1) / n
    middle = only_first - only_second
    reach = norm.ppf(1 - LEVEL / 2) * np.sqrt((only_first + only_second - middle**2) / n)
    return float(max(middle - reach, -1)), float(min(middle + reach, 1))


def _left_out(drawn: Array) -> Array:
    return np.asarray(drawn == 0, np.float64)


def _middle(values: Array) -> tuple[float, float, float]:
    """The mean and the middle 95 % of the replicates that left rows out."""
    values = values[np.isfinite(values)]
    low, high = np.quantile(values, [LEVEL / 2, 1 - LEVEL / 2])
    return float(values.mean()), float(low), float(high)


def _of_all_rows(end: float, mean: float, held_out: HeldOut) -> float:
    """An end of an interval of the rows that replicates leave out, moved to where that of all rows is."""
    n = held_out.n_groups()
    left_out = (1 - 1 / n) ** n
    return float(mean + np.sqrt(left_out / (1 - left_out)) * (end - mean))
