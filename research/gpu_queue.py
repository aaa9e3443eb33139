"""The runs that wait for a GPU, in the order of their worth, with their seeds and settings fixed beforehand.

    python research/gpu_queue.py --list                          # entries, commands, minutes, what is done
    python research/gpu_queue.py --data-dir DIR --minutes 9      # from the top; the same command continues
    python research/gpu_queue.py --data-dir DIR --only 3         # one entry; --from 3: that one and those after it

Each finished run or comparison is a file in --results, and is not repeated. A run that the time limit or a crash ends
continues from its checkpoint in --work.
"""

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import isnan
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from ict.base.errors import UserError
from ict.base.files import read_json, write_json
from ict.base.interrupts import stops_interrupt
from ict.engine.device import Device, Mode, pick_device
from ict.experiment.live_table import watch
from ict.experiment.pool import Task, run_all
from ict.experiment.provenance import provenance
from ict.experiment.result import Result, is_of
from ict.paper.compare import compare
from ict.recipes import RECIPES
from ict.recipes.program import PROGRAM
from ict.recipes.recipe import Recipe, change

RESULTS = Path(__file__).parent.parent / "results/h200/queue"
SUITE = "suite.txt"


@dataclass(frozen=True)
class Run:
    """A recipe with changes and a seed. Without `test` the test set is dropped before training."""

    recipe: str
    seed: int
    settings: tuple[str, ...] = ()
    test: bool = True

    @property
    def name(self) -> str:
        words = (self.recipe, *self.settings, *([] if self.test else ["valid"]), f"seed{self.seed}")
        return re.sub(r"[^a-z0-9._-]", "-", "-".join(words))

    @property
    def command(self) -> str:
        words = ["ict", "train", self.recipe, "--seed", str(self.seed), "--mode", "fast", "--data-dir", "DIR"]
        return shlex.join([*words, *(word for setting in self.settings for word in ("--set", setting))])


Known = Callable[[Run], Result | None]  # the result of a run, if there is one


@dataclass(frozen=True)
class Entry:
    """`minutes`: of one H200, estimated from earlier runs. `runs` may depend on the results of earlier ones."""

    number: int
    title: str
    why: str
    minutes: int
    runs: Callable[[Known], Sequence[Run]] = lambda _: ()
    suite: bool = False  # the tests that need a GPU
    comparison: "Comparison | None" = None


@dataclass(frozen=True)
class Comparison:
    """Tuned methods of a task with `seeds` seeds each; then the best by validation, and ICT, with `more` seeds."""

    task: str
    settings: tuple[str, ...]
    methods: str | None = None  # none: those of the paper
    tune: int = 1
    seeds: int = 3
    best: int = 5
    more: int = 5

    @property
    def command(self) -> str:
        words = ["ict", "compare", self.task, "--tune", str(self.tune), "--seeds", str(self.seeds), "--data-dir", "DIR"]
        return shlex.join([*words, *(word for setting in self.settings for word in ("--set", setting))])

    def files(self, results: Path) -> tuple[Path, Path]:
        return results / f"compare-{self.task}.json", results / f"compare-{self.task}-best.json"


# --- the entries --------------------------------------------------------------------------------------------------

_CELL = "cifar10-4000"
# the text's settings, one at a time, where the program has another
_BACK = {
    "algorithm.targets": "probs",
    "algorithm.logging_forwards": "false",
    "optimizer.nesterov": "true",
    "train.labeled_order": "reshuffled",
    "eval.augmented_valid": "false",
}
assert _BACK.keys() == PROGRAM.keys()
_FEW = ("svhn-250/ict-fast", "svhn-500/ict-fast")
_CANDIDATES: tuple[tuple[str, ...], ...] = (
    (),
    ("train.steps=72000",),
    ("inputs.scale=image",),
    ("inputs.scale=image", "train.weight=100"),
)
_CHOOSING = (10, 11)
_FRESH = range(3, 13)
_MUON = ("optimizer.name=muon", "optimizer.turn=0.01", "optimizer.momentum=0.95")


def _program(_: Known) -> list[Run]:
    name = f"{_CELL}/ict-program"
    whole = [Run(name, seed) for seed in (0, 1, 2)]
    return [*whole, *(Run(name, 0, (f"{key}={value}",)) for key, value in _BACK.items())]


