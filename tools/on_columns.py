"""The blocks of docs/tables.md on tables with categories and gaps, from what the benchmarks on them wrote."""

from collections import Counter
from statistics import fmean
from typing import Any

from on_vectors import measured
from over_sets import mean_over_sets
from result_files import origin, read

from ict.paper.table import markdown

Cell = dict[str, Any]
NAMES = {
    "boosting": "gradient boosting",
    "boosting, small leaves": "gradient boosting, leaves of 2 rows",
    "forest": "random forest, 100 trees",
    "anchored": "**anchored ICT** (`ICTClassifier`)",
    "auto": "**auto** (`SemiSupervisedClassifier`)",
}
PAIRS = (
    *(("anchored", other) for other in ("boosting", "boosting, small leaves", "forest")),
    *(("auto", other) for other in ("forest", "anchored")),
)
SCALES = {
    "own deviation": "each feature's own deviation, as for numbers",
    "column": "one deviation for all words of a column together",
    "chosen": "**as it is done**: two words, and true and false, are sqrt(2) apart, a gap and none .5",
    "gaps whole": "the same with a gap and none 1 apart",
    "no gaps": "the same without a mark for gaps",
}
KINDS = {"": "tables as they are", "gaps": "gaps at random", "high": "gaps in high values"}


def accuracies() -> str:
    cells = _cells(read("columns"))
    groups = _groups(cells)
    rows = [
        [NAMES[m], *(f"{100 * fmean(_of(c, m) for c in some):.1f}" for some in groups.values())] for m in _in_all(cells)
    ]
    return markdown(["", *(f"{n} labels a class" for n in groups)], rows)


def differences() -> str:
    """Paired differences, with intervals over the tables: what one table says with and without gaps is one value."""
    groups = _groups(_cells(read("columns")))
    rows = [
        [NAMES[ours], NAMES[other], *(difference(cells, ours, other) for cells in groups.values())]
        for ours, other in PAIRS
        if all(any(ours in cell["accuracy"] for cell in cells) for cells in groups.values())
    ]
    return markdown(["", "against", *(f"{n} labels a class" for n in groups)], rows)


def difference(cells: list[Cell], ours: str, other: str) -> str:
    measured_both = [cell for cell in cells if ours in cell["accuracy"]]
    return mean_over_sets((cell["data"].split()[0], _of(cell, ours) - _of(cell, other)) for cell in measured_both)


def by_set() -> str:
    cells = _cells(read("columns"))
    groups = _groups(cells)
    sets = list(dict.fromkeys(cell["data"] for cell in cells))
    shown = [name for name in _in_all(cells) if name != "boosting"]
    rows = [
        [data, *(_mean([c for c in some if c["data"] == data], m) for some in groups.values() for m in shown)]
        for data in sets
    ]
    return markdown(["", *(f"{NAMES[m].split(',')[0]}, {n}" for n in groups for m in shown)], rows)


def facts() -> str:
    result = read("columns")
    cells = _cells(result)
    took = []
    for name in ("forest", "anchored", "auto"):
        if seconds := [cell["seconds"][name] for cell in cells if name in cell["seconds"]]:
            took.append(f"{name} {fmean(seconds):.1f}")
    seeds = {n: len({cell["seed"] for cell in some}) for n, some in _groups(cells).items()}
    number = " and ".join(f"{k} {'seed' if k == 1 else 'seeds'} with {n} labels" for n, k in seeds.items())
    autos = len({cell["seed"] for cell in cells if "auto" in cell["accuracy"]})
    some = f" (auto: {autos})" if 0 < autos < max(seeds.values()) else ""
    return (
        f"Accuracy on new rows, mean of {len({cell['data'] for cell in cells})} sets, {number}{some}; differences in "
        "points with 95 % intervals over the tables. CPU seconds a fit, of anchored without calibration: "
        f"{', '.join(took)}. {origin(result)}. File: [columns.json](../results/columns.json), written by "
        "`benchmarks/columns.py`."
    )


def scales() -> str:
    """Experts on tables that are scaled in several ways."""
    result = read("column_scales")
    cells: list[Cell] = result["cells"]

    def mean(variant: str, expert: str, kind: str) -> str:
        return f"{100 * fmean(c['accuracy'][variant][expert] for c in cells if _kind(c) == kind):.1f}"

    experts = {"logistic": "logistic regression", "graph": "graph"}
    rows = [[SCALES[v], *(mean(v, expert, kind) for expert in experts for kind in KINDS)] for v in SCALES]
    heads = ["scale", *(f"{expert}, {kind}" for expert in experts.values() for kind in KINDS.values())]
    n_labels, seeds = cells[0]["labels"], len({cell["seed"] for cell in cells})
    return (
        f"{markdown(heads, rows)}\n\nAccuracy on the unlabeled rows with {n_labels} labels a class, mean of {seeds} "
        f"seeds; gaps in high values: {result['high']:.0%} of the numbers above the median, and of every other word, "
        f"are missing. {origin(result)}. File: [column_scales.json](../results/column_scales.json), written by "
        "`benchmarks/column_scales.py`."
    )


def rate() -> str:
    """How fast `ict predict` reads a table of many kinds of columns, in units of one of numbers."""
    result = read("table_rate")
    rows = [
        [
            suffix,
            *(f"{some[kind]:,}" for kind in some),
            *(f"{value:.2f}x" for value in result["ratios"][suffix].values()),
        ]
        for suffix, some in result["rows a second"].items()
    ]
    kinds = list(result["rows a second"]["csv"])
    heads = ["rows a second", *kinds, *(f"{kind} / {kinds[0]}" for kind in kinds[1:])]
    memory = " and ".join(f"{most:.2f} GB for {int(n):,} rows" for n, most in result["GB at most"].items())
    return (
        f"{markdown(heads, rows)}\n\n{result['columns']} columns; many kinds: half of them numbers with gaps, then "
        f"words, truth values and a time. The process takes at most {memory}. CPU seconds, with network and output; "
        f"{origin(result)}. File: [table_rate.json](../results/table_rate.json), written by `benchmarks/table_rate.py`."
    )


def _cells(result: dict[str, Any]) -> list[Cell]:
    """The cells of those seeds in which all sets are measured, or means would be of different sets."""
    cells: list[Cell] = result["cells"]
    n_sets = len({cell["data"] for cell in cells})
    done = Counter((cell["labels"], cell["seed"]) for cell in cells)
    return [cell for cell in cells if done[cell["labels"], cell["seed"]] == n_sets]


def _groups(cells: list[Cell]) -> dict[int, list[Cell]]:
    """Cells by the number of labels a class."""
    return {n: [cell for cell in cells if cell["labels"] == n] for n in sorted({cell["labels"] for cell in cells})}


def _in_all(cells: list[Cell]) -> list[str]:
    """The methods that every cell has."""
    return [name for name in NAMES if all(name in cell["accuracy"] for cell in cells)]


def _kind(cell: Cell) -> str:
    return str(cell["data"].partition(" ")[2])


def _of(cell: Cell, method: str) -> float:
    return float(cell["accuracy"][method])


def _mean(cells: list[Cell], method: str) -> str:
    return f"{100 * fmean(_of(cell, method) for cell in cells):.1f}" if cells else "-"


BLOCKS = {
    "columns": measured("columns", lambda: f"{accuracies()}\n\n{differences()}\n\n{facts()}"),
    "columns-sets": measured("columns", by_set),
    "column-scales": measured("column_scales", scales),
    "table-rate": measured("table_rate", rate),
}
