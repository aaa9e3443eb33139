"""The blocks of docs/tables.md: methods on tables and on frozen features, from what the benchmarks wrote."""

from collections.abc import Callable
from statistics import fmean, median, stdev
from typing import Any

from over_sets import mean_over_sets
from result_files import ROOT, origin, read
from scipy.stats import rankdata

from ict.paper.table import markdown

Cell = dict[str, Any]
NEW, POOL = "test", "unlabeled"
METHODS = ("forest", "trees", "logistic", "graph", "supervised", "anchored")
NAMES = {
    "forest": "random forest, 100 trees",
    "trees": "extremely randomized trees, 100",
    "logistic": "logistic regression",
    "graph": "graph propagation",
    "supervised": "the same network, labels alone",
    "anchored": "**anchored ICT** (`ICTClassifier`)",
    "unmixed": "without mixing",
    "unanchored": "without an anchor (share 0)",
    "share .25": "the anchor's share .25",
    "share .75": "the anchor's share .75",
    "weight 3": "weight 3 instead of 1",
    "not sharpened": "T = 1 instead of .5",
    "distilled": "the prior distilled (share 1, T = 1, weight 5)",
    "anchored on the graph": "anchored on the graph alone",
    "mean of experts": "the experts' weighted mean",
    "equal weights": "the experts' plain mean",
    "mean of both": "the mean of experts and student",
}
_FAR = 0.05
_RIVALS = {"tables": ("forest",), "features": ("logistic", "graph")}  # what a person would do instead


def main_table(name: str, skewed: bool = False) -> str:
    """Accuracy on new rows, ranks, and how often a method is far below others."""
    groups = _groups(name, skewed)
    header = [""]
    for n in groups:
        header += [f"{n} labels a class", "rank", "5 points below the forest", "above / below it"]
    rows = []
    for method in METHODS:
        row = [NAMES[method]]
        for cells in groups.values():
            ranks = [rankdata([-cell["accuracy"][m][NEW] for m in METHODS])[METHODS.index(method)] for cell in cells]
            above = [_of(cell, method) - _of(cell, "forest") for cell in cells]
            far = fmean(difference < -_FAR for difference in above)
            wins, losses = sum(d > 0 for d in above), sum(d < 0 for d in above)
            own = method == "forest"
            row += [f"{100 * fmean(_of(cell, method) for cell in cells):.1f}", f"{fmean(ranks):.1f}"]
            row += ["-", "-"] if own else [f"{far:.0%}", f"{wins} / {losses}"]
        rows.append(row)
    return markdown(header, rows)


def means(name: str, labels: int) -> dict[str, float]:
    """Accuracies in percent on new rows and the number of sets, for the README."""
    cells = _groups(name)[labels]
    accuracies = {method: 100 * fmean(_of(cell, method) for cell in cells) for method in METHODS}
    return accuracies | {"sets": len({cell["data"] for cell in cells})}


def skewed_table(name: str) -> str:
    groups = _groups(name, skewed=True)
    rows = [[NAMES[m], *(_percent([_of(c, m) for c in cells]) for cells in groups.values())] for m in METHODS]
    rows += [
        [NAMES[m], *(_percent([_of(c, m, POOL) for c in cells]) for cells in groups.values())]
        for m in ("mean of experts", "mean of both")
    ]
    return markdown(["", *(f"{n} labels a class" for n in groups)], rows)


def variants(name: str) -> str:
    """What each variant gains or loses, cell by cell, against anchored ICT."""
    groups = _groups(name)
    known = [m for m in NAMES if m not in METHODS]
    rows = []
    for method in known:
        where = POOL if method in ("mean of experts", "equal weights", "mean of both") else NEW
        row = [NAMES[method], "new" if where == NEW else "unlabeled"]
        for cells in groups.values():
            row.append(_difference([_of(c, method, where) - _of(c, "anchored", where) for c in _with(cells, method)]))
        rows.append(row)
    return markdown(["against anchored ICT, in points", "rows", *(f"{n} labels a class" for n in groups)], rows)