def _few_labels(known: Known) -> list[Run]:
    """Cell by cell the candidates on validation images, then fresh seeds of the best one."""
    runs: list[Run] = []
    for recipe in _FEW:
        runs += [Run(recipe, seed, settings, test=False) for settings in _CANDIDATES for seed in _CHOOSING]
        best = best_candidate(recipe, known)
        if best is None:
            break
        runs += [Run(recipe, seed, best) for seed in _FRESH]
    return runs


def best_candidate(recipe: str, known: Known) -> tuple[str, ...] | None:
    """The settings with the least mean validation error, of equals the first; None before all are known."""
    errors: list[float] = []
    for settings in _CANDIDATES:
        results = [known(Run(recipe, seed, settings, test=False)) for seed in _CHOOSING]
        if any(result is None for result in results):
            return None
        errors.append(fmean(1.0 if result is None else result.get("valid_error", 1.0) for result in results))
    return _CANDIDATES[errors.index(min(errors))]


def _no_teacher(_: Known) -> list[Run]:
    return [Run(f"{_CELL}/ict-fast", seed, ("average.decay=none",)) for seed in (0, 1, 2)]


def _with_muon(_: Known) -> list[Run]:
    return [Run(f"{_CELL}/ict-fast", seed, _MUON) for seed in (0, 1, 2)]


def _later_methods(_: Known) -> list[Run]:
    names = [f"cifar10-{labels}-wrn/{method}" for labels in (40, 250, 4000) for method in ("fixmatch", "freematch")]
    return [Run(name, seed) for name in names if name in RECIPES for seed in (0, 1, 2)]


ENTRIES = (
    Entry(1, "the GPU suite", "the GPU's paths are still correct", 2, suite=True),
    Entry(2, "the authors' program, then with one setting of the text at a time", "7.99 against 7.29", 80, _program),
    Entry(
        3,
        "SVHN, 250 labels, then 500: candidates on validation images of seeds 10, 11; seeds 3 to 12 of the best",
        "a fair answer instead of a third tuning on seeds 0 to 2",
        100,
        _few_labels,
    ),
    Entry(4, "SGD without the mean teacher", "the ablation as the paper has it", 11, _no_teacher),
    Entry(
        5,
        "the comparison on CIFAR-10, 3 seeds: grids that bracket, an average and dropout for all; 5 seeds of the best",
        "an honest table",
        100,
        comparison=Comparison("cifar10-4000-fair", ("network.dropout=0.5",)),
    ),
    Entry(6, "FixMatch and FreeMatch, once they are among the recipes", "what the field has since", 60, _later_methods),
    Entry(7, "ICT for 240 s with Muon", "accuracy", 12, _with_muon),
)


# --- the command --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where and how the runs are made. `settings` change every run, for a test at a tiny size."""

    results: Path
    work: Path
    data_dir: Path | None
    workers: int
    mode: Mode
    settings: tuple[str, ...]

    def known(self, run: Run) -> Result | None:
        path = self.results / f"{run.name}.json"
        result: Result | None = read_json(path) if path.exists() else None
        return result if result is not None and is_of(result, self.recipe(run), run.seed) else None

    def recipe(self, run: Run) -> Recipe:
        return change(RECIPES[run.recipe], [*run.settings, *self.settings])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="run nothing")
    parser.add_argument("--from", dest="first", type=int, default=1, metavar="N", help="begin with this entry")
    parser.add_argument("--only", type=int, metavar="N", help="this entry alone")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after this long, with a checkpoint")
    parser.add_argument("--workers", type=int, default=1, help="runs that share the GPU")
    parser.add_argument("--mode", choices=("exact", "fast"), default="fast")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--work", type=Path, default=Path("runs/queue"), help="checkpoints")
    parser.add_argument("--set", dest="settings", action="append", default=[], help="change every run, for a trial")
    a = parser.parse_args()
    place = Place(a.results, a.work, a.data_dir, a.workers, a.mode, tuple(a.settings))
    chosen = [e for e in ENTRIES if (e.number == a.only if a.only is not None else e.number >= a.first)]
    if a.list:
        print("\n\n".join(_described(entry, place) for entry in chosen))
        return
    try:
        done = run_queue(chosen, place, 60 * a.minutes)
    except UserError as problem:
        sys.exit(f"error: {problem}")
    print("all done" if done else "stopped: the same command continues")


