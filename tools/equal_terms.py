"""The comparison of methods on equal terms: its tables, its pictures, and where ICT stands."""

from pathlib import Path
from typing import Any

from published import NOT_RUN, PUBLISHED, TASKS, Runs, code, every, reported

from ict.paper import ranking
from ict.paper.compare import assembled
from ict.recipes.recipe import Reported

BUDGET = 60  # seconds that a run of the comparison may take


def text(runs: Runs) -> str:
    parts = []
    for task, title in TASKS.items():
        summary = _assembled(task, runs)
        missing = [name for name in PUBLISHED if name.startswith(f"{task}/") and name not in runs]
        parts.append(f"### {title}")
        if summary:
            parts += [ranking.table(summary, _others(task)), *_over_budget(summary)]
            parts.append(f"![test errors of the methods](img/{task}.png)")
        if missing:
            parts.append(f"{NOT_RUN.capitalize()}: {', '.join(map(code, missing))}.")
    return "\n\n".join([*parts, *standing(runs)])


def standing(runs: Runs) -> list[str]:
    """Where ICT stands on equal terms, in words."""
    told, single = [], False
    for task, title in TASKS.items():
        summary = _assembled(task, runs)
        rows = ranking.ranked(summary) if summary else []
        methods = [row["method"] for row in rows]
        if summary and "ict" in methods and len(methods) > 1:
            best = ", ".join(f"{row['method']} {ranking.percent(row['test_error'])}" for row in rows[:4])
            where = f"number {methods.index('ict') + 1} of {len(rows)} on {title}"
            told.append(f"{where} (test errors in % after {summary['budget']:,} updates each: {best})")
            single |= any(len(row["test_error"]) == 1 for row in rows[:4])
    if not told:
        return []
    hint = "; without a deviation: one seed" if single else ""
    return [f"On equal terms with the paper's other methods ICT is {' and '.join(told)}{hint}."]


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
