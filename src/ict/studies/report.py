"""The report of a search as one HTML page, from the content of its search.json only."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ict.experiment.console import percent
from ict.report.page import figure, figure_grid, page, section, shown, table
from ict.studies import report_figures as pictures
from ict.studies.report_figures import Row, short


def search_page(summary: dict[str, Any]) -> str:
    """The page. All names are escaped."""
    rows, keys, title = summary["trials"], list(summary["space"]), f"Search: {summary['recipe']}"
    judged = [row for row in rows if row["valid_error"] is not None]
    winner = None if summary["winner"] is None else int(summary["winner"]["number"])
    sections = [f'<header><p class="kicker">ict search</p><h1>{shown(title)}</h1>{_lead(summary)}</header>']
    if judged:
        sections.append(_landscape(judged, keys, summary["space"], winner))
        drawn = figure(pictures.history(judged), "Validation error of each trial, and the best so far")
        sections.append(section("History", figure_grid([drawn])))
    if len(summary["importances"]) > 1:
        sections.append(_importances(summary["importances"]))
    sections.append(section("Trials", _trials(rows, keys, winner)))
    return page(title, sections)


def _lead(summary: dict[str, Any]) -> str:
    rows, winner = summary["trials"], summary["winner"]
    counts = Counter(row["outcome"] for row in rows)
    if winner is None:
        result = "No trial is complete yet."
    else:
        params = ", ".join(f"{key} = {short(value)}" for key, value in winner["params"].items())
        result = (
            f"The best is trial {winner['number']} with <code>{shown(params)}</code> and a validation error of "
            f"<strong>{percent(winner['value'])}</strong>. Its recipe is <code>winner.json</code>: train it with "
            "<code>ict train winner.json</code>."
        )
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    return (
        f"<p>{result}</p>\n<p><small>{len(rows)} trials ({outcomes}); sampler {shown(summary['sampler'])}, seed "
        f"{summary['seed']}, {shown(summary['mode'])} mode, bad trials {'' if summary['prune'] else 'not '}stopped "
        f"early. Chosen by the {shown(summary['chosen_on'])}. The smallest of many errors on one validation split is "
        "too optimistic: only the test error of a new run measures how good the winner is. "
        f"{shown(summary['machine'])}, {shown(summary['finished'][:10])}.</small></p>"
    )


def _landscape(rows: list[Row], keys: Sequence[str], space: dict[str, Any], winner: int | None) -> str:
    """The validation error over the parameters."""
    if len(keys) == 2 and all("choices" in space[key] for key in keys):
        title, drawn = "Validation error over the grid", pictures.heat_map(rows, keys, space, winner)
        caption = "Validation error in percent; in brackets: not complete"
    elif len(keys) == 1:
        title, drawn = f"Validation error over {shown(keys[0])}", pictures.line(rows, keys[0], space)
        caption = "A dot for each trial"
    else:
        title, drawn = "Validation error by parameters", pictures.parallel_coordinates(rows, keys, space)
        caption = "A line for each trial, stronger for a smaller error; dotted: not complete"
    return section(title, figure_grid([figure(drawn, caption)], wide=True))


def _importances(shares: dict[str, float]) -> str:
    caption = (
        "The share of each parameter in the variance of the validation error that a random forest explains over the "
        "complete trials (mean decrease in impurity). With few trials it is only a hint."
    )
    return section("Importance of the parameters", figure_grid([figure(pictures.importances(shares), caption)]))


def _trials(rows: Sequence[Row], keys: Sequence[str], winner: int | None) -> str:
    heads = ["trial", *keys, "validation error", "best validation error", "updates", "seconds", "outcome"]
    ordered = sorted(rows, key=lambda row: (row["outcome"] != "complete", _or_infinity(row["valid_error"])))
    cells = [
        [
            str(row["number"]),
            *(short(row["params"].get(key)) if key in row["params"] else "" for key in keys),
            "" if row["valid_error"] is None else percent(row["valid_error"]),
            "" if row["valid_error_best"] is None else percent(row["valid_error_best"]),
            short(row["step"]) if row["step"] is not None else "",
            "" if row["seconds"] is None else f"{row['seconds']:.1f}",
            _outcome(row),
        ]
        for row in ordered
    ]
    marked = [row["number"] for row in ordered].index(winner) if winner is not None else None
    return table([shown(head) for head in heads], [[shown(c) for c in line] for line in cells], "trials", marked)


def _outcome(row: Row) -> str:
    resumed = f", resumed at {', '.join(map(str, row['resumed_from']))}" if row["resumed_from"] else ""
    return f"{row['outcome']}{resumed}" + (f": {row['error']}" if row["error"] else "")


def _or_infinity(value: float | None) -> float:
    return math.inf if value is None else value