def run_queue(entries: Sequence[Entry], place: Place, seconds: float) -> bool:
    """Make what is missing, and say whether that was all. At the time limit the runs save a checkpoint and stop."""
    end = time.monotonic() + seconds
    place.results.mkdir(parents=True, exist_ok=True)
    try:
        with stops_interrupt(), _limited(seconds):
            for entry in entries:
                print(f"{entry.number}. {entry.title}", flush=True)
                if entry.suite:
                    _suite(place, end - time.monotonic())
                if entry.comparison:
                    _compare(entry.comparison, place)
                while runs := [run for run in entry.runs(place.known) if place.known(run) is None]:
                    _train(runs, place)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        return False
    return True


def _train(runs: Sequence[Run], place: Place) -> None:
    device: Device = "cuda" if torch.cuda.is_available() else "cpu"
    tasks = []
    for run in runs:
        recipe = place.recipe(run)
        folder = place.work / run.name / recipe.hash
        tasks.append(Task(recipe, run.seed, folder, device, place.data_dir, place.mode, run.test))
    with watch(tasks, list(dict.fromkeys(task.recipe.name for task in tasks)), place.workers) as seen:

        def finished(index: int, result: Result) -> None:
            write_json(place.results / f"{runs[index].name}.json", result)
            seen.finished(index, result)

        run_all(tasks, place.workers, seen.progress, finished, keep_diverged=True)


def _compare(wanted: Comparison, place: Place) -> None:
    """Both comparisons, each unless its file is there. The second one goes on with the runs of the first."""
    everyone, best = wanted.files(place.results)
    same = partial(
        compare,
        wanted.task,
        place.work / f"compare-{wanted.task}",
        settings=(*place.settings, *wanted.settings),
        tune=wanted.tune,
        device="cuda" if torch.cuda.is_available() else "cpu",
        mode=place.mode,
        data_dir=place.data_dir,
        workers=place.workers,
    )
    if not everyone.exists():
        write_json(everyone, same(wanted.methods, n_seeds=wanted.seeds))
    if not best.exists():
        names = best_methods(read_json(everyone), wanted.best)
        write_json(best, same(",".join(names), n_seeds=wanted.more))


def best_methods(summary: dict[str, Any], n: int) -> list[str]:
    """The methods with the least mean validation errors, and ICT. Those of which a seed diverged come last."""
    errors = {
        row["method"]: [1.0 if e is None or isnan(e) else e for e in row["valid_error"]] for row in summary["rows"]
    }
    return sorted({*sorted(errors, key=lambda method: fmean(errors[method]))[:n], "ict"})


def _suite(place: Place, seconds: float) -> None:
    """Run the tests that need a GPU, once at each commit, and keep what they print."""
    if _suite_passed(place):
        return
    tests = ["tests/test_gpu.py", "tests/test_fast_networks.py"]
    words = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", *tests]
    said = subprocess.run(words, capture_output=True, text=True, timeout=min(seconds, 3600), check=False)
    origin = json.dumps(provenance(_device()), indent=2)
    (place.results / SUITE).write_text(f"{origin}\n{said.stdout}{said.stderr}")
    print(said.stdout[-2000:], flush=True)


def _suite_passed(place: Place) -> bool:
    path = place.results / SUITE
    text = path.read_text() if path.exists() else ""
    return str(provenance(_device())["commit"]) in text and " passed" in text and " failed" not in text


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """End what runs inside after this long, as SIGTERM does."""
    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _device() -> torch.device:
    return pick_device("auto")


def _described(entry: Entry, place: Place) -> str:
    lines = [f"{entry.number}. {entry.title} ({entry.minutes} minutes): {entry.why}"]
    if entry.suite:
        lines.append(f"   [{'done' if _suite_passed(place) else '-'}] pytest -m gpu")
    if entry.comparison:
        done = all(path.exists() for path in entry.comparison.files(place.results))
        lines.append(f"   [{'done' if done else '-'}] {entry.comparison.command}")
    for run in entry.runs(place.known):
        mark = "-" if place.known(run) is None else "done"
        lines.append(f"   [{mark}] {run.command}{'' if run.test else '  # validation only'}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
