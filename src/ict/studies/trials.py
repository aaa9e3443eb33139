"""Runs of recipes over seeds, spread over workers, GPUs and machines; a result file for each."""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ict.base.errors import UserError
from ict.base.files import check_folder, read_json, write_json
from ict.engine.device import pick_device
from ict.experiment.pool import Result
from ict.experiment.prepare import load_data
from ict.experiment.run import default_folder
from ict.paper.ranking import percent
from ict.recipes import find
from ict.recipes.recipe import Part, change
from ict.studies.live_study import watch_study
from ict.studies.study import Slot
from ict.studies.trial import Seen
from ict.studies.workers import Cell, Place, Plan, run_plan

RESULTS = Path("results/trials")  # where `ict table` finds them


@dataclass(frozen=True)
class TrialsPlan(Plan):
    cells: tuple[Cell, ...]
    results: Path

    @property
    def description(self) -> dict[str, Any]:
        return _description(self.cells, self.place.mode)

    @property
    def slots(self) -> list[Slot]:
        return [Slot(notes=_notes(cell)) for cell in self.cells]

    def cell(self, trial: Seen) -> Cell:
        (found,) = (cell for cell in self.cells if _stands_for(trial.notes, cell))
        return found

    def pruner(self, cell: Cell) -> None:
        """Every run counts."""

    def value(self, result: Result) -> float:
        return float(result["test_error"] or 0.0)  # no choice is made by it

    def finished(self, cell: Cell, result: Result) -> None:
        path = self.result_file(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, result)

    def result_file(self, cell: Cell) -> Path:
        fast = "-fast" if self.place.mode == "fast" else ""
        return self.results / f"{cell.recipe.name.replace('/', '-')}-{cell.recipe.hash}{fast}-seed{cell.seed}.json"


def plan_trials(
    recipes: Sequence[str],
    place: Place | None = None,
    *,
    seeds: str = "0-2",
    settings: Iterable[str] = (),
    allow_code: Collection[str] = (),
    study: str | None = None,
    out: Path | None = None,
    results: Path = RESULTS,
) -> TrialsPlan:
    """Every recipe with every seed, checked as far as that needs no data. The same arguments name the same study."""
    place = place or Place("")
    pick_device(place.device)
    home = out or Path("runs/trials-fast" if place.mode == "fast" else "runs/trials")
    check_folder(results, "--results")
    changes = list(settings)
    resolved = [change(find(name, allow_code), changes) for name in dict.fromkeys(recipes)]
    cells = tuple(
        Cell(recipe, seed, default_folder(recipe, seed, home)) for seed in read_seeds(seeds) for recipe in resolved
    )
    digest = hashlib.sha256(json.dumps(_description(cells, place.mode)).encode()).hexdigest()[:8]
    if not place.storage:
        place = replace(place, storage=f"sqlite:///{home / f'study-{digest}.db'}")
    return TrialsPlan(place, study or f"trials/{digest}", cells, results)


def run_trials(plan: TrialsPlan) -> list[Seen]:
    """Run what is not complete, also what failed before; the last trial of each cell. Writes every cell's result."""
    with plan.study() as study:
        study.add_missing(plan.slots)
        if not all(trial.finished for trial in study.look()):
            _check_data(plan)
        with watch_study(study.look, title):
            run_plan(plan)
        trials = study.look()
    ended = [[trial for trial in trials if _stands_for(trial.notes, cell)][-1] for cell in plan.cells]
    for cell, trial in zip(plan.cells, ended, strict=True):
        path = plan.result_file(cell)
        if trial.outcome == "complete" and not (path.exists() and read_json(path) == trial.notes["result"]):
            plan.finished(cell, trial.notes["result"])  # it ran on another machine
    return ended


def _check_data(plan: TrialsPlan) -> None:
    """A machine without the data would fail one trial after the other."""
    checked: list[Part] = []
    for cell in plan.cells:
        if cell.recipe.dataset not in checked:
            load_data(cell.recipe, cell.seed, plan.place.data_dir)
            checked.append(cell.recipe.dataset)


def text(plan: TrialsPlan, ended: Sequence[Seen]) -> str:
    """A line for each recipe: mean and deviation over its seeds; then what failed, and where the results are."""
    lines = []
    for name in dict.fromkeys(cell.recipe.name for cell in plan.cells):
        results = [t.notes["result"] for t in ended if t.notes["recipe"] == name and t.outcome == "complete"]
        errors = [result["test_error"] for result in results]
        if errors:
            lines.append(f"{name}: test error {percent(errors)} % ({len(errors)} seed{'s' * (len(errors) > 1)})")
    lines += [f"{title(trial)} failed: {trial.notes['error']}" for trial in ended if "error" in trial.notes]
    return "\n".join([*lines, f"{plan.results}"])


def read_seeds(text: str) -> list[int]:
    """The numbers in a text such as 0-2 or 0,3,5-7, each once."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise UserError(f"--seeds {text} is not a list of seeds: write 0-2 or 0,3,5.")
        seeds += range(first, last + 1)
    return list(dict.fromkeys(seeds))


def title(trial: Seen) -> str:
    return f"{trial.notes['recipe']} seed {trial.notes['seed']}"


def _description(cells: Iterable[Cell], mode: str) -> dict[str, Any]:
    """The same for the same cells in whatever order they are named."""
    return {"cells": sorted(map(_notes, cells), key=lambda notes: sorted(map(str, notes.values()))), "mode": mode}


def _stands_for(notes: Mapping[str, Any], cell: Cell) -> bool:
    return all(notes.get(key) == value for key, value in _notes(cell).items())


def _notes(cell: Cell) -> dict[str, Any]:
    return {"recipe": cell.recipe.name, "recipe_id": cell.recipe.hash, "seed": cell.seed}
