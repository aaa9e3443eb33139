"""The blocks of docs/auto.md: what auto's intervals and choices are worth, from what `benchmarks/verdict.py` wrote."""

from collections.abc import Callable
from statistics import fmean, median
from typing import Any

from on_vectors import measured
from over_sets import mean_over_sets
from result_files import origin, read

from ict.estimators.candidates import DESCRIPTIONS
from ict.estimators.verdict import wilson
from ict.paper.table import markdown

Cell = dict[str, Any]
FEATURES = ("photos", "texts", "words")
_FAR = 0.05
_NONE = "Not measured yet."


def intervals() -> str:
    """How often the verdict's and the accuracy's intervals contain what the refits score on the other rows."""
    result = read("verdict")
    rows = []
    for kind, cells in {"short": _short(result), "full": _full(result, features=False)}.items():
        groups = _groups([cell for cell in cells if "verdict" in cell])
        some = {str(n): of_group for n, of_group in groups.items()}
        if kind == "short" and len(some) > 1:
            some["all"] = [cell for of_group in groups.values() for cell in of_group]
        for name, of_group in some.items():
            gains = [_within(cell["verdict"], _true_gain(cell)) for cell in of_group]
            accuracies = [_within(cell["estimate"], _auto(cell)) for cell in of_group]
            width = 100 * fmean(cell["estimate"]["high"] - cell["estimate"]["low"] for cell in of_group)
            rows.append([kind, name, str(len(of_group)), _share(gains), _share(accuracies), f"{width:.0f} points"])
    heads = ["cells", "labels a class", "number", "verdict's contain the gain", "accuracy's contain it", "mean width"]
    limits = result["rows"]
    return (
        f"{markdown(heads, rows)}\n\nShares with Wilson's 95 % intervals. Up to {limits['short']:,} rows in short "
        f"cells, {limits['full']:,} in full ones; {origin(result)}. File: [verdict.json](../results/verdict.json), "
        "written by `benchmarks/verdict.py`."
    )


def verdicts() -> str:
    """What was said, and what the refits then showed on the other rows."""
    result = read("verdict")
    cells = [cell for cell in _short(result) if "verdict" in cell]
    if not cells:
        return _NONE
    rows = []
    for answer in ("helped", "hurt", "cannot tell"):
        said = [cell for cell in cells if cell["verdict"]["answer"] == answer]
        gains = [_true_gain(cell) for cell in said]
        right = [gain > 0 if answer == "helped" else gain < 0 for gain in gains]
        rows.append(
            [
                answer,
                f"{len(said)} of {len(cells)} ({len(said) / len(cells):.0%})",
                "-" if answer == "cannot tell" or not said else _share(right),
                f"{100 * fmean(gains):+.1f}" if said else "-",
            ]
        )
    return markdown(["verdict", "said", "right on new rows", "true mean gain, points"], rows)


def on_tables() -> str:
    """Auto as it ships beside a forest of 100 trees."""
    groups = _groups(_full(read("verdict"), features=False))
    rows = [
        [
            str(n),
            f"{len(cells)}, {len({cell['data'] for cell in cells})}",
            _percent([_auto(cell) for cell in cells]),
            _percent([cell["others"]["forest"] for cell in cells]),
            mean_over_sets((cell["data"], _auto(cell) - cell["others"]["forest"]) for cell in cells),
            f"{fmean(_auto(cell) - cell['others']['forest'] < -_FAR for cell in cells):.0%}",
        ]
        for n, cells in groups.items()
    ]
    heads = ["labels a class", "cells, sets", "auto", "random forest", "difference", "5 points below the forest"]
    return markdown(heads, rows) if rows else _NONE


def on_features() -> str:
    """Auto beside logistic regression and the graph, and beside the better of both in each cell."""
    groups = _groups(_full(read("verdict"), features=True))
    rows = [
        [
            str(n),
            str(len(cells)),
            _percent([_auto(cell) for cell in cells]),
            _percent([cell["others"]["logistic regression"] for cell in cells]),
            _percent([cell["others"]["graph"] for cell in cells]),
            *(
                f"{100 * fmean(values):+.1f}" if (values := [_lead(c) for c in cells if c["data"] == data]) else "-"
                for data in FEATURES
            ),
            mean_over_sets((cell["data"], _lead(cell)) for cell in cells),
        ]
        for n, cells in groups.items()
    ]
    against = "against the better of both in each cell"
    heads = ["labels a class", "cells", "auto", "logistic regression", "graph", *FEATURES, against]
    return markdown(heads, rows) if rows else _NONE


