"""Hyper-parameter search: trials of a recipe, compared by validation error only. The test set is never read."""

import hashlib
import json
import re
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from ict.base.errors import UserError
from ict.base.files import as_json, read_json, write_together
from ict.engine.device import pick_device
from ict.experiment.console import percent
from ict.experiment.prepare import load_data
from ict.experiment.provenance import provenance
from ict.experiment.result import Result
from ict.recipes.recipe import Recipe, from_dict
from ict.studies.live_study import watch_study
from ict.studies.report import search_page
from ict.studies.report_figures import short
from ict.studies.search_space import Choices, Range, Space, apply, read_space
from ict.studies.storage import Storage
from ict.studies.study import Slot
from ict.studies.trial import TrialSnapshot
from ict.studies.workers import Place, StudyPlan, TrialRun, run_plan

Sampler = Literal["grid", "tpe", "random"]
TRIALS = 20  # the number of cells in the paper's grid
_STARTUP_TRIALS = 5  # complete trials that are needed before pruning starts


@dataclass(frozen=True)
class SearchPlan(StudyPlan):
    recipe: Recipe
    space: Space
    sampler_name: Sampler
    trials: int
    seed: int
    prune: bool
    out: Path

    test = False
    keeps_diverged = True  # the sampler must learn from it

    @property
    def description(self) -> dict[str, Any]:
        return _description(self.recipe, self.space, self.sampler_name, self.seed, self.prune, self.place.mode)

    def updated(self, description: Mapping[str, Any]) -> Mapping[str, Any]:
        """Release 0.1.0 described all settings of a recipe, so every later option made it another study."""
        with suppress(UserError):  # not a recipe of today, or with code from outside: it is another study
            earlier = from_dict(description.get("recipe", {}), allow_code=self.recipe.outside_code)
            return {**description, "recipe": _plain(earlier.identity)}
        return description

    @property
    def slots(self) -> list[Slot]:
        if self.sampler_name == "grid":
            return [Slot(cell) for cell in self.space.cells()]
        return [Slot()] * self.trials

    def trial_run(self, trial: TrialSnapshot) -> TrialRun:
        return TrialRun(apply(self.recipe, trial.params), self.seed, self.out / f"trial{trial.number}")

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        return {param.key: _distribution(param) for param in self.space.params}

    def sampler(self, number: int) -> optuna.samplers.BaseSampler:
        """A sampler seeded by the trial's number, so that workers that start together do not draw the same values."""
        seed = int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0])
        if self.sampler_name != "tpe":
            return optuna.samplers.RandomSampler(seed)
        with warnings.catch_warnings(action="ignore", category=optuna.exceptions.ExperimentalWarning):
            return optuna.samplers.TPESampler(seed=seed, constant_liar=True)

    def pruner(self, trial_run: TrialRun) -> optuna.pruners.BasePruner | None:
        """A pruner that waits until the consistency weight has ramped up: a large weight pays off late."""
        if not self.prune:
            return None
        warmup = int(trial_run.recipe.train.rampup * trial_run.recipe.train.steps)
        return optuna.pruners.MedianPruner(n_startup_trials=_STARTUP_TRIALS, n_warmup_steps=warmup)

    def value(self, result: Result) -> float:
        if result["valid_error"] is None:
            raise UserError("a trial has no validation examples to compare it by: leave out split.valid=0.")
        return float(result["valid_error"])

    def finished(self, trial_run: TrialRun, result: Result) -> None:
        """Nothing to do: the study has all results."""


def plan_search(
    recipe: Recipe,
    place: Place | None = None,
    *,
    params: Iterable[str] = (),
    sampler: Sampler | None = None,
    trials: int | None = None,
    seed: int = 0,
    prune: bool = True,
    study: str | None = None,
    out: Path | None = None,
) -> SearchPlan:
    """Plan a search, and check the recipe, its data, its validation split and all values that a trial may get.

    The same arguments name the same study, except `trials`, `out` and `place` (other than its mode). Without a storage,
    the study is a file in the search's folder.
    """
    place, recipe = place or Place(""), recipe.resolved()
    pick_device(place.device)
    space = read_space(recipe, params)
    chosen: Sampler = sampler or ("grid" if space.is_grid else "tpe")
    if chosen == "grid":
        _check_grid(space, trials)
    data = load_data(recipe, seed, place.data_dir)
    if not recipe.split.valid and data.valid is None:
        raise UserError(
            f"{recipe.name} has no validation split to search on: set its size, such as --set split.valid=100."
        )
    description = _description(recipe, space, chosen, seed, prune, place.mode)
    # release 0.1.0 named a study by all options that it had; this is the only one that is left out of hashes
    description["recipe"]["optimizer"]["turn"] = recipe.optimizer.turn
    digest = _digest(description)
    name = study or f"search/{recipe.name}/{digest}"
    label = re.sub(r"[^\w.-]", "-", study or digest).lstrip(".") or digest
    home = out or Path("runs/search") / recipe.name.replace("/", "-") / label
    if not place.storage:
        place = replace(place, storage=f"sqlite:///{home / 'study.db'}")
    n_trials = space.size if chosen == "grid" else trials or TRIALS
    return SearchPlan(place, name, recipe, space, chosen, n_trials, seed, prune, home)


