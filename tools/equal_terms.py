"""The comparison of methods under one protocol: its tables, its pictures, and what they show of ICT."""

from pathlib import Path
from statistics import fmean
from typing import Any

from published import NOT_RUN, PUBLISHED, TASKS, Runs, code, every, reported
from research_log import TUNING, fair_runs
from result_files import read_lines

from ict.paper import ranking
from ict.paper.compare import assembled
from ict.paper.difference import paired
from ict.recipes.fair import OWN
from ict.recipes.recipe import Reported

BUDGET = 60  # seconds that a run of the comparison may take
SHARED_FROM = ("cifar10-4000", "svhn-1000")  # the tuning of ICT that the shared settings come from


def text(runs: Runs) -> str:
    parts = []
    for task, title in TASKS.items():
        summary = _assembled(task, runs)
        missing = [name for name in PUBLISHED if name.startswith(f"{task}/") and name not in runs]
        parts.append(f"### {title}")
        if summary:
            parts += [ranking.table(summary, _others(task)), *_over_budget(summary)]
            parts.append(f"![test errors of the methods](img/{task}.png)")
            parts += [f"{lead[0].upper()}{lead[1:]}." for lead in (lead_on(task, runs),) if lead]
        if missing:
            parts.append(f"{NOT_RUN.capitalize()}: {', '.join(map(code, missing))}.")
    return "\n\n".join(parts)


def lead_on(task: str, runs: Runs) -> str:
    """ICT against the method next to it by mean test error, by seed; nothing where no seeds can be paired."""
    errors = {
        name.partition("/")[2]: {run["seed"]: 100 * run["test_error"] for run in of_recipe}
        for name, of_recipe in runs.items()
        if name.startswith(f"{task}/")
    }
    ict = errors.pop("ict", {})
    several = {method: of for method, of in errors.items() if len(of.keys() & ict.keys()) > 1}
    if not several:
        return ""
    next_to_it = min(several, key=lambda method: fmean(several[method].values()))
    other = several[next_to_it]
    seeds = sorted(other.keys() & ict.keys())
    d = paired([ict[seed] for seed in seeds], [other[seed] for seed in seeds])
    each = ", ".join(f"{ict[seed] - other[seed]:+.2f}" for seed in seeds)
    where = "below" if d.points < 0 else "above"
    return (
        f"on {TASKS[task]} ICT's mean error is {abs(d.points):.2f} points {where} that of {next_to_it}, the best other "
        f"method with several seeds (by seed {each}; 95 % interval {d.interval})"
    )


def protocol() -> str:
    """What the comparison is worth."""
    of_ict = sum(len(read_lines(path)) for path in TUNING if path.stem in SHARED_FROM)
    tried: dict[tuple[str, str], list[float]] = {}
    for row in fair_runs():
        tried.setdefault((row["method"], row["dataset"]), []).append(row["value"])
    chosen = {key: OWN[key[0]][1][key[1]] for key in tried}
    at_edge = sum(chosen[key] in (min(values), max(values)) for key, values in tried.items())
    return (
        f"This protocol favours ICT. The settings that all methods share come from {of_ict} short runs of ICT; each "
        "other method has one setting of its own, chosen by three runs of 2,000 updates, and "
        f"{at_edge} of the {len(chosen)} values chosen so lie at the edge of the three. Dropout and noise of the "
        "methods' sources are off, some methods were evaluated without an average of weights, and most have one "
        "seed. So the order of the methods is that of this protocol, not of the methods at their best."
    )


def draw(folder: Path, runs: Runs) -> None:
    for task in TASKS:
        if summary := _assembled(task, runs):
            ranking.draw(folder / f"{task}.png", summary, _others(task))


def _over_budget(summary: dict[str, Any]) -> list[str]:
    """Which methods' runs were not done in time."""
    late = [row for row in ranking.ranked(summary) if max(row["seconds"]) > BUDGET]
    told = ", ".join(f"{row['method']} ({', '.join(f'{s:.1f}' for s in row['seconds'])} s)" for row in late)
    return [f"Longer than {BUDGET} s, a number for each seed: {told}."] if late else []


def _assembled(task: str, runs: Runs) -> dict[str, Any] | None:
    return assembled(task, every(runs))


def _others(task: str) -> dict[str, Reported | None]:
    return {name.partition("/")[2]: reported(name) for name in PUBLISHED if name.startswith(f"{task}/")}