def by_set(name: str) -> str:
    groups = _groups(name)
    shown = ("forest", "supervised", "anchored")
    sets = sorted({cell["data"] for cells in groups.values() for cell in cells})
    header = ["", *(f"{NAMES[m].split(',')[0]}, {n}" for n in groups for m in shown)]
    rows = [
        [data, *(_percent([_of(c, m) for c in cells if c["data"] == data]) for cells in groups.values() for m in shown)]
        for data in sets
    ]
    return markdown(header, rows)


def against(name: str) -> str:
    """Anchored ICT beside what a person would do instead, with intervals."""
    groups = _groups(name)
    rows = [
        [
            NAMES[rival],
            *(
                mean_over_sets((c["data"], _of(c, "anchored") - _of(c, rival)) for c in cells)
                for cells in groups.values()
            ),
        ]
        for rival in _RIVALS[name]
    ]
    return markdown(["anchored ICT, in points above", *(f"{n} labels a class" for n in groups)], rows)


def facts(name: str) -> str:
    """Collapses, time and origin in sentences."""
    result, groups = read(name), _groups(name)
    collapsed = ", ".join(
        f"{fmean(_of(c, 'anchored') - _of(c, 'supervised') < -_FAR for c in cells):.0%} of {len(cells)} cells at {n}"
        for n, cells in groups.items()
    )
    cells = [cell for group in groups.values() for cell in group]
    seconds = [cell["seconds"] for cell in cells]
    ratios = [(of["experts"] + of["anchored"]) / of["forest of 200"] for of in seconds]
    whole = [of["ICTClassifier"] / of["forest of 200"] for of in seconds if "ICTClassifier" in of]
    rows = max(cell["rows"] for cell in cells)
    seeds = len({cell["seed"] for cell in cells})
    return (
        f"Anchored ICT is more than 5 points below its own network trained on the labels alone in {collapsed} labels a "
        f"class. A fit, experts included, takes {median(ratios):.0f} times the CPU seconds of a 200-tree forest that "
        f"is fitted to the same labels, and at most {max(ratios):.0f} times, with up to {rows:,} rows. {_whole(whole)}"
        f"Intervals are of 95 % over the sets; {seeds} seeds, {origin(result)}. "
        f"File: [{name}.json](../results/{name}.json), written by `benchmarks/{name}.py`."
    )


def _whole(ratios: list[float]) -> str:
    if not ratios:
        return ""
    return (
        f"`ICTClassifier`, which also fits folds to calibrate its probabilities, takes {median(ratios):.0f} "
        f"times and at most {max(ratios):.0f} times. "
    )


def _groups(name: str, skewed: bool = False) -> dict[int, list[Cell]]:
    """Cells by the number of labels a class."""
    cells = [cell for cell in read(name)["cells"] if cell["skewed"] == skewed]
    return {n: [cell for cell in cells if cell["labels"] == n] for n in sorted({cell["labels"] for cell in cells})}


def _with(cells: list[Cell], method: str) -> list[Cell]:
    return [cell for cell in cells if method in cell["accuracy"]]


def _of(cell: Cell, method: str, rows: str = NEW) -> float:
    return float(cell["accuracy"][method][rows])


def _percent(values: list[float]) -> str:
    return f"{100 * fmean(values):.1f}" if values else "-"


def _difference(values: list[float]) -> str:
    if not values:
        return "-"
    error = 100 * stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return f"{100 * fmean(values):+.1f} ± {error:.1f}"


def measured(name: str, text: Callable[[], str]) -> Callable[[], str]:
    """The text, once the benchmark has written its file."""
    missing = f"Not measured yet: `benchmarks/{name}.py` writes results/{name}.json."
    return lambda: text() if (ROOT / f"results/{name}.json").exists() else missing


BLOCKS: dict[str, Callable[[], str]] = {
    "tables": measured("tables", lambda: "\n\n".join([main_table("tables"), against("tables"), facts("tables")])),
    "tables-variants": measured("tables", lambda: variants("tables")),
    "tables-sets": measured("tables", lambda: by_set("tables")),
    "features": measured(
        "features", lambda: "\n\n".join([main_table("features"), against("features"), facts("features")])
    ),
    "features-sets": measured("features", lambda: by_set("features")),
    "features-variants": measured("features", lambda: variants("features")),
    "features-skewed": measured("features", lambda: skewed_table("features")),
}
