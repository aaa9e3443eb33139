"""A finished comparison as Markdown tables and a plot, from the content of its compare.json only.

Both can include reported errors in percent by method.
"""

import io
from collections.abc import Mapping
from math import isnan, nan
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ict.base.files import write_atomic
from ict.paper.difference import Difference, of_mean, paired
from ict.paper.table import number
from ict.recipes.recipe import Reported

Row = dict[str, Any]
Others = Mapping[str, Reported | None]
_NONE: Others = {}
_REFERENCE = "ict"
_FINAL, _STUDENT = "test_error", "test_error_student"  # with an average of the weights where there is one, and without
_PLACES = (
    "Places by paired differences of the test errors over the seeds that two methods share: a method is placed behind "
    "those whose error is shown to be lower (95 % intervals, not corrected for the number of comparisons). Methods "
    "whose places overlap are not ranked."
)


def table(summary: dict[str, Any], reported: Others = _NONE) -> str:
    """A Markdown table of the methods by place, and lines about the places and the runs."""
    rows, place = ranked(summary), places(summary)
    seconds = {row["method"]: _mean(row["seconds"]) for row in rows}
    base = seconds.get("supervised")
    both = all(_STUDENT in row for row in rows)
    finals, students = (against(summary, key) if both or key == _FINAL else {} for key in (_FINAL, _STUDENT))
    columns: dict[str, list[str]] = {
        "place": [place[row["method"]] for row in rows],
        "method": [row["method"] for row in rows],
        "test error (%)": [_errors(row, _FINAL) for row in rows],
    }
    if finals:
        columns["less ict"] = [_difference(finals.get(row["method"])) for row in rows]
    if both:
        columns["without an average (%)"] = [_errors(row, _STUDENT) for row in rows]
        if students:
            columns["less ict without"] = [_difference(students.get(row["method"]), verdict=False) for row in rows]
    columns |= {
        "validation error (%)": [percent(row["valid_error"]) for row in rows],
        "seconds a run": ["–" if (own := seconds[row["method"]]) is None else f"{own:.1f}" for row in rows],
        "times supervised": [
            f"{own / base:.2f}" if (own := seconds[row["method"]]) is not None and base else "–" for row in rows
        ],
        "seeds": [_seeds(row) for row in rows],
        "remark": ["; ".join(filter(None, [row["remark"], _alone(row), _diverged(row)])) for row in rows],
    }
    if reported:
        columns["reported (%)"] = [number(reported.get(row["method"])) for row in rows]
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    lines += [f"| {' | '.join(cells)} |" for cells in zip(*columns.values(), strict=True)]
    return "\n".join([*lines, "", _PLACES, "", _origin(summary), *_tuning(summary)])


def places(summary: dict[str, Any]) -> dict[str, str]:
    """By method the places that its paired differences leave it, such as "2 to 5"; – if a seed diverged."""
    low, high = _bounds(summary)
    return {
        method: (
            "–"
            if method not in low
            else str(low[method])
            if low[method] == high[method]
            else f"{low[method]} to {high[method]}"
        )
        for method in (row["method"] for row in summary["rows"])
    }


def _bounds(summary: dict[str, Any]) -> tuple[dict[str, int], dict[str, int]]:
    """The first and the last place of each method without a diverged run."""
    whole = [row for row in summary["rows"] if not row["diverged"]]
    verdicts = {
        row["method"]: [_paired(other, row, _FINAL, summary).verdict for other in whole if other is not row]
        for row in whole
    }
    low = {method: 1 + found.count("lower") for method, found in verdicts.items()}
    high = {method: len(whole) - found.count("higher") for method, found in verdicts.items()}
    return low, high


def ranked(summary: dict[str, Any]) -> list[Row]:
    """The rows by place, those that share one in the order of the comparison; rows with a diverged run come last."""
    low, high = _bounds(summary)
    return sorted(
        summary["rows"],
        key=lambda row: (len(row["diverged"]), low.get(row["method"], 0), high.get(row["method"], 0)),
    )


def against(summary: dict[str, Any], key: str = _FINAL) -> dict[str, Difference]:
    """By method its error less that of ICT, over the seeds of both; empty without ICT."""
    rows = {row["method"]: row for row in summary["rows"]}
    if _REFERENCE not in rows or len(rows) == 1:
        return {}
    ict = rows.pop(_REFERENCE)
    return {method: _paired(row, ict, key, summary) for method, row in rows.items()}


def _paired(row: Row, other: Row, key: str, summary: dict[str, Any]) -> Difference:
    errors, others = (_by_seed(r, key, summary) for r in (row, other))
    seeds = sorted(errors.keys() & others.keys())
    if not seeds:
        return Difference(nan)
    return paired([errors[seed] for seed in seeds], [others[seed] for seed in seeds])


def _by_seed(row: Row, key: str, summary: dict[str, Any]) -> dict[int, float]:
    """The errors in percent of the runs that did not diverge. Earlier files have the seeds of all rows only."""
    seeds = row.get("seeds", summary["seeds"])
    return {seed: 100 * error for seed, error in zip(seeds, row[key], strict=False) if error is not None}


