"""Runs recipes over seeds, spread over workers, GPUs and machines, with one result file per run."""

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
from ict.experiment.prepare import load_data
from ict.experiment.result import Result
from ict.experiment.run import default_folder
from ict.paper.ranking import percent
from ict.recipes import find
from ict.recipes.recipe import Component, change
from ict.studies.live_study import watch_study
from ict.studies.study import Slot
from ict.studies.trial import TrialSnapshot
from ict.studies.workers import Place, StudyPlan, TrialRun, run_plan

RESULTS = Path("results/trials")  # a folder that `ict table` reads


@dataclass(frozen=True)
class TrialsPlan(StudyPlan):
    runs: tuple[TrialRun, ...]
    results: Path

    @property
    def description(self) -> dict[str, Any]:
        return _description(self.runs, self.place.mode)

    @property
    def slots(self) -> list[Slot]:
        return [Slot(notes=_notes(run)) for run in self.runs]

    def trial_run(self, trial: TrialSnapshot) -> TrialRun:
        (matching,) = (run for run in self.runs if _stands_for(trial.notes, run))
        return matching

    def pruner(self, trial_run: TrialRun) -> None:
        """No pruning: every run counts."""

    def value(self, result: Result) -> float:
        return float(result["test_error"] or 0.0)  # nothing is chosen by it

    def finished(self, trial_run: TrialRun, result: Result) -> None:
        path = self.result_file(trial_run)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, result)

    def result_file(self, trial_run: TrialRun) -> Path:
        recipe, fast = trial_run.recipe, "-fast" if self.place.mode == "fast" else ""
        return self.results / f"{recipe.name.replace('/', '-')}-{recipe.hash}{fast}-seed{trial_run.seed}.json"


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
    """Plan a run of every recipe with every seed; checks all but the data. The same arguments name the same study."""
    place = place or Place("")
    pick_device(place.device)
    home = out or Path("runs/trials-fast" if place.mode == "fast" else "runs/trials")
    check_folder(results, "--results")
    changes = list(settings)
    resolved = [change(find(name, allow_code), changes) for name in dict.fromkeys(recipes)]
    runs = tuple(
        TrialRun(recipe, seed, default_folder(recipe, seed, home)) for seed in read_seeds(seeds) for recipe in resolved
    )
    digest = hashlib.sha256(json.dumps(_description(runs, place.mode)).encode()).hexdigest()[:8]
    if not place.storage:
        place = replace(place, storage=f"sqlite:///{home / f'study-{digest}.db'}")
    return TrialsPlan(place, study or f"trials/{digest}", runs, results)


def run_trials(plan: TrialsPlan) -> list[TrialSnapshot]:
    """Run all that is not complete, also failed runs, and write the results. Returns the last trial of each run."""
    with plan.study() as study:
        study.add_missing(plan.slots)
        if not all(trial.finished for trial in study.snapshots()):
            _check_data(plan)
        with watch_study(study.snapshots, title):
            run_plan(plan)
        trials = study.snapshots()
    ended = [[trial for trial in trials if _stands_for(trial.notes, trial_run)][-1] for trial_run in plan.runs]
    for trial_run, trial in zip(plan.runs, ended, strict=True):
        path = plan.result_file(trial_run)
        if trial.outcome == "complete" and not (path.exists() and read_json(path) == trial.notes["result"]):
            plan.finished(trial_run, trial.notes["result"])  # the trial ran on another machine
    return ended


def _check_data(plan: TrialsPlan) -> None:
    """Check that this machine has the data; without it every trial would fail."""
    checked: list[Component] = []
    for trial_run in plan.runs:
        if trial_run.recipe.dataset not in checked:
            load_data(trial_run.recipe, trial_run.seed, plan.place.data_dir)
            checked.append(trial_run.recipe.dataset)


def text(plan: TrialsPlan, ended: Sequence[TrialSnapshot]) -> str:
    """A line per recipe with mean and standard deviation over seeds, then the failures and the folder of results."""
    lines = []
    for name in dict.fromkeys(trial_run.recipe.name for trial_run in plan.runs):
        results = [t.notes["result"] for t in ended if t.notes["recipe"] == name and t.outcome == "complete"]
        errors = [result["test_error"] for result in results]
        if errors:
            lines.append(f"{name}: test error {percent(errors)} % ({len(errors)} seed{'s' * (len(errors) > 1)})")
    lines += [f"{title(trial)} failed: {trial.notes['error']}" for trial in ended if "error" in trial.notes]
    return "\n".join([*lines, f"{plan.results}"])


MOST_SEEDS = 10_000


def read_seeds(text: str) -> list[int]:
    """The seeds in a string such as 0-2 or 0,3,5-7, without duplicates; at most 10,000."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise UserError(f"--seeds {text} is not a list of seeds: write 0-2 or 0,3,5.")
        if len(seeds) + last - first >= MOST_SEEDS:
            raise UserError(f"--seeds {text} names more than {MOST_SEEDS:,} seeds: name fewer.")
        seeds += range(first, last + 1)
    return list(dict.fromkeys(seeds))


def title(trial: TrialSnapshot) -> str:
    return f"{trial.notes['recipe']} seed {trial.notes['seed']}"


def _description(runs: Iterable[TrialRun], mode: str) -> dict[str, Any]:
    """A description of the runs that does not depend on their order."""
    return {"cells": sorted(map(_notes, runs), key=lambda notes: sorted(map(str, notes.values()))), "mode": mode}


def _stands_for(notes: Mapping[str, Any], trial_run: TrialRun) -> bool:
    return all(notes.get(key) == value for key, value in _notes(trial_run).items())


def _notes(trial_run: TrialRun) -> dict[str, Any]:
    return {"recipe": trial_run.recipe.name, "recipe_id": trial_run.recipe.hash, "seed": trial_run.seed}
