"""Differences between mean test errors with their 95 % intervals: from a number of the paper, and between two methods.

Those from the paper are by Welch's t-test, which allows unequal variances; standard deviations are of samples (n - 1).
Those between methods, which ran the same seeds, are by the paired t-test.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from warnings import catch_warnings, simplefilter

from ict.recipes.recipe import Reported

PAPERS_RUNS = 3  # behind each number of ICT that the paper reports


@dataclass(frozen=True)
class Difference:
    """The first mean minus the second, in percentage points.

    It has no interval for a single run or a number without a standard deviation.
    """

    points: float
    low: float | None = None
    high: float | None = None
    p: float | None = None

    @property
    def interval(self) -> str:
        return "-" if self.low is None or self.high is None else f"{self.low:+.2f} to {self.high:+.2f}"

    @property
    def verdict(self) -> str:
        if self.low is None or self.high is None:
            return "no interval"
        return "lower" if self.high < 0 else "higher" if self.low > 0 else "no difference shown"


def from_paper(errors: Sequence[float], paper: Reported) -> Difference:
    """From the paper's number, of our test errors in percent, one for each seed."""
    points = fmean(errors) - paper.mean
    if paper.std is None or len(errors) < 2:
        return Difference(points)
    from scipy.stats import ttest_ind  # takes half a second to load

    # a sample with the mean and deviation that are reported, since scipy's intervals are of samples
    papers = [paper.mean - paper.std, paper.mean, paper.mean + paper.std]
    assert len(papers) == PAPERS_RUNS
    with catch_warnings():
        simplefilter("ignore", RuntimeWarning)  # scipy's, of errors that are all the same
        test = ttest_ind(errors, papers, equal_var=False)
    low, high = test.confidence_interval(0.95)
    return Difference(points, float(low), float(high), float(test.pvalue))


def of_mean(errors: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the mean by Student's t; None for a single run or runs that all have the same error."""
    if len(set(errors)) < 2:
        return None
    from scipy.stats import ttest_1samp

    low, high = ttest_1samp(errors, 0.0).confidence_interval(0.95)
    return float(low), float(high)


def paired(errors: Sequence[float], others: Sequence[float]) -> Difference:
    """Between two methods, of their test errors in percent, by seed."""
    points = fmean(errors) - fmean(others)
    apart = [error - other for error, other in zip(errors, others, strict=True)]
    if max(apart) - min(apart) < 1e-9:  # the same by every seed, but for rounding
        return Difference(points)
    from scipy.stats import ttest_rel

    test = ttest_rel(errors, others)
    low, high = test.confidence_interval(0.95)
    return Difference(points, float(low), float(high), float(test.pvalue))