def draw(path: Path, summary: dict[str, Any], reported: Others = _NONE) -> None:
    """Plot a line per method, by place: its errors, and its paired differences from ICT with 95 % intervals.

    On the left a dot per seed, a bar for the mean with its 95 % interval, a ring for the reported error; on the right
    filled marks for the evaluated network and open ones for that without an average.
    """
    rows = ranked(summary)
    keys = [_FINAL, *([_STUDENT] if all(_STUDENT in row for row in rows) else [])]
    differences = {key: against(summary, key) for key in keys}
    panels = 2 if differences[_FINAL] else 1
    figure = Figure(figsize=(3 + 4 * panels, 1.6 + 0.32 * len(rows)), layout="constrained")
    axes, *right = figure.subplots(1, panels, sharey=True, squeeze=False)[0]
    for y, row in enumerate(rows):
        values = [100 * value for value in _known(row[_FINAL])]
        axes.scatter(values, [y] * len(values), s=36, color=_color(row), alpha=0.7, linewidths=0, zorder=3)
        if bounds := of_mean(values):
            axes.plot(bounds, [y, y], color="gray", linewidth=1.5, zorder=1)
        if values:
            axes.scatter([fmean(values)], [y], marker="|", s=260, linewidths=2, color="black", zorder=2)
        if other := reported.get(row["method"]):
            axes.scatter([other.mean], [y], s=70, facecolors="none", edgecolors="tab:red", zorder=2)
    axes.set_yticks(range(len(rows)), [_label(row, places(summary)) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    rings = "; a ring: reported" if reported else ""
    axes.set_xlabel(f"test error (%): a dot per seed,\na bar for the mean with its 95 % interval{rings}")
    for other_axes in right:
        _draw_differences(other_axes, rows, differences)
    figure.suptitle(f"{summary['task']}, {summary['budget']} updates; overlapping places: no ranking")
    for each in (axes, *right):
        each.grid(alpha=0.3)
        each.set_axisbelow(True)
    picture = io.BytesIO()
    figure.savefig(picture, dpi=120, format="png")
    write_atomic(path, picture.getvalue())


def _draw_differences(axes: Axes, rows: list[Row], differences: dict[str, dict[str, Difference]]) -> None:
    axes.axvline(0, color="tab:green", linewidth=1.5)
    for (key, of_key), shift in zip(differences.items(), (-0.12, 0.16), strict=False):
        for y, row in enumerate(rows):
            found = of_key.get(row["method"])
            if found is None or isnan(found.points):
                continue
            if found.low is not None and found.high is not None:
                axes.plot([found.low, found.high], [y + shift] * 2, color="tab:blue", linewidth=1.5)
            face = "tab:blue" if key == _FINAL else "white"
            axes.scatter([found.points], [y + shift], s=30, facecolors=face, edgecolors="tab:blue", zorder=3)
    axes.set_xlabel(
        "less ict, paired, in points, with 95 % interval"
        + ("\n(open: without an average)" if len(differences) > 1 else "")
    )


def _color(row: Row) -> str:
    return "tab:green" if row["method"] == _REFERENCE else "tab:blue"


def _errors(row: Row, key: str) -> str:
    return "diverged" if row["diverged"] and not _known(row[key]) else percent(row[key])


def _difference(found: Difference | None, *, verdict: bool = True) -> str:
    if found is None or isnan(found.points):
        return "–"
    if found.low is None:
        return f"{found.points:+.2f}"
    return f"{found.points:+.2f} ({found.interval})" + (f": {found.verdict}" if verdict else "")


def _seeds(row: Row) -> str:
    tested = len(row["test_error"])
    return f"{len(_known(row['test_error']))} of {tested}" if row["diverged"] else str(tested)


def _tuning(summary: dict[str, Any]) -> list[str]:
    """What the search of each method's settings tried, as a table; nothing without a search."""
    if "tuning" not in summary:
        return []
    seeds = summary["tuning"]["seeds"]
    lines = [
        "",
        f"Settings by mean validation error (%) on seeds {seeds[0]} to {seeds[-1]}, in runs of full length, one "
        "setting after the other; a grid grows while the best value is at its edge.",
        "",
        "| method | setting | values: validation error (%) | chosen |",
        "|---|---|---|---|",
    ]
    for method, grids in summary["tuning"]["methods"].items():
        for grid in grids:
            tried = ", ".join(f"{value}: {100 * error:.2f}" for value, error in grid["tried"].items())
            edge = " (at the edge)" if grid["at_edge"] else ""
            lines.append(f"| {method} | {grid['key']} | {tried} | {grid['chosen']:g}{edge} |")
    return lines


def _origin(summary: dict[str, Any]) -> str:
    seeds, (*shared, last) = summary["seeds"], summary["shared"]
    which = f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
    partial = f"only the first {summary['n_test']} test examples, " if summary["partial"] else ""
    return (
        f"{summary['task']}: {summary['budget']} updates a run, {which}, {partial}{', '.join(shared)} and {last} the "
        f"same for all; {summary['device']} ({summary['machine']}), {summary['finished'][:10]}."
    )


def _label(row: Row, place: Mapping[str, str]) -> str:
    where = f"{len(row['diverged'])} diverged" if row["diverged"] else place[row["method"]]
    return f"{row['method']} ({where})"


def _alone(row: Row) -> str:
    return "" if row.get("averaged", True) else "no average"


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
