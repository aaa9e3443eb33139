"""A finished comparison as a Markdown table and a plot, from the content of its compare.json only.

Both can include reported errors in percent by method.
"""

import io
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from matplotlib.figure import Figure

from ict.base.files import write_atomic
from ict.paper.table import number
from ict.recipes.recipe import Reported

Row = dict[str, Any]
Others = Mapping[str, Reported | None]
_NONE: Others = {}
_HEADINGS = (
    "rank", "method", "test error (%)", "validation error (%)", "seconds a run", "times supervised", "seeds", "remark",
)  # fmt: skip


def table(summary: dict[str, Any], reported: Others = _NONE) -> str:
    """A Markdown table of the methods by increasing mean test error, and a line about the runs."""
    seconds = {row["method"]: _mean(row["seconds"]) for row in summary["rows"]}
    base = seconds.get("supervised")
    headings = [*_HEADINGS, *(["reported (%)"] if reported else [])]
    lines = [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings)]
    for rank, row in enumerate(ranked(summary), 1):
        own = seconds[row["method"]]
        cells = [
            # no rank if a seed diverged: the mean over the others would be too good
            "–" if row["diverged"] else str(rank),
            row["method"],
            "diverged" if row["diverged"] and not _known(row["test_error"]) else percent(row["test_error"]),
            percent(row["valid_error"]),
            "–" if own is None else f"{own:.1f}",
            f"{own / base:.2f}" if own is not None and base else "–",
            f"{len(_known(row['test_error']))} of {len(row['test_error'])}"
            if row["diverged"]
            else str(len(row["seconds"])),
            "; ".join(filter(None, [row["remark"], _diverged(row)])),
        ]
        if reported:
            cells.append(number(reported.get(row["method"])))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", _origin(summary)])


def ranked(summary: dict[str, Any]) -> list[Row]:
    """The rows by mean test error; rows with a diverged run come last."""
    return sorted(summary["rows"], key=lambda row: (len(row["diverged"]), _mean(row["test_error"]) or 0.0))


def draw(path: Path, summary: dict[str, Any], reported: Others = _NONE) -> None:
    """Plot a line per method, the best on top: a dot per seed, a bar for the mean, a ring for the reported error."""
    rows = ranked(summary)
    figure = Figure(figsize=(7, 1.3 + 0.32 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    for y, row in enumerate(rows):
        values = [100 * value for value in _known(row["test_error"])]
        color = "tab:green" if row["method"] == "ict" else "tab:blue"
        axes.scatter(values, [y] * len(values), s=36, color=color, alpha=0.7, linewidths=0, zorder=3)
        if values:
            axes.scatter([fmean(values)], [y], marker="|", s=260, linewidths=2, color="black", zorder=2)
        if other := reported.get(row["method"]):
            axes.scatter([other.mean], [y], s=70, facecolors="none", edgecolors="tab:red", zorder=2)
    axes.set_yticks(range(len(rows)), [_label(row) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    rings = ", a ring: reported" if reported else ""
    axes.set_xlabel(f"test error (%): a dot per seed, a bar for the mean{rings}")
    axes.set_title(f"{summary['task']}, {summary['budget']} updates")
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    picture = io.BytesIO()
    figure.savefig(picture, dpi=120, format="png")
    write_atomic(path, picture.getvalue())


def _origin(summary: dict[str, Any]) -> str:
    seeds, (*shared, last) = summary["seeds"], summary["shared"]
    which = f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
    partial = f"only the first {summary['n_test']} test examples, " if summary["partial"] else ""
    return (
        f"{summary['task']}: {summary['budget']} updates a run, {which}, {partial}{', '.join(shared)} and {last} the "
        f"same for all; {summary['device']} ({summary['machine']}), {summary['finished'][:10]}."
    )


def _label(row: Row) -> str:
    diverged = f" ({len(row['diverged'])} diverged)" if row["diverged"] else ""
    return f"{row['method']}{diverged}"


def _diverged(row: Row) -> str:
    return f"diverged: seed {', '.join(row['diverged'])}" if row["diverged"] else ""


def percent(errors: list[float | None]) -> str:
    """Mean and standard deviation over the runs that did not diverge."""
    values = [100 * value for value in _known(errors)]
    if not values:
        return "–"
    return f"{fmean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


def _mean(values: list[float | None]) -> float | None:
    return fmean(known) if (known := _known(values)) else None


def _known(values: list[float | None]) -> list[float]:
    """The values of the runs that did not diverge."""
    return [value for value in values if value is not None]
