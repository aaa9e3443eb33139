"""The figures of a search: the validation error over the parameters and over the trials, and the importances."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from ict.report.figures import FAINT, FIRST, INK, SECOND, legend_above, new_axes, page_style, svg
from ict.report.page import printable

Row = dict[str, Any]


def heat_map(rows: Sequence[Row], keys: Sequence[str], space: Mapping[str, Any], winner: int | None) -> str:
    """A table with the first parameter downwards and the best trial of each cell; incomplete ones in brackets."""
    down, across = (space[key]["choices"] for key in keys)
    cells: dict[tuple[int, int], Row] = {}
    for row in sorted(rows, key=lambda row: (row["outcome"] == "complete", -row["valid_error"])):
        cells[down.index(row["params"][keys[0]]), across.index(row["params"][keys[1]])] = row
    strength = _strengths(list(cells.values()))
    with page_style():
        figure, axes = new_axes(max(4.0, 1.2 + 0.9 * len(across)), max(2.0, 1.0 + 0.45 * len(down)))
        axes.grid(visible=False)
        for (i, j), row in cells.items():
            value = f"{100 * row['valid_error']:.2f}"
            place = (j - 0.48, i - 0.46)
            axes.add_patch(
                Rectangle(place, 0.96, 0.92, color=SECOND, alpha=0.6 - 0.5 * strength[row["number"]], linewidth=0)
            )
            axes.text(j, i, value if row["outcome"] == "complete" else f"({value})", ha="center", va="center")
            if row["number"] == winner:
                axes.add_patch(Rectangle(place, 0.96, 0.92, fill=False, edgecolor=INK, linewidth=2))
        axes.set(xlim=(-0.5, len(across) - 0.5), ylim=(len(down) - 0.5, -0.5))
        axes.set(xlabel=printable(keys[1]), ylabel=printable(keys[0]))
        axes.set_xticks(range(len(across)), [short(value) for value in across])
        axes.set_yticks(range(len(down)), [short(value) for value in down])
        for side in axes.spines.values():
            side.set_visible(False)
        return svg(figure, "heat-map", "Validation error of each pair of values")


def line(rows: Sequence[Row], key: str, space: Mapping[str, Any]) -> str:
    with page_style():
        figure, axes = new_axes(5, 3)
        if choices := space[key].get("choices"):
            _scatter(axes, [choices.index(row["params"][key]) for row in rows], rows)
            axes.set_xticks(range(len(choices)), [short(value) for value in choices])
        else:
            _scatter(axes, [row["params"][key] for row in rows], rows)
            axes.set_xscale("log" if space[key]["scale"] == "log" else "linear")
        axes.set(xlabel=printable(key), ylabel="validation error (%)")
        return svg(figure, "line", "Validation error by parameter")


def parallel_coordinates(rows: Sequence[Row], keys: Sequence[str], space: Mapping[str, Any]) -> str:
    """A line for each trial through its values on each parameter's axis."""
    errors, strength = [100 * row["valid_error"] for row in rows], _strengths(rows)
    with page_style():
        figure, axes = new_axes(max(5.0, 1.6 * (len(keys) + 1)), 4)
        axes.grid(visible=False)
        for row in sorted(rows, key=lambda row: -row["valid_error"]):
            strong = strength[row["number"]]
            heights = [_height(row["params"][key], space[key]) for key in keys]
            style = "-" if row["outcome"] == "complete" else ":"
            axes.plot([*heights, 1 - strong], style, color=FIRST, alpha=0.15 + 0.85 * strong**2)
        for x, key in enumerate(keys):
            for height, label in _marks(space[key]):
                axes.text(x, height, f" {label}", fontsize=8, va="center")
        for height, error in ((0.0, min(errors)), (1.0, max(errors))):
            axes.text(len(keys), height, f" {error:.2f}", fontsize=8, va="center")
        for x in range(len(keys) + 1):
            axes.axvline(x, color=FAINT, linewidth=0.8, zorder=0)
        labels = [*(printable(key).replace(".", ".\n", 1) for key in keys), "validation\nerror (%)"]
        axes.set_xticks(range(len(keys) + 1), labels, fontsize=8)
        axes.set_xlim(-0.2, len(keys) + 0.5)
        axes.set_yticks([])
        for side in axes.spines.values():
            side.set_visible(False)
        return svg(figure, "parallel", "Validation error by parameters, as parallel coordinates")


def history(rows: Sequence[Row]) -> str:
    """The error of each trial in the order of their numbers, and the best so far."""
    rows = sorted(rows, key=lambda row: row["number"])
    complete = [row for row in rows if row["outcome"] == "complete"]
    best = [100 * min(row["valid_error"] for row in complete[: i + 1]) for i in range(len(complete))]
    with page_style():
        figure, axes = new_axes(5, 3)
        _scatter(axes, [row["number"] for row in rows], rows)
        if complete:  # extend the line to the last trial
            places = [*(row["number"] for row in complete), rows[-1]["number"]]
            axes.step(places, [*best, best[-1]], where="post", color=SECOND, linestyle="--", label="best so far")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel="trial", ylabel="validation error (%)")
        legend_above(axes, 3)
        return svg(figure, "history", "Validation error of each trial and the best so far")


def importances(shares: Mapping[str, float]) -> str:
    names = sorted(shares, key=lambda name: shares[name])
    with page_style():
        figure, axes = new_axes(5, 0.9 + 0.35 * len(shares))
        axes.grid(visible=False, axis="y")
        axes.set_axisbelow(True)
        axes.barh(range(len(names)), [100 * shares[name] for name in names], color=FIRST, height=0.6)
        axes.set_yticks(range(len(names)), [printable(name) for name in names])
        axes.set_xlabel("share (%)")
        return svg(figure, "importances", "Importance of each parameter")


def short(value: Any) -> str:
    """A value with few digits."""
    return f"{value:.4g}" if isinstance(value, float) else printable(str(value))


def _strengths(rows: Sequence[Row]) -> dict[int, float]:
    """By trial: 1 for the smallest error, 0 for the largest."""
    errors = [row["valid_error"] for row in rows]
    width = max(errors) - min(errors)
    return {row["number"]: (max(errors) - row["valid_error"]) / width if width else 0.5 for row in rows}


def _scatter(axes: Axes, places: Sequence[float], rows: Sequence[Row]) -> None:
    """A dot for each trial, hollow if it is not complete."""
    for done, fill, label in ((True, FIRST, "complete"), (False, "none", "not complete")):
        chosen = [i for i, row in enumerate(rows) if (row["outcome"] == "complete") is done]
        if chosen:
            errors = [100 * rows[i]["valid_error"] for i in chosen]
            axes.scatter([places[i] for i in chosen], errors, s=28, facecolors=fill, edgecolors=FIRST, label=label)


def _height(value: Any, param: Mapping[str, Any]) -> float:
    """The position of a value on its axis, from 0 to 1."""
    if choices := param.get("choices"):
        return float(choices.index(value) / max(len(choices) - 1, 1))
    scaled = math.log if param["scale"] == "log" else float
    low, high = scaled(param["low"]), scaled(param["high"])
    return (scaled(value) - low) / (high - low)


def _marks(param: Mapping[str, Any]) -> list[tuple[float, str]]:
    """The positions and labels of the marks on an axis."""
    values = param.get("choices") or [param["low"], param["high"]]
    return [(_height(value, param), short(value)) for value in values]
