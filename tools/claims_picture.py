"""The picture of results/paper-claims.json."""

from collections.abc import Callable
from math import isnan, nan
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ict.paper.difference import of_mean

PANELS: tuple[tuple[str, Callable[[dict[str, Any]], float]], ...] = (
    ("test error (%)", lambda row: 100 * row["test_error"]),
    ("median margin of unlabeled points", lambda row: _median(row["margin"])),
    ("sparsity where segments cross the boundary", lambda row: _median(row["sparsity_crossing"])),
    ("sparsity at the nearest boundary points", lambda row: _median(row["sparsity_nearest"])),
)


def draw(path: Path, content: dict[str, Any]) -> None:
    """A row per task, a line per method: a dot per seed, a bar for the mean, a gray line for its 95 % interval."""
    methods: dict[str, list[str]] = {}
    for row in content["runs"]:
        of_task = methods.setdefault(row["task"], [])
        if row["method"] not in of_task:
            of_task.append(row["method"])
    heights = [len(names) for names in methods.values()]
    figure = Figure(figsize=(4 * len(PANELS), 1.6 + 0.35 * sum(heights) + len(heights)), layout="constrained")
    grid = figure.subplots(len(methods), len(PANELS), sharey="row", squeeze=False, height_ratios=heights)
    for (task, names), line in zip(methods.items(), grid, strict=True):
        for (title, value), axes in zip(PANELS, line, strict=True):
            for y, name in enumerate(names):
                rows = [row for row in content["runs"] if (row["task"], row["method"]) == (task, name)]
                _dots(axes, y, [found for row in rows if not isnan(found := value(row))])
            axes.set_xlabel(title)
            axes.grid(alpha=0.3)
        line[0].set_yticks(range(len(names)), names)
        line[0].set_ylim(len(names) - 0.5, -0.5)
        line[0].set_title(f"{task}, {len(content['seeds'])} seeds", loc="left")
    figure.savefig(path, dpi=110)


def _median(quantiles: dict[str, float] | None) -> float:
    """Not a number of a network without a boundary."""
    return quantiles["median"] if quantiles else nan


def _dots(axes: Axes, y: float, values: list[float]) -> None:
    if not values:
        return
    axes.scatter(values, [y] * len(values), s=24, color="tab:blue", alpha=0.6, linewidths=0, zorder=3)
    axes.scatter([fmean(values)], [y], marker="|", s=220, linewidths=2, color="black", zorder=2)
    if bounds := of_mean(values):
        axes.plot(bounds, [y, y], color="gray", linewidth=1.5, zorder=1)
