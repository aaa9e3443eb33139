"""The block of docs/tables.md on tables with categories and gaps, from what `benchmarks/columns.py` wrote."""

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
OURS, OTHERS = ("anchored", "auto"), ("boosting", "boosting, small leaves", "forest")


def accuracies() -> str:
    groups = _groups(read("columns")["cells"])
    rows = [[NAMES[m], *(f"{100 * fmean(_of(c, m) for c in cells):.1f}" for cells in groups.values())] for m in NAMES]
    return markdown(["", *(f"{n} labels a class" for n in groups)], rows)


def differences() -> str:
    """Paired differences, with intervals over the tables: what one table says with and without gaps is one value."""
    groups = _groups(read("columns")["cells"])
    rows = [
        [NAMES[ours], NAMES[other], *(difference(cells, ours, other) for cells in groups.values())]
        for ours in OURS
        for other in OTHERS
    ]
    return markdown(["", "against", *(f"{n} labels a class" for n in groups)], rows)


def difference(cells: list[Cell], ours: str, other: str) -> str:
    return mean_over_sets((cell["data"].split()[0], _of(cell, ours) - _of(cell, other)) for cell in cells)


def by_set() -> str:
    cells = read("columns")["cells"]
    groups = _groups(cells)
    sets = list(dict.fromkeys(cell["data"] for cell in cells))
    shown = ("boosting, small leaves", "forest", "anchored", "auto")
    rows = [
        [data, *(_mean([c for c in some if c["data"] == data], m) for some in groups.values() for m in shown)]
        for data in sets
    ]
    return markdown(["", *(f"{NAMES[m].split(',')[0]}, {n}" for n in groups for m in shown)], rows)


def facts() -> str:
    result = read("columns")
    cells = result["cells"]
    seconds = {name: fmean(cell["seconds"][name] for cell in cells) for name in NAMES}
    seeds, sets = len({cell["seed"] for cell in cells}), len({cell["data"] for cell in cells})
    took = ", ".join(f"{name} {seconds[name]:.1f}" for name in ("forest", "anchored", "auto"))
    return (
        f"Accuracy on new rows, mean of {sets} sets and {seeds} seeds; differences in points with 95 % intervals over "
        f"the tables. CPU seconds a fit: {took}. {origin(result)}. File: [columns.json](../results/columns.json), "
        "written by `benchmarks/columns.py`."
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


def _groups(cells: list[Cell]) -> dict[int, list[Cell]]:
    """Cells by the number of labels a class."""
    return {n: [cell for cell in cells if cell["labels"] == n] for n in sorted({cell["labels"] for cell in cells})}


def _of(cell: Cell, method: str) -> float:
    return float(cell["accuracy"][method])


def _mean(cells: list[Cell], method: str) -> str:
    return f"{100 * fmean(_of(cell, method) for cell in cells):.1f}" if cells else "-"


BLOCKS = {
    "columns": measured("columns", lambda: f"{accuracies()}\n\n{differences()}\n\n{facts()}"),
    "columns-sets": measured("columns", by_set),
    "table-rate": measured("table_rate", rate),
}