def search(plan: SearchPlan) -> dict[str, Any]:
    """Run the remaining trials of the search, then write its report."""
    written = plan.out / "search.json"
    if written.exists() and read_json(written).get("study") != plan.name:
        raise UserError(f"{plan.out} holds another search: name another folder with --out.")
    with plan.study() as study:
        study.fill(plan.slots)
        with watch_study(study.snapshots, _title):
            run_plan(plan)
    return report(plan)


def report(plan: SearchPlan) -> dict[str, Any]:
    """Write search.json, report.html and, if a trial is complete, winner.json into the search's folder."""
    if Storage(plan.place.storage).missing or not _is_known(plan):
        raise UserError(f"there is no study {plan.name} yet: run the same command without --report first.")
    with plan.study() as study:
        snapshots, importances = study.snapshots(), study.importances()
    winner = best(snapshots)
    summary = {
        "study": plan.name,
        "recipe": plan.recipe.name,
        **{key: plan.description[key] for key in ("sampler", "seed", "prune", "mode", "space")},
        "chosen_on": "validation error of the final network; the test set was not read",
        "winner": None if winner is None else {"number": winner.number, "params": winner.params, "value": winner.value},
        "importances": importances,
        "trials": [_row(trial) for trial in snapshots],
        **provenance(pick_device(plan.place.device)),
        "settings": plan.recipe.to_dict(),
    }
    plan.out.mkdir(parents=True, exist_ok=True)
    files = {plan.out / "search.json": as_json(summary), plan.out / "report.html": search_page(summary).encode()}
    if winner is not None:
        tuned = apply(plan.recipe, winner.params)
        files[plan.out / "winner.json"] = as_json({"name": f"{plan.recipe.name}-tuned", **tuned.to_dict()})
    write_together(files)
    return summary


def text(summary: dict[str, Any], out: Path) -> str:
    """A search's summary in a few lines."""
    rows, winner = summary["trials"], summary["winner"]
    outcomes = [row["outcome"] for row in rows]
    counts = ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in dict.fromkeys(outcomes))
    lines = [f"{summary['recipe']}: {len(rows)} trials ({counts})"]
    lines += [f"trial {row['number']} failed: {row['error']}" for row in rows if row["outcome"] == "failed"]
    files = ["search.json", "report.html"]
    if winner:
        values = " ".join(f"{key}={short(value)}" for key, value in winner["params"].items())
        lines.append(f"best: trial {winner['number']}, validation error {percent(winner['value'])}, {values}")
        files.append("winner.json")
    return "\n".join([*lines, *(f"{out / name}" for name in files)])


def best(trials: Iterable[TrialSnapshot]) -> TrialSnapshot | None:
    """The complete trial with the smallest validation error, the first one if several are equal."""
    complete = [trial for trial in trials if trial.outcome == "complete" and trial.value is not None]
    return min(complete, key=lambda trial: (trial.value, trial.number), default=None)


def _is_known(plan: SearchPlan) -> bool:
    with plan.connect() as study:
        return study.exists()


def _row(trial: TrialSnapshot) -> dict[str, Any]:
    result = trial.notes.get("result", {})
    last = next(reversed(trial.curve.values()), None)
    return {
        "number": trial.number,
        "outcome": "diverged" if trial.outcome == "pruned" and "error" in trial.notes else trial.outcome,
        "params": trial.params,
        "valid_error": last if trial.value is None else trial.value,
        "valid_error_best": min(trial.curve.values(), default=None),
        "step": result.get("steps", next(reversed(trial.curve), None)),
        "seconds": result.get("seconds", trial.notes.get("progress", {}).get("seconds")),
        "resumed_from": result.get("resumed_from", []),
        "worker": {k: v for k, v in trial.notes.get("worker", {}).items() if k != "key"},
        "error": trial.notes.get("error"),
    }


def _title(trial: TrialSnapshot) -> str:
    values = ", ".join(f"{key}={short(value)}" for key, value in trial.params.items())
    return f"trial {trial.number}" + (f": {values}" if values else "")


def _check_grid(space: Space, trials: int | None) -> None:
    for param in space.params:
        if isinstance(param, Range):
            raise UserError(
                f"--param {param.key} is a range, which a grid cannot use: list values, or use --sampler tpe."
            )
    if trials is not None and trials < space.size:
        raise UserError(
            f"the grid has {space.size} cells and --trials is {trials}: "
            f"pass --trials {space.size}, fewer values, or --sampler random."
        )


def _description(recipe: Recipe, space: Space, sampler: Sampler, seed: int, prune: bool, mode: str) -> dict[str, Any]:
    content = {
        "recipe": recipe.identity,
        "space": space.to_dict(),
        "sampler": sampler,
        "seed": seed,
        "prune": prune,
        "mode": mode,
    }
    return _plain(content)


def _plain(content: Mapping[str, Any]) -> dict[str, Any]:
    """As it comes back from the database: tuples become lists."""
    plain: dict[str, Any] = json.loads(json.dumps(content))
    return plain


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]


def _distribution(param: Choices | Range) -> BaseDistribution:
    if isinstance(param, Choices):
        return CategoricalDistribution(param.values)
    if isinstance(param.low, int) and isinstance(param.high, int):
        return IntDistribution(param.low, param.high, log=param.scale == "log")
    return FloatDistribution(param.low, param.high, log=param.scale == "log")
