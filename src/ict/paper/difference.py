"""The difference between the mean error of some runs and a number of the paper, with its 95 % interval.

Welch's t-test: neither deviation is taken for the other's. Both are those of a sample (n - 1).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ict.recipes.recipe import Reported

PAPERS_RUNS = 3  # behind each number of ICT that the paper reports


@dataclass(frozen=True)
class Difference:
    """Ours less the paper's, in percentage points; one run, or a number without a deviation, has no interval."""

    points: float
    low: float | None = None
    high: float | None = None
    p: float | None = None

    @property
    def verdict(self) -> str:
        if self.low is None or self.high is None:
            return "no interval"
        return "lower" if self.high < 0 else "higher" if self.low > 0 else "no difference shown"


def from_paper(errors: Sequence[float], paper: Reported) -> Difference:
    """Of test errors in percent, one for each seed."""
    points = fmean(errors) - paper.mean
    if paper.std is None or len(errors) < 2:
        return Difference(points)
    from scipy.stats import ttest_ind  # takes half a second to load

    # a sample with the mean and deviation that are reported, since scipy's intervals are of samples
    papers = [paper.mean - paper.std, paper.mean, paper.mean + paper.std]
    assert len(papers) == PAPERS_RUNS
    test = ttest_ind(errors, papers, equal_var=False)
    low, high = test.confidence_interval(0.95)
    return Difference(points, float(low), float(high), float(test.pvalue))
