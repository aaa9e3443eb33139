"""Compares methods with the same data, split, network, inputs and number of updates, over several seeds.

Every method is evaluated with an average of its weights and without, and can first be tuned: on validation data of
other seeds, in runs of full length.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from ict.algorithms import ALGORITHMS
from ict.base.errors import UserError, unknown
from ict.base.files import write_atomic, write_json
from ict.engine.device import Device, Mode, pick_device
from ict.experiment.live_table import watch
from ict.experiment.pool import THREADS, Task, run_all
from ict.experiment.provenance import provenance
from ict.experiment.result import Result
from ict.experiment.run import default_folder
from ict.paper.ranking import draw, table
from ict.paper.table import counted
from ict.paper.tuning import FIRST_SEED, Grid, Searched, check_grids, grids_for, search
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
class ComparedMethod:
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
    tune: int = 0,
    grids: Sequence[str] = (),
    device: Device = "auto",
    mode: Mode = "exact",
    data_dir: Path | None = None,
    workers: int | None = None,
) -> dict[str, Any]:
    """Run the missing runs, write compare.json, compare.md and compare.png into `out` and return the JSON's content.

    `methods` are names separated by commas. None: the methods of the paper; "all": every method of the task.
    `tune`: the number of seeds on whose validation data each method's grids are searched first (`tuning.grids_for`).
    """
    entries = enter(task, methods, budget, list(settings), average=True)
    if grids and not tune:
        raise UserError("grids are for tuning: pass --tune with a number of seeds, or leave out --grid.")
    if n_seeds > FIRST_SEED:
        raise UserError(f"{n_seeds} seeds: pass at most {FIRST_SEED}, since the seeds after them are for tuning.")
    check_grids(grids, {entry.method: entry.recipe for entry in entries})
    target = pick_device(device)
    on_gpu = target.type == "cuda"
    if workers is None:
        workers = 1 if on_gpu else os.cpu_count() or 1
    place = _Place(out, "cuda" if on_gpu else "cpu", data_dir, mode)
    # the slowest first, so that no process waits long for the last run
    entries_by_cost = sorted(entries, key=lambda entry: -_cost(entry.method))
    plans = {
        entry.recipe.name: _MethodRuns(
            entry, grids_for(entry.method, entry.recipe, grids) if tune else [], tune, n_seeds, place
        )
        for entry in entries_by_cost
    }
    tasks = [task for plan in plans.values() for task in plan.next()]
    if not tune:
        tasks.sort(key=lambda task: task.seed)
    with watch(tasks, [entry.recipe.name for entry in entries], workers) as live:

        def more(task: Task, result: Result) -> list[Task]:
            plan = plans[task.recipe.name]
            plan.known[task.recipe.hash, task.seed] = result
            new = plan.next()
            live.add(new)
            return new

        run_all(tasks, workers, live.progress, live.finished, keep_diverged=True, more=more)
    results = [result for plan in plans.values() for result in plan.results()]
    tuned = [replace(entry, recipe=plans[entry.recipe.name].search().recipe) for entry in entries]
    summary = _summary(task, tuned, results, provenance(target) | {"threads": THREADS})
    if tune:
        methods_grids = {entry.method: plans[entry.recipe.name].search().history for entry in entries}
        summary["tuning"] = {"seeds": list(_tuning_seeds(tune)), "methods": methods_grids}
    write_json(out / "compare.json", summary)
    write_atomic(out / "compare.md", f"{table(summary)}\n".encode())
    draw(out / "compare.png", summary)
    return summary


@dataclass(frozen=True)
class _Place:
    """The folder, the device and the data of the runs."""

    out: Path
    device: Device
    data_dir: Path | None
    mode: Mode

    def task(self, recipe: Recipe, seed: int, test: bool) -> Task:
        root = self.out if test else self.out / "tuning"
        return Task(recipe, seed, default_folder(recipe, seed, root), self.device, self.data_dir, self.mode, test)


class _MethodRuns:
    """The runs of one method: those that tune it, then those that are tested."""

    def __init__(self, entry: ComparedMethod, grids: Sequence[Grid], tune: int, n_seeds: int, place: _Place) -> None:
        self.entry, self.grids, self.tune, self.n_seeds, self.place = entry, grids, tune, n_seeds, place
        self.known: dict[tuple[str, int], Result] = {}
        self._asked: set[tuple[str, int]] = set()

    def search(self) -> Searched:
        return search(self.entry.recipe, self.grids, self._valid_error)

    def next(self) -> list[Task]:
        """The runs that can start now and were not returned before."""
        searched = self.search()
        if searched.missing:
            wanted = [(recipe, seed) for recipe in searched.missing for seed in _tuning_seeds(self.tune)]
        else:
            wanted = [(searched.recipe, seed) for seed in range(self.n_seeds)]
        new = [(recipe, seed) for recipe, seed in wanted if (recipe.hash, seed) not in self._asked]
        self._asked.update((recipe.hash, seed) for recipe, seed in new)
        return [self.place.task(recipe, seed, test=not searched.missing) for recipe, seed in new]

    def results(self) -> list[Result]:
        """Those of the tested runs."""
        recipe = self.search().recipe
        return [self.known[recipe.hash, seed] for seed in range(self.n_seeds)]

    def _valid_error(self, recipe: Recipe) -> float | None:
        """The mean over the seeds for tuning; a run that diverged gets every example wrong."""
        results = [self.known.get((recipe.hash, seed)) for seed in _tuning_seeds(self.tune)]
        if any(result is None for result in results):
            return None
        return fmean(1.0 if "diverged" in result else result["valid_error"] for result in results if result)


def _tuning_seeds(number: int) -> range:
    return range(FIRST_SEED, FIRST_SEED + number)


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


def _summary(task: str, entries: list[ComparedMethod], results: list[Result], origin: dict[str, Any]) -> dict[str, Any]:
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


def enter(
    task: str, methods: str | None, budget: int | None, settings: list[str], *, average: bool = False
) -> list[ComparedMethod]:
    """The methods of a comparison with their recipes on equal terms. `settings` then apply to all.

    `average`: those that have no average of the weights get one for evaluation, with the decay of ICT's.
    """
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
        recipe = fair(own, reference, budget)
        recipe = change(with_average(recipe, reference) if average else recipe, settings)
        entries.append(ComparedMethod(method, recipe, remark))
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


def with_average(recipe: Recipe, reference: Recipe) -> Recipe:
    """With the reference's average of the weights for evaluation, if it has none and training does not use one."""
    algorithm = ALGORITHMS[recipe.algorithm.name](**recipe.algorithm.options)
    if recipe.average.decay is not None or algorithm.needs.teacher:
        return recipe
    return replace(recipe, average=replace(reference.average, batchnorm="averaged"))


def _cost(method: str) -> int:
    return PAPER.index(method) if method in PAPER else len(PAPER)


def _row(entry: ComparedMethod, results: list[Result]) -> dict[str, Any]:
    """The row of one method. Lists have a value per seed, in order, and null for a run that diverged.

    `test_error` is that of the average if there is one, `test_error_student` that without.
    """
    results = sorted(results, key=lambda result: result["seed"])
    numbers = ("test_error", "test_error_student", "valid_error", "valid_error_best", "seconds")
    return {
        "method": entry.method,
        "recipe": entry.recipe.name,
        "recipe_id": entry.recipe.hash,
        "seeds": [result["seed"] for result in results],
        **{key: [result.get(key) for result in results] for key in numbers},
        "averaged": entry.recipe.average.decay is not None or entry.recipe.swa.start is not None,
        "diverged": {str(result["seed"]): result["diverged"] for result in results if "diverged" in result},
        "remark": entry.remark,
    }
