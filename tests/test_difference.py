"""The difference from the paper's number, against Welch's formulas written out and against numbers computed apart."""

import json
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import t as students_t

from ict.paper.difference import Difference, from_paper, paired
from ict.recipes import RECIPES
from ict.recipes.recipe import Reported

RUNS = Path(__file__).parent.parent / "results/h200"


@pytest.mark.parametrize("errors", [[7.0, 8.0, 12.0], [6.9, 7.1], [3.4, 3.5, 3.3, 3.9, 3.2], [5.0, 5.0, 5.0]], ids=str)
@pytest.mark.parametrize("paper", [Reported(7.29, 0.02), Reported(4.78, 0.68)], ids=str)
def test_it_is_welchs(errors: list[float], paper: Reported) -> None:
    """Its formulas, with three runs behind the paper's number."""
    assert paper.std
    n, variances = np.array([len(errors), 3]), np.array([np.var(errors, ddof=1), paper.std**2])
    squares = variances / n
    freedom = squares.sum() ** 2 / (squares**2 / (n - 1)).sum()
    points, error = np.mean(errors) - paper.mean, np.sqrt(squares.sum())
    half = students_t.ppf(0.975, freedom) * error
    found = from_paper(errors, paper)
    assert found.points == pytest.approx(points)
    assert (found.low, found.high) == pytest.approx((points - half, points + half))
    assert found.p == pytest.approx(2 * students_t.sf(abs(points) / error, freedom))


COMPUTED_APART = {  # from rounded means and deviations
    "cifar10-4000/ict-fast": (-0.32, 0.21, "no difference shown"),
    "cifar10-4000/ict-fast-120s": (-0.07, 0.66, "no difference shown"),
    "svhn-1000/ict-fast": (-0.31, 0.10, "no difference shown"),
    "cifar10-4000-wrn/ict-fast": (-0.15, 0.37, "no difference shown"),
    "svhn-1000-wrn/ict-fast": (-0.12, 0.23, "no difference shown"),
    "svhn-250/ict-fast": (0.73, 0.58, "no difference shown"),
    "svhn-500/ict-fast": (0.04, 0.69, "no difference shown"),
    "cifar10-2000/ict-fast": (-0.80, 0.005, "lower"),
    "cifar10-1000/ict-fast": (-5.12, 0.001, "lower"),
}


@pytest.mark.parametrize("name", COMPUTED_APART)
def test_the_published_runs_have_these_differences(name: str) -> None:
    points, p, shown = COMPUTED_APART[name]
    files = RUNS.glob(f"{name.replace('/', '-')}-seed*.json")
    paper = RECIPES[f"{name.partition('/')[0]}/ict"].reported
    assert paper
    found = from_paper([100 * json.loads(path.read_text())["test_error"] for path in files], paper)
    assert found.points == pytest.approx(points, abs=0.006) and found.p == pytest.approx(p, abs=0.04)
    assert found.verdict == shown


def test_what_lies_above_is_higher() -> None:
    assert from_paper([8.3, 8.2, 8.5], Reported(7.29, 0.02)).verdict == "higher"


@pytest.mark.parametrize(("errors", "std"), [([7.99], 0.02), ([7.0, 8.0], None)], ids=["one run", "no deviation"])
def test_without_a_deviation_there_is_no_interval(errors: list[float], std: float | None) -> None:
    found = from_paper(errors, Reported(7.29, std))
    assert found.points == pytest.approx(fmean(errors) - 7.29)
    assert (found.low, found.high, found.p, found.verdict) == (None, None, None, "no interval")


def test_methods_are_compared_seed_by_seed() -> None:
    """Differences of -1, -2 and 0: mean -1, deviation 1, and Student's t for two degrees of freedom is 4.303."""
    found = paired([5.0, 6.0, 7.0], [6.0, 8.0, 7.0])
    assert found.points == pytest.approx(-1.0)
    half = students_t.ppf(0.975, 2) / np.sqrt(3)
    assert (found.low, found.high) == pytest.approx((-1 - half, -1 + half))


@pytest.mark.parametrize(("errors", "others"), [([5.0], [6.0]), ([5.0, 6.0], [6.0, 7.0])])
def test_one_difference_has_no_interval(errors: list[float], others: list[float]) -> None:
    assert paired(errors, others) == Difference(-1.0)
    images = np.array([3, 5, 9]) * 100 / 539  # one image more in each seed, but for rounding
    assert paired(list(images + 100 / 539), list(images)).low is None
