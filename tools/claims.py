"""What was measured about the paper's own claims, from the files of research/moons_objective.py."""

from collections.abc import Callable
from statistics import fmean
from typing import Any

from result_files import origin, read

from ict.paper.table import markdown


def objective() -> str:
    """The losses of the line and of the true boundary on two moons, by alpha."""
    result = read("moons-objective")
    accuracy = {name: 100 * fmean(values) for name, values in result["accuracy"].items()}
    headings = ["alpha", *(f"{kind}: line, true boundary, ratio" for kind in ("random pairs", "near pairs"))]
    rows = [
        [f"{alpha:g}", *(_both(row) for row in (_loss(result, pairs, alpha) for pairs in ("random", "near")))]
        for alpha in sorted({row["alpha"] for row in result["losses"]})
    ]
    smooth = "; ".join(
        f"with random pairs and sigmoid({steepness:g} d) {_range(_ratios(result, 'random', steepness))}, with near "
        f"pairs {_range(_ratios(result, 'near', steepness))}"
        for steepness in sorted({row["steepness"] for row in result["losses"]} - {None})
    )
    return (
        f"The line is right on {accuracy['line']:.1f} % of the points, the true boundary on {accuracy['true']:.1f} %. "
        f"Losses of step predictions in thousandths, means over {len(result['seeds'])} seeds and {result['pairs']:,} "
        f"pairs each:\n\n{markdown(headings, rows)}\n\n"
        f"Step predictions: with random pairs the true boundary has {_range(_ratios(result, 'random'))} times the "
        f"line's loss, with near pairs the line has {_range(_ratios(result, 'near', of='line'))} times the true "
        f"boundary's. Predictions that are a sigmoid of the distance d, the true boundary's loss by the line's: "
        f"{smooth}. `python research/moons_objective.py --out results/moons-objective.json`; {origin(result)}; "
        "[moons-objective.json](../results/moons-objective.json)."
    )


def _loss(result: dict[str, Any], pairs: str, alpha: float, steepness: float | None = None) -> dict[str, float]:
    (row,) = (
        row for row in result["losses"] if (row["pairs"], row["alpha"], row["steepness"]) == (pairs, alpha, steepness)
    )
    return {boundary: fmean(row[boundary]) for boundary in ("line", "true")}


def _ratios(result: dict[str, Any], pairs: str, steepness: float | None = None, of: str = "true") -> list[float]:
    """By alpha, the loss of one boundary by that of the other."""
    other = {"true": "line", "line": "true"}[of]
    losses = [
        _loss(result, pairs, row["alpha"], steepness)
        for row in result["losses"]
        if (row["pairs"], row["steepness"]) == (pairs, steepness)
    ]
    return [loss[of] / loss[other] for loss in losses]


def _range(values: list[float]) -> str:
    return f"{min(values):.1f} to {max(values):.1f}"


def _both(loss: dict[str, float]) -> str:
    return f"{1000 * loss['line']:.2f}, {1000 * loss['true']:.2f}, {loss['true'] / loss['line']:.2f}"


BLOCKS: dict[str, Callable[[], str]] = {"moons-objective": objective}
