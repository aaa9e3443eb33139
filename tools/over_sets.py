"""The mean of differences that were measured on several data sets, with an interval over the sets."""

from collections.abc import Iterable
from statistics import fmean, stdev

from scipy.stats import t


def mean_over_sets(differences: Iterable[tuple[str, float]]) -> str:
    """In points, with Student's 95 % interval. `differences`: (set, fraction); those of one set are one value."""
    by_set: dict[str, list[float]] = {}
    for name, difference in differences:
        by_set.setdefault(name, []).append(100 * difference)
    means = [fmean(values) for values in by_set.values()]
    if len(means) < 2:
        return f"{fmean(means):+.1f}"
    half = t.ppf(0.975, len(means) - 1) * stdev(means) / len(means) ** 0.5
    return f"{fmean(means):+.1f} ({fmean(means) - half:+.1f} to {fmean(means) + half:+.1f})"
