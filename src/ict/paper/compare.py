"""Compares methods with the same data, split, network, inputs and number of updates, over several seeds."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from ict.base.errors import unknown
from ict.base.files import write_atomic, write_json
from ict.engine.device import Device, Mode, pick_device
from ict.experiment.live_table import watch
from ict.experiment.pool import THREADS, Task, run_all
from ict.experiment.provenance import provenance
from ict.experiment.result import Result
from ict.experiment.run import default_folder
from ict.paper.ranking import draw, table
from ict.paper.table import counted
from ict.recipes import RECIPES
from ict.recipes.recipe import Recipe, change

# The methods of the paper's tables in their order, which is roughly the order of the cost of an update.
PAPER = (
    "supervised", "mixup", "manifold-mixup", "pi", "temporal-ensembling", "mean-teacher", "vat", "vat-ent", "vadd-kl",
    "vadd-qe", "sntg-pi", "sntg-te", "sntg-mt", "mt-fast-swa", "ict",
)  # fmt: skip
SHARED = ("dataset", "split", "network", "inputs")
BUDGETS = {"digits-100": 2000}  # updates per task; other tasks use the number in ICT's recipe
_REFERENCE = "ict"
_VALIDATIONS = 20  # per run


@dataclass(frozen=True)
class Entry:
    """A method in the comparison."""

    method: str
    recipe: Recipe
    remark: str  # the sections of its own recipe that were replaced


def compare(
    task: str,
    out: Path,
    methods: str | None = None,
    *,
    n_seeds: int = 3,
    budget: int | None = None,
    settings: Iterable[str] = (),
    device: Device = "auto",
    mode: Mode = "exact",
    data_dir: Path | None = None,
) -> dict[str, Any]:
    """Run the missing runs, write compare.json, compare.md and compare.png into `out` and return the JSON's content.

    `methods` are names separated by commas. None: the methods of the paper; "all": every method of the task.
    """
    entries = enter(task, methods, budget, list(settings))
    target = pick_device(device)
    on_gpu = target.type == "cuda"
    # within each seed the slowest first, so that no process waits long for the last run
    order = sorted(product(range(n_seeds), entries), key=lambda run: (run[0], -_cost(run[1].method)))
    tasks = [
        Task(entry.recipe, seed, default_folder(entry.recipe, seed, out), "cuda" if on_gpu else "cpu", data_dir, mode)
        for seed, entry in order
    ]
    workers = 1 if on_gpu else os.cpu_count() or 1
    with watch(tasks, [entry.recipe.name for entry in entries], workers) as live:
        results = run_all(tasks, workers, live.progress, live.finished, keep_diverged=True)
    summary = _summary(task, entries, results, provenance(target) | {"threads": THREADS})
    write_json(out / "compare.json", summary)
    write_atomic(out / "compare.md", f"{table(summary)}\n".encode())
    draw(out / "compare.png", summary)
    return summary


def assembled(task: str, results: Iterable[Result]) -> dict[str, Any] | None:
    """The content of a compare.json from separate runs of the paper's methods, or None if there are no runs.

    The recipes of the task must already be on equal terms. Methods may have different seeds; those without runs are
    left out.
    """
    entries = enter(task, None, None, [])
    runs = counted(results, (entry.recipe.name for entry in entries))
    if not runs:
        return None
    all_runs = [run for of_recipe in runs.values() for run in of_recipe]
    newest = max(all_runs, key=lambda run: str(run["finished"]))
    origin = {key: newest[key] for key in ("device", "machine", "threads", "versions", "commit", "finished")}
    return _summary(task, [entry for entry in entries if entry.recipe.name in runs], all_runs, origin)


def _summary(task: str, entries: list[Entry], results: list[Result], origin: dict[str, Any]) -> dict[str, Any]:
    recipe = entries[0].recipe
    complete = [result for result in results if "diverged" not in result]
    return {
        "task": task,
        "seeds": sorted({result["seed"] for result in results}),
        "budget": recipe.train.steps,
        "shared": {section: recipe.to_dict()[section] for section in SHARED},
        "partial": any(result["partial"] for result in complete),
        "n_test": complete[0]["n_test"] if complete else None,
        "rows": [_row(entry, [r for r in results if r["recipe"] == entry.recipe.name]) for entry in entries],
        **origin,
        "recipes": {entry.method: entry.recipe.to_dict() for entry in entries},
    }


def enter(task: str, methods: str | None, budget: int | None, settings: list[str]) -> list[Entry]:
    """The methods of a comparison with their recipes on equal terms. `settings` then apply to all."""
    known = {name.partition("/")[0] for name in RECIPES if name.endswith(f"/{_REFERENCE}")}
    if task not in known:
        raise unknown("task", task, known)
    reference = RECIPES[f"{task}/{_REFERENCE}"].resolved()
    budget = budget or BUDGETS.get(task, reference.train.steps)
    entries = []
    for method in choose(task, methods):
        own = RECIPES[f"{task}/{method}"].resolved()
        replaced = [section for section in SHARED if getattr(own, section) != getattr(reference, section)]
        remark = f"{', '.join(replaced)} of {_REFERENCE} instead of its own" if replaced else ""
        entries.append(Entry(method, change(fair(own, reference, budget), settings), remark))
    return entries


def choose(task: str, methods: str | None) -> list[str]:
    """The names of the methods to compare, checked."""
    known = [name.partition("/")[2] for name in RECIPES if name.partition("/")[0] == task]
    papers = [method for method in PAPER if method in known]
    if methods is None:
        return papers
    if methods == "all":
        return list(dict.fromkeys([*papers, *known]))
    chosen = list(dict.fromkeys(method.strip() for method in methods.split(",")))
    for method in chosen:
        if method not in known:
            raise unknown("method", method, known)
    return chosen


def fair(recipe: Recipe, reference: Recipe, budget: int) -> Recipe:
    """A method's recipe with the reference's data, network and validation, for `budget` updates.

    The method's own algorithm, optimizer, rate, averages and batches stay.
    """
    shared = {section: getattr(reference, section) for section in SHARED}
    return replace(
        recipe,
        **shared,
        train=replace(recipe.train, steps=budget),
        eval=replace(reference.eval, every=max(budget // _VALIDATIONS, 1)),
    )


def _cost(method: str) -> int:
    return PAPER.index(method) if method in PAPER else len(PAPER)


def _row(entry: Entry, results: list[Result]) -> dict[str, Any]:
    """The row of one method. Lists have a value per seed, in order, and null for a run that diverged."""
    results = sorted(results, key=lambda result: result["seed"])
    numbers = ("test_error", "valid_error", "valid_error_best", "seconds")
    return {
        "method": entry.method,
        "recipe": entry.recipe.name,
        "recipe_id": entry.recipe.hash,
        **{key: [result.get(key) for result in results] for key in numbers},
        "diverged": {str(result["seed"]): result["diverged"] for result in results if "diverged" in result},
        "remark": entry.remark,
    }
