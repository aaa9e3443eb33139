"""The report of a search: one self-contained HTML page, from the content of its search.json only."""

import base64
import io
import math
from collections.abc import Sequence
from html import escape
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from ict.experiment.console import percent

Row = dict[str, Any]
_COLORS = "viridis_r"  # dark is bad, and it prints in gray
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; color: #222; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin-top: 2rem; }
img { max-width: 100%; height: auto; display: block; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.9rem; }
th, td { padding: 0.3rem 0.6rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th:last-child, td:last-child { text-align: left; white-space: normal; min-width: 12rem; }
tr.winner { background: #e8f4e8; font-weight: 600; } .note { color: #555; font-size: 0.9rem; }
code { overflow-wrap: anywhere; }
"""


def page(summary: dict[str, Any]) -> str:
    """The HTML page. All names are escaped."""
    rows, keys = summary["trials"], list(summary["space"])
    judged = [row for row in rows if row["valid_error"] is not None]
    body = [f"<h1>Search: {escape(summary['recipe'])}</h1>", _lead(summary)]
    if judged:
        title, picture = _landscape(summary, judged, keys)
        body += [f"<h2>{title}</h2>", picture]
        body += ["<h2>History</h2>", _image(_history(judged), "validation error of each trial and the best so far")]
    if len(summary["importances"]) > 1:
        body += [
            "<h2>Importance of the parameters</h2>",
            _image(_importances(summary["importances"]), "importance of each parameter"),
            '<p class="note">The share of each parameter in the variance of the validation error that a random forest '
            "explains over the complete trials (mean decrease in impurity). With few trials it is only a hint.</p>",
        ]
    body += ["<h2>Trials</h2>", _table(rows, keys, _winner(summary))]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Search: {escape(summary['recipe'])}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _lead(summary: dict[str, Any]) -> str:
    rows, winner = summary["trials"], summary["winner"]
    counts = {outcome: sum(row["outcome"] == outcome for row in rows) for outcome in dict.fromkeys(_outcomes(rows))}
    if winner is None:
        result = "No trial is complete yet."
    else:
        params = ", ".join(f"{key} = {short(value)}" for key, value in winner["params"].items())
        result = (
            f"The best is trial {winner['number']} with <code>{escape(params)}</code> and a validation error of "
            f"<strong>{percent(winner['value'])}</strong>. Its recipe is <code>winner.json</code>: train it with "
            "<code>ict train winner.json</code>."
        )
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    return (
        f"<p>{result}</p>\n<p class='note'>{len(rows)} trials ({outcomes}); sampler {escape(summary['sampler'])}, seed "
        f"{summary['seed']}, {escape(summary['mode'])} mode, bad trials {'' if summary['prune'] else 'not '}stopped "
        f"early. Chosen by the {escape(summary['chosen_on'])}. The smallest of many errors on one validation split is "
        "too optimistic: only the test error of a new run measures how good the winner is. "
        f"{escape(summary['machine'])}, {escape(summary['finished'][:10])}.</p>"
    )


def _winner(summary: dict[str, Any]) -> int | None:
    return None if summary["winner"] is None else int(summary["winner"]["number"])


def _outcomes(rows: Sequence[Row]) -> list[str]:
    return [row["outcome"] for row in rows]


def _table(rows: Sequence[Row], keys: Sequence[str], winner: int | None) -> str:
    heads = ["trial", *keys, "validation error", "best validation error", "updates", "seconds", "outcome"]
    lines = ["<tr>" + "".join(f"<th>{escape(head)}</th>" for head in heads) + "</tr>"]
    judged = sorted(rows, key=lambda row: (row["outcome"] != "complete", _or_infinity(row["valid_error"])))
    for row in judged:
        cells = [
            str(row["number"]),
            *(short(row["params"].get(key)) if key in row["params"] else "" for key in keys),
            "" if row["valid_error"] is None else percent(row["valid_error"]),
            "" if row["valid_error_best"] is None else percent(row["valid_error_best"]),
            short(row["step"]) if row["step"] is not None else "",
            "" if row["seconds"] is None else f"{row['seconds']:.1f}",
            _outcome(row),
        ]
        mark = ' class="winner"' if row["number"] == winner else ""
        lines.append(f"<tr{mark}>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    return '<div class="scroll"><table>\n' + "\n".join(lines) + "\n</table></div>"


def _outcome(row: Row) -> str:
    resumed = f", resumed at {', '.join(map(str, row['resumed_from']))}" if row["resumed_from"] else ""
    return f"{row['outcome']}{resumed}" + (f": {row['error']}" if row["error"] else "")


def _landscape(summary: dict[str, Any], rows: list[Row], keys: Sequence[str]) -> tuple[str, str]:
    """Title and image of the validation error over the parameters."""
    space = summary["space"]
    if len(keys) == 2 and all("choices" in space[key] for key in keys):
        return "Validation error over the grid", _image(
            _heat_map(rows, keys, space, _winner(summary)), "heat map of validation error"
        )
    if len(keys) == 1:
        return f"Validation error over {escape(keys[0])}", _image(_line(rows, keys[0], space), "error by parameter")
    return "Validation error by parameters", _image(_parallel(rows, keys, space), "parallel coordinates")


def _heat_map(rows: list[Row], keys: Sequence[str], space: dict[str, Any], winner: int | None) -> Figure:
    """A heat map with the first parameter downwards and the best trial of each cell; incomplete ones in brackets."""
    down, across = (space[key]["choices"] for key in keys)
    figure = Figure(figsize=(max(4.0, 1.2 + 0.9 * len(across)), max(2.5, 1.2 + 0.55 * len(down))), layout="constrained")
    axes = figure.add_subplot()
    cells: dict[tuple[int, int], Row] = {}
    for row in sorted(rows, key=lambda row: (row["outcome"] == "complete", -row["valid_error"])):
        cells[down.index(row["params"][keys[0]]), across.index(row["params"][keys[1]])] = row
    errors = [100 * row["valid_error"] for row in cells.values()]
    scale = Normalize(min(errors), max(errors))
    grid = [[100 * cells[i, j]["valid_error"] if (i, j) in cells else None for j in range(len(across))]
            for i in range(len(down))]  # fmt: skip
    axes.imshow([[float("nan") if x is None else x for x in line] for line in grid], cmap=_COLORS, norm=scale)
    axes.set_aspect("auto")
    for (i, j), row in cells.items():
        value = 100 * row["valid_error"]
        label = f"{value:.2f}" if row["outcome"] == "complete" else f"({value:.2f})"
        color = "white" if scale(value) > 0.5 else "black"
        axes.text(j, i, label, ha="center", va="center", color=color, fontsize=9)
        if row["number"] == winner:
            axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, edgecolor="tab:red", linewidth=2.5))
    axes.set_xticks(range(len(across)), [short(value) for value in across], parse_math=False)
    axes.set_yticks(range(len(down)), [short(value) for value in down], parse_math=False)
    axes.set_xlabel(keys[1], parse_math=False)
    axes.set_ylabel(keys[0], parse_math=False)
    axes.set_title("validation error (%); in brackets: not complete", fontsize=9)
    return figure


def _line(rows: list[Row], key: str, space: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    axes = figure.add_subplot()
    if choices := space[key].get("choices"):
        _scatter(axes, [choices.index(row["params"][key]) for row in rows], rows)
        axes.set_xticks(range(len(choices)), [short(value) for value in choices], parse_math=False)
    else:
        _scatter(axes, [row["params"][key] for row in rows], rows)
        axes.set_xscale("log" if space[key]["scale"] == "log" else "linear")
    axes.set_xlabel(key, parse_math=False)
    axes.set_ylabel("validation error (%)")
    return figure


def _parallel(rows: list[Row], keys: Sequence[str], space: dict[str, Any]) -> Figure:
    """A parallel-coordinates plot: a line per trial through its values on each parameter's axis."""
    figure = Figure(figsize=(max(5.0, 1.6 * (len(keys) + 1)), 4), layout="constrained")
    axes = figure.add_subplot()
    errors = [100 * row["valid_error"] for row in rows]
    scale = Normalize(min(errors), max(errors))
    colors = colormaps[_COLORS]
    for row, error in sorted(zip(rows, errors, strict=True), key=lambda pair: -pair[1]):
        heights = [_height(row["params"][key], space[key]) for key in keys]
        heights.append(scale(error) if scale.vmax != scale.vmin else 0.5)
        style = "-" if row["outcome"] == "complete" else ":"
        axes.plot(range(len(heights)), heights, style, color=colors(scale(error)), alpha=0.8)
    for x, key in enumerate(keys):
        axes.axvline(x, color="#999", linewidth=0.8, zorder=0)
        for height, label in _marks(space[key]):
            axes.text(x, height, f" {label}", fontsize=8, va="center", parse_math=False)
    axes.axvline(len(keys), color="#999", linewidth=0.8, zorder=0)
    for height, error in ((0.0, min(errors)), (1.0, max(errors))):
        axes.text(len(keys), height, f" {error:.2f}", fontsize=8, va="center")
    labels = [*(key.replace(".", ".\n", 1) for key in keys), "validation\nerror (%)"]
    axes.set_xticks(range(len(keys) + 1), labels, fontsize=8, parse_math=False)
    axes.set_xlim(-0.2, len(keys) + 0.5)
    axes.set_yticks([])
    axes.set_title("one line per trial; dotted: not complete", fontsize=9)
    for side in axes.spines.values():
        side.set_visible(False)
    return figure


def _height(value: Any, param: dict[str, Any]) -> float:
    """The position of a value on its axis, from 0 to 1."""
    if choices := param.get("choices"):
        return float(choices.index(value) / max(len(choices) - 1, 1))
    scaled = math.log if param["scale"] == "log" else float
    low, high = scaled(param["low"]), scaled(param["high"])
    return (scaled(value) - low) / (high - low)


def _marks(param: dict[str, Any]) -> list[tuple[float, str]]:
    """The positions and labels of the marks on an axis."""
    values = param.get("choices") or [param["low"], param["high"]]
    return [(_height(value, param), short(value)) for value in values]


def _history(rows: list[Row]) -> Figure:
    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.add_subplot()
    rows = sorted(rows, key=lambda row: row["number"])
    _scatter(axes, [row["number"] for row in rows], rows)
    complete = [row for row in rows if row["outcome"] == "complete"]
    best = [100 * min(row["valid_error"] for row in complete[: i + 1]) for i in range(len(complete))]
    if complete:  # extend the line to the last trial
        places = [*(row["number"] for row in complete), rows[-1]["number"]]
        axes.step(places, [*best, best[-1]], where="post", color="tab:green", label="best so far")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("trial")
    axes.set_ylabel("validation error (%)")
    axes.legend(fontsize=8)
    return figure


def _importances(shares: dict[str, float]) -> Figure:
    figure = Figure(figsize=(6, 0.9 + 0.35 * len(shares)), layout="constrained")
    axes = figure.add_subplot()
    names = sorted(shares, key=lambda name: shares[name])
    axes.barh(range(len(names)), [100 * shares[name] for name in names], color="tab:blue", height=0.6)
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.set_xlabel("share (%)")
    return figure


def _scatter(axes: Axes, places: Sequence[float], rows: Sequence[Row]) -> None:
    """A dot per trial, hollow if it is not complete."""
    for done, fill, label in ((True, "tab:blue", "complete"), (False, "none", "not complete")):
        chosen = [i for i, row in enumerate(rows) if (row["outcome"] == "complete") is done]
        if chosen:
            errors = [100 * rows[i]["valid_error"] for i in chosen]
            axes.scatter([places[i] for i in chosen], errors, s=28, facecolors=fill, edgecolors="tab:blue", label=label)
    axes.grid(alpha=0.3)


def _image(figure: Figure, alternative: str) -> str:
    picture = io.BytesIO()
    figure.savefig(picture, format="svg", metadata={"Date": None})
    content = base64.b64encode(picture.getvalue()).decode()
    return f'<img alt="{escape(alternative)}" src="data:image/svg+xml;base64,{content}">'


def short(value: Any) -> str:
    """A value with few digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _or_infinity(value: float | None) -> float:
    return float("inf") if value is None else value