def averages() -> str:
    """What every candidate scores after its refit: the evidence for the one that is taken without folds."""
    result = read("verdict")
    kinds = {"tables": _groups(_full(result, features=False)), "features": _groups(_full(result, features=True))}
    columns = {(kind, n): cells for kind, groups in kinds.items() for n, cells in groups.items()}
    names = [name for name in DESCRIPTIONS if any(name in c["candidates"] for cells in columns.values() for c in cells)]
    rows = []
    for name in names:
        row = [f"`{name}`", DESCRIPTIONS[name]]
        for cells in columns.values():
            chosen = fmean(cell["winner"] == name for cell in cells)
            scores = [cell["candidates"][name]["test"] for cell in cells if name in cell["candidates"]]
            row.append(f"{_percent(scores)} ({chosen:.0%})" if scores else "-")
        rows.append(row)
    heads = ["candidate", "what it is", *(f"{kind}, {n}" for kind, n in columns)]
    return markdown(heads, rows) if rows else _NONE


def cost() -> str:
    """CPU seconds of a whole fit as shipped, as a multiple of a forest's."""
    cells = [cell for cell in read("verdict")["cells"] if not cell["short"]]
    if not cells:
        return _NONE
    ratios = [
        (cell["seconds"]["auto's folds"] + cell["seconds"]["auto's winner"]) / cell["seconds"]["forest of 200"]
        for cell in cells
    ]
    rows = max(cell["rows"] for cell in cells)
    return (
        f"A fit of auto takes {median(ratios):.0f} times the CPU seconds of a 200-tree forest that is fitted to the "
        f"same labels, and at most {max(ratios):.0f} times, with up to {rows:,} rows, in {len(cells)} cells."
    )


def calibration() -> str:
    """The expected calibration error of what was chosen, before and after its temperature."""
    result = read("verdict")
    rows = []
    kinds = {"tables": _full(result, features=False), "features": _full(result, features=True)}
    for kind, cells in kinds.items():
        for n, of_group in _groups(cells).items():
            winners = [_of(cell) for cell in of_group]
            for place, prefix in (("new", ""), ("unlabeled", "pool_")):
                errors = [
                    (of[f"{prefix}ece_before"], of[f"{prefix}ece_after"])
                    for of in winners
                    if f"{prefix}ece_before" in of
                ]
                if errors:
                    before, after = zip(*errors, strict=True)
                    better = fmean(b < a for a, b in errors)
                    numbers = [str(len(errors)), _percent(before), _percent(after), f"{better:.0%}"]
                    rows.append([f"{kind}, {n}", place, *numbers])
    heads = ["labels a class", "rows", "cells", "error before, points", "after", "smaller after"]
    return markdown(heads, rows) if rows else _NONE


def _short(result: dict[str, Any]) -> list[Cell]:
    return [cell for cell in result["cells"] if cell["short"]]


def _full(result: dict[str, Any], features: bool) -> list[Cell]:
    return [cell for cell in result["cells"] if not cell["short"] and (cell["data"] in FEATURES) == features]


def _groups(cells: list[Cell]) -> dict[int, list[Cell]]:
    """By the number of labels a class."""
    return {n: [cell for cell in cells if cell["labels"] == n] for n in sorted({cell["labels"] for cell in cells})}


def _of(cell: Cell) -> dict[str, float]:
    """The winner's numbers."""
    found: dict[str, float] = cell["candidates"][cell["winner"]]
    return found


def _auto(cell: Cell) -> float:
    return _of(cell)["test"]


def _true_gain(cell: Cell) -> float:
    """Of the two candidates that the verdict compares, refitted to all labels, on new rows."""
    scores, said = cell["candidates"], cell["verdict"]
    return float(scores[said["with_unlabeled"]]["test"] - scores[said["labels_only"]]["test"])


def _lead(cell: Cell) -> float:
    return _auto(cell) - float(max(cell["others"]["logistic regression"], cell["others"]["graph"]))


def _within(interval: dict[str, float], value: float) -> bool:
    return interval["low"] <= value <= interval["high"]


def _share(hits: list[bool]) -> str:
    low, high = wilson(sum(hits), len(hits))
    return f"{fmean(hits):.1%} ({low:.1%} to {high:.1%})"


def _percent(values: "list[float] | tuple[float, ...]") -> str:
    return f"{100 * fmean(values):.1f}"


_TEXTS: dict[str, Callable[[], str]] = {
    "auto-intervals": intervals,
    "auto-verdicts": verdicts,
    "auto-tables": on_tables,
    "auto-features": on_features,
    "auto-averages": averages,
    "auto-cost": cost,
    "auto-calibration": calibration,
}
BLOCKS = {name: measured("verdict", text) for name, text in _TEXTS.items()}
