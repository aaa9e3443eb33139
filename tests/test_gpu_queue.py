"""research/gpu_queue.py: what it plans, and that it makes each run once and continues, on the CPU at a tiny size."""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import gpu_queue
import pytest
from gpu_queue import ENTRIES, Comparison, Place, Run, best_candidate, run_queue

from ict.base.interrupts import stops_interrupt
from ict.recipes import RECIPES
from ict.recipes.recipe import change

TINY = (
    *("dataset=digits", "network=convnet", "network.width=4", "split.labeled=20", "split.valid=20", "inputs.zca=none"),
    *("inputs.flip=false", "inputs.reflect=false", "train.labeled_batch=8", "train.unlabeled_batch=8"),
    *("train.steps=6", "eval.every=3", "eval.log_every=1"),
)
OF = {entry.number: entry for entry in ENTRIES}


def nothing(_: Run) -> None:
    return None


def place(folder: Path, *more: str) -> Place:
    return Place(folder / "results", folder / "work", None, 1, "exact", (*TINY, *more))


def contents(folder: Path) -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text()) for path in (folder / "results").glob("*.json")}


def test_every_run_is_of_a_recipe_with_settings_that_it_has() -> None:
    for entry in ENTRIES:
        for run in entry.runs(nothing):
            assert change(RECIPES[run.recipe], run.settings).hash
    assert [len(OF[number].runs(nothing)) for number in (2, 3, 4, 7)] == [8, 8, 3, 3]


def test_the_settings_set_back_are_all_that_the_program_and_the_text_differ_in() -> None:
    runs = OF[2].runs(nothing)
    one_each = [setting for run in runs for setting in run.settings]
    back = change(RECIPES["cifar10-4000/ict-program"], one_each).to_dict()
    text = RECIPES["cifar10-4000/ict"].resolved().to_dict()
    assert len(one_each) == 5 and {k for k in text if text[k] != back[k]} <= {"name", "note", "reported"}
    assert [run.seed for run in runs if not run.settings] == [0, 1, 2]


def test_fresh_seeds_run_the_candidate_with_the_least_validation_error() -> None:
    first, recipe = OF[3].runs(nothing), "svhn-250/ict-fast"
    assert all(not run.test and run.seed in (10, 11) and run.recipe == recipe for run in first)
    errors = dict.fromkeys(first, 0.2) | {run: 0.1 + 0.1 * (run.seed == 11) for run in first[2:4]}

    def known(run: Run) -> dict[str, Any] | None:
        return {"valid_error": errors[run]} if run in errors else None

    assert best_candidate(recipe, known) == first[2].settings == ("train.steps=72000",)
    later = [run for run in OF[3].runs(known) if run not in first]
    assert [(run.seed, run.settings, run.test) for run in later[:10]] == [
        (seed, first[2].settings, True) for seed in range(3, 13)
    ]
    assert {run.recipe for run in later[10:]} == {"svhn-500/ict-fast"} and not any(run.test for run in later[10:])
    del errors[first[-1]]
    assert best_candidate(recipe, known) is None


def test_each_run_is_made_once_and_has_a_file(tmp_path: Path) -> None:
    assert run_queue([OF[4]], place(tmp_path), 600)
    made = contents(tmp_path)
    assert sorted(result["seed"] for result in made.values()) == [0, 1, 2]
    for name, result in made.items():
        assert name == f"cifar10-4000-ict-fast-average.decay-none-seed{result['seed']}"
        assert result["settings"]["average"]["decay"] is None and result["test_error"] is not None
    assert run_queue([OF[4]], place(tmp_path), 600)
    assert contents(tmp_path) == made
    assert run_queue([OF[4]], place(tmp_path, "optimizer.lr=0.05"), 600), "the files of other settings do not count"
    assert contents(tmp_path).keys() == made.keys() and contents(tmp_path) != made


def test_candidates_never_see_the_test_set_and_the_best_one_is_run_with_fresh_seeds(tmp_path: Path) -> None:
    small = place(tmp_path, "train.steps=2", "eval.every=2")
    assert run_queue([OF[3]], small, 600)
    made = contents(tmp_path)
    chosen = [result for name, result in made.items() if "-valid-" in name]
    assert len(chosen) == 16 and all(result["test_error"] is None for result in chosen)
    fresh = [(r["recipe"], r["seed"]) for name, r in made.items() if "-valid-" not in name]
    assert sorted(fresh) == sorted((f"svhn-{n}/ict-fast", seed) for n in (250, 500) for seed in range(3, 13))


def test_methods_are_compared_and_the_best_of_them_with_more_seeds(tmp_path: Path) -> None:
    here = place(tmp_path, "train.steps=2", "eval.every=2")
    wanted = Comparison("digits-100", ("network.dropout=0.5",), "supervised,mixup,ict", seeds=1, best=1, more=2)
    assert run_queue([replace(OF[5], comparison=wanted)], here, 600)
    everyone, best = (json.loads(path.read_text()) for path in wanted.files(here.results))
    assert [row["method"] for row in everyone["rows"]] == ["supervised", "mixup", "ict"]
    assert {row["method"] for row in best["rows"]} == {*gpu_queue.best_methods(everyone, 1)} and best["seeds"] == [0, 1]
    assert all(recipe["network"]["dropout"] == 0.5 for recipe in everyone["recipes"].values())
    assert everyone["tuning"]["seeds"] == [100] and min(map(len, everyone["tuning"]["methods"].values())) >= 1
    written = {path: path.stat().st_mtime_ns for path in wanted.files(here.results)}
    assert run_queue([replace(OF[5], comparison=wanted)], here, 600)
    assert written == {path: path.stat().st_mtime_ns for path in wanted.files(here.results)}


def test_the_best_methods_are_those_of_validation_and_ict() -> None:
    errors = {"a": [0.3, 0.1], "b": [0.0, float("nan")], "c": [0.3, 0.2], "ict": [0.9, 0.9]}
    rows = [{"method": method, "valid_error": of} for method, of in errors.items()]
    assert gpu_queue.best_methods({"rows": rows}, 2) == ["a", "c", "ict"]


def test_what_was_stopped_continues_from_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stop:
        def progress(self, _: int, record: dict[str, Any]) -> None:
            if record["step"] >= 50:
                raise KeyboardInterrupt(signal.SIGTERM)

        def finished(self, _: int, result: dict[str, Any]) -> None:
            raise AssertionError(result)

    @contextmanager
    def watch(*_: Any) -> Iterator[Stop]:
        yield Stop()

    long = place(tmp_path, "train.steps=1000", "eval.every=1000")
    entry = replace(OF[7], runs=lambda _: OF[7].runs(nothing)[:1])
    with monkeypatch.context() as patch:
        patch.setattr(gpu_queue, "watch", watch)
        assert not run_queue([entry], long, 600)
    assert not contents(tmp_path)
    assert run_queue([entry], long, 600)
    (result,) = contents(tmp_path).values()
    assert len(result["resumed_from"]) == 1 and 50 <= result["resumed_from"][0] < 1000


def test_the_time_limit_stops_what_runs_inside() -> None:
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), stops_interrupt(), gpu_queue._limited(0.1):
        time.sleep(20)
    assert time.monotonic() - began < 10


def test_the_list_states_seeds_commands_and_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["gpu_queue.py", "--list", "--results", str(tmp_path)])
    gpu_queue.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1. the GPU suite (2 minutes): the GPU's paths are still correct"
    assert "   [-] ict train cifar10-4000/ict-program --seed 2 --mode fast --data-dir DIR" in lines
    assert sum("# validation only" in line for line in lines) == 8
