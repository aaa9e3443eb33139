"""The corrected resampled t-test: against its formula written out, and how often it sees what is not there."""

import math

import numpy as np
import pytest
from scipy.stats import t as student_t

from ict.base.errors import UserError
from ict.estimators.verdict import verdict


def test_statistic_is_nadeau_and_bengios() -> None:
    without, with_, sizes = [0.30, 0.25, 0.35, 0.30, 0.20], [0.20, 0.10, 0.25, 0.15, 0.15], [20, 20, 20, 20, 20]
    d = [0.10, 0.15, 0.10, 0.15, 0.05]
    mean = sum(d) / 5
    variance = sum((v - mean) ** 2 for v in d) / 4
    error = math.sqrt((1 / 5 + 20 / 80) * variance)
    found = verdict(without, with_, sizes)
    assert found.gain == pytest.approx(mean)
    assert found.p == pytest.approx(2 * (1 - student_t.cdf(mean / error, 4)))
    assert (found.low, found.high) == pytest.approx((mean - 2.776445 * error, mean + 2.776445 * error))
    assert found.answer == "helped"
    mirror = verdict(with_, without, sizes)
    assert (mirror.gain, mirror.p) == pytest.approx((-mean, found.p))
    assert mirror.answer == "hurt"


def test_no_difference_and_no_spread() -> None:
    same = verdict([0.1, 0.2], [0.1, 0.2], [10, 10])
    assert (same.gain, same.low, same.high, same.p, same.answer) == (0, 0, 0, 1, "cannot tell")
    assert verdict([0.5] * 10, [0.4] * 10, [50] * 10).answer == "helped"
    constant = verdict([0.1, 0.1], [0.0, 0.0], [10, 10])  # one row in each of two folds proves nothing
    assert constant.answer == "cannot tell" and constant.p > 0.05


def test_false_positives_are_rare_and_real_gains_are_seen() -> None:
    """Whole cross-validations of two equal methods, thresholds learned from either half of the training rows."""
    rng = np.random.default_rng(0)

    def experiment(apart: float, handicap: float) -> str:
        y = rng.integers(0, 2, 100)
        x = apart * y + rng.normal(size=100)
        fold = np.arange(100) % 5
        errors: list[list[float]] = [[], []]
        for k in range(5):
            test = fold == k
            for which in (0, 1):
                rows = np.flatnonzero(~test)[which::2]
                cut = (x[rows][y[rows] == 0].mean() + x[rows][y[rows] == 1].mean()) / 2 + handicap * (which == 0)
                errors[which].append(float(((x[test] > cut) != y[test]).mean()))
        return verdict(errors[0], errors[1], [20] * 5).answer

    null = [experiment(1, 0) for _ in range(1000)]
    assert sum(answer != "cannot tell" for answer in null) / 1000 < 0.06
    assert sum(experiment(3, 3) == "helped" for _ in range(100)) > 90


def test_says_it_in_one_sentence() -> None:
    helped = str(verdict([0.5] * 10, [0.4] * 10, [50] * 10))
    assert helped.startswith("The unlabeled rows helped: +10.0 points") and helped.count(". ") == 0
    assert str(verdict([0.1, 0.2], [0.1, 0.2], [10, 10])).startswith("Cannot tell")


@pytest.mark.parametrize(
    ("without", "with_", "sizes"),
    [
        ([0.1], [0.1], [10]),
        ([0.1, 0.2], [0.1], [10, 10]),
        ([0.1, 20.0], [0.1, 0.2], [10, 10]),
        ([0.1, math.nan], [0.1, 0.2], [10, 10]),
        ([0.1, 0.2], [0.1, 0.2], [10, 0]),
    ],
)
def test_mistakes_are_named(without: list[float], with_: list[float], sizes: list[int]) -> None:
    with pytest.raises(UserError, match="fold"):
        verdict(without, with_, sizes)
