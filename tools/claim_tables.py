"""The blocks of docs/claims.md and its picture, from what research/paper_claims.py wrote."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import claims_picture
from result_files import ROOT, origin, read

from ict.paper.difference import Difference, paired
from ict.paper.table import markdown

Row = dict[str, Any]
FILE = "paper-claims"
TASKS = {"digits-100": "Digits, 100 labels", "moons": "Two moons"}
MEASURES: dict[str, Callable[[Row], float | None]] = {
    "test error (%)": lambda row: 100 * float(row["test_error"]),
    "margin": lambda row: _quantile(row["margin"], "median"),
    "smallest tenth of margins": lambda row: _quantile(row["margin"], "tenth"),
    "sparsity at crossings": lambda row: _quantile(row["sparsity_crossing"], "median"),
    "sparsity at nearest boundary": lambda row: _quantile(row["sparsity_nearest"], "median"),
}
# first less second
PAIRS = {
    "digits-100": [("ict", other) for other in ("supervised", "ict, unmixed", "mean-teacher", "vat")],
    "moons": [
        *(("ict", other) for other in ("supervised", "ict, unmixed")),
        *(("ict-sharpened", other) for other in ("supervised", "ict-sharpened, unmixed")),
    ],
}
DENSITY = ("sparsity at crossings", "sparsity at nearest boundary")


def verdicts() -> str:
    """Each claim with what the differences show of it."""
    return "\n".join(
        [
            f"1. ICT moves the boundary to regions of low density: {_shown('supervised', DENSITY)}.",
            f"2. ICT gives larger margins: {_shown('supervised', ('margin',))}.",
            f"3. Interpolation itself, against the same without it: {_shown('unmixed', ('test error (%)', *DENSITY))}.",
            f"4. Random pairs mostly lie in different clusters and classes, data are rare between them: {_cases()}.",
            f"5. Almost no additional computation, unlike adversarial perturbations: {_costs()}.",
        ]
    )


def differences(task: str) -> str:
    rows = []
    for one, other in PAIRS[task]:
        cells = [_cell(difference(task, one, other, measure)) for measure in MEASURES]
        rows.append([f"{one} less {other}", *cells])
    return markdown(["", *MEASURES], rows)


def values(task: str) -> str:
    runs, cost = _runs(task), {(row["task"], row["method"]): row["milliseconds"] for row in read(FILE)["cost"]}
    base = cost[task, "supervised"]
    rows = [
        [
            method,
            *(_mean([value for row in of if (value := measure(row)) is not None]) for measure in MEASURES.values()),
            f"{100 * fmean(row['unreached'] for row in of):.0f} %",
            f"{cost[task, method]:.1f} ({cost[task, method] / base:.1f})",
        ]
        for method, of in runs.items()
    ]
    heads = ["", *MEASURES, "no boundary reached", "ms of CPU an update (by supervised's)"]
    return markdown(heads, rows)


def pairs(task: str) -> str:
    cases = _of_task(task)
    rows = []
    for place, shares in enumerate(cases[0]["shares"]):
        of = [case["shares"][place] for case in cases]
        rows.append(
            [
                f"{shares['clusters']}",
                *(f"{100 * fmean(some[f'case_{i}'] for some in of):.1f} %" for i in (1, 2, 3)),
                f"{100 * fmean(some['other_class_within'] for some in of):.1f} %",
                *(_mean([some[f"middle_{i}"] for some in of if f"middle_{i}" in some]) for i in (1, 2, 3)),
            ]
        )
    heads = ["clusters", "1: same cluster", "2: other cluster, same class", "3: other cluster and class"]
    sparsity = [f"sparsity in the middle, case {i}" for i in (1, 2, 3)]
    return markdown([*heads, "of case 1, other class", *sparsity], rows)


def facts() -> str:
    result = read(FILE)
    seeds = result["seeds"]
    return (
        f"Seeds {seeds[0]} to {seeds[-1]}, means ± standard deviations; differences are paired by seed, with 95 % "
        "intervals that are not corrected for the number of comparisons. Sparsity is the distance to the tenth nearest "
        "unlabeled point by its median at the points themselves: above 1 the density is lower. "
        f"{origin(result)}. File: [{FILE}.json](../results/{FILE}.json), written by `research/paper_claims.py`."
    )


def difference(task: str, one: str, other: str, measure: str) -> Difference:
    """Over the seeds for which both networks have the measure."""
    runs, value = _runs(task), MEASURES[measure]
    by_seed = [{row["seed"]: value(row) for row in runs[method]} for method in (one, other)]
    both = [
        (first, second)
        for seed, first in by_seed[0].items()
        if first is not None and (second := by_seed[1].get(seed)) is not None
    ]
    return paired([first for first, _ in both], [second for _, second in both])


def draw(folder: Path) -> None:
    if (ROOT / f"results/{FILE}.json").exists():
        claims_picture.draw(folder / f"{FILE}.png", read(FILE))


def _shown(other: str, measures: tuple[str, ...]) -> str:
    """What the pairs against supervised training, or against the unmixed, show on each task."""
    parts = []
    for task, title in TASKS.items():
        for one, against in PAIRS[task]:
            if against.split(", ")[-1] == other:
                found = ", ".join(f"{measure} {_cell(difference(task, one, against, measure))}" for measure in measures)
                parts.append(f"{title}, {one} less {against}: {found}")
    return "; ".join(parts)


def _cases() -> str:
    parts = []
    for task, title in TASKS.items():
        cases = _of_task(task)
        third = [fmean(case["shares"][place]["case_3"] for case in cases) for place in range(len(cases[0]["shares"]))]
        middle = fmean(case["middle"] for case in cases)
        share = f"{100 * min(third):.0f} to {100 * max(third):.0f} % of pairs are of case 3"
        parts.append(f"{title}: {share}, the sparsity in the middle of a pair is {middle:.2f}")
    return "; ".join(parts)


def _costs() -> str:
    cost = {row["method"]: row["milliseconds"] for row in read(FILE)["cost"] if row["task"] == "digits-100"}
    shown = ", ".join(
        f"{method} {ms / cost['supervised']:.1f}" for method, ms in cost.items() if method != "supervised"
    )
    return f"on digits an update takes these multiples of supervised training's: {shown}"


def _cell(found: Difference) -> str:
    return f"{found.points:+.2f} ({found.interval}): {found.verdict}"


def _mean(numbers: list[float]) -> str:
    if not numbers:
        return "-"
    return f"{fmean(numbers):.2f} ± {stdev(numbers):.2f}" if len(numbers) > 1 else f"{fmean(numbers):.2f}"


def _quantile(found: dict[str, float] | None, name: str) -> float | None:
    return None if found is None else found[name]


def _runs(task: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in read(FILE)["runs"]:
        if row["task"] == task:
            found.setdefault(row["method"], []).append(row)
    return found


def _of_task(task: str) -> list[Row]:
    return [case for case in read(FILE)["cases"] if case["task"] == task]


def _measured(block: Callable[[], str]) -> str:
    if not (ROOT / f"results/{FILE}.json").exists():
        return f"Not measured yet: `research/paper_claims.py` writes results/{FILE}.json."
    return block()


def _summary() -> str:
    return f"{verdicts()}\n\n{facts()}\n\n![errors, margins, sparsity](img/{FILE}.png)"


def _details(task: str) -> str:
    return f"{differences(task)}\n\n{values(task)}\n\n{pairs(task)}"


BLOCKS: dict[str, Callable[[], str]] = {
    "claims": partial(_measured, _summary),
    **{f"claims-{task}": partial(_measured, partial(_details, task)) for task in TASKS},
}
