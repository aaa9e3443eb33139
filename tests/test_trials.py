"""Recipes over seeds: results against runs made one by one, what is run again and what is not, and who runs where."""

import json
import os
import signal
import time
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console

from ict.base.errors import UserError
from ict.experiment import pool
from ict.experiment.run import train
from ict.experiment.run_folder import Folder
from ict.paper.table import find_results
from ict.recipes import find
from ict.recipes.recipe import change
from ict.studies.live_study import LiveStudy, watch_study
from ict.studies.storage import StorageError
from ict.studies.study import Lost, Study
from ict.studies.trial import Outcome, TrialSnapshot
from ict.studies.trials import plan_trials, read_seeds, run_trials, title
from ict.studies.workers import Place, StudyPlan, run_plan, serve, work
from tests.test_cli import ict
from tests.tiny import outcome, tiny

STEPS = ["train.steps=8", "eval.every=4"]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two recipes as files, in a folder of one's own to run in."""
    monkeypatch.chdir(tmp_path)
    for method in ("ict", "mixup"):
        Path(f"{method}.json").write_text(json.dumps(change(tiny(method), STEPS).to_dict()))
    return ["ict.json", "mixup.json"]


def words(files: list[str], *more: str) -> list[str]:
    return ["trials", *files, "--seeds", "0-1", "--device", "cpu", "--workers", "1", *more]


def test_each_cell_has_the_result_of_its_own_run_and_is_run_once(
    files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ict(monkeypatch, *words(files)) == 0
    said = capsys.readouterr()
    results = {(r["recipe"], r["seed"]): r for r in find_results(None)}
    expected = {
        (file[:-5], seed): train(find(file), seed=seed, device="cpu").result for file in files for seed in (0, 1)
    }
    assert {k: outcome(r) for k, r in results.items()} == {k: outcome(r) for k, r in expected.items()}
    errors = [100 * expected["ict", seed]["test_error"] for seed in (0, 1)]
    assert f"ict: test error {sum(errors) / 2:.2f} ±" in said.out and "(2 seeds)" in said.out
    assert len(said.err.splitlines()) == 4 and "mixup seed 1: test error" in said.err and "(4 of 4)" in said.err

    monkeypatch.setattr("ict.studies.workers.train", lambda *_, **__: pytest.fail("a cell was run again"))
    next(Path("results/trials").glob("ict-*-seed1.json")).unlink()
    assert ict(monkeypatch, *words([*reversed(files), "ict.json"]), "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert sorted(r["test_error"] for r in again) == sorted(r["test_error"] for r in results.values())
    assert len(find_results(None)) == 4, "a result that is missing here comes from the study"


def test_what_fails_is_told_at_the_end_and_tried_again_by_the_next_command(
    files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, section in (("wild", {"optimizer": {"lr": 1e30}}), ("greedy", {"split": {"labeled": 5000, "valid": 0}})):
        Path(f"{name}.json").write_text(json.dumps(json.loads(Path("ict.json").read_text()) | section))
    recipes = ("wild.json", "greedy.json", "mixup.json")
    cells = ("trials", *recipes, "--seeds", "3", "--device", "cpu", "--workers", "1")
    assert ict(monkeypatch, *cells) == 1
    said = capsys.readouterr()
    assert "wild seed 3 failed: the loss was not finite at step" in said.out
    assert "greedy seed 3 failed: class 0 has" in said.out and "needs 500" in said.out
    assert "mixup: test error" in said.out and said.err.endswith("error: 2 of 3 runs failed.\n")
    assert [r["recipe"] for r in find_results(None)] == ["mixup"]

    class Mended:
        result = train(find("mixup.json"), seed=3, device="cpu").result

        def __init__(self, recipe: Any, **_: Any) -> None:
            assert recipe.name != "mixup", "this one was complete"

    monkeypatch.setattr("ict.studies.workers.train", Mended)
    assert ict(monkeypatch, *cells) == 0
    assert len(list(Path("results/trials").glob("*.json"))) == 3


def test_a_failure_that_nobody_expected_is_noted_and_shown(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object, **__: object) -> None:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr("ict.studies.workers.train", explode)
    plan = plan_trials(files, Place("", 1, "cpu"), seeds="0")
    with pytest.raises(ZeroDivisionError):
        run_trials(plan)
    with plan.study() as study:
        assert [t.notes.get("error") for t in study.snapshots()] == ["ZeroDivisionError: boom", None]


def test_a_machine_without_the_data_says_so_once_and_fails_no_trial(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = ("trials", "cifar10-4000/ict", "cifar10-1000/ict", "--seeds", "0-2", "--device", "cpu")
    assert ict(monkeypatch, *cells, "--data-dir", "nowhere") == 2
    assert capsys.readouterr().err.count("nowhere has no cifar-10-batches-bin") == 1
    with plan_trials(cells[1:3], Place("", 1, "cpu"), seeds="0-2").study() as study:
        assert [trial.outcome for trial in study.snapshots()] == ["waiting"] * 6


def test_an_interrupted_trial_waits_for_the_next_worker(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    plan = plan_trials(files, Place("", 1, "cpu"), seeds="0")
    with monkeypatch.context() as patch:
        patch.setattr("ict.studies.workers.train", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_trials(plan)
    with plan.study() as study:
        assert [t.outcome for t in study.snapshots()] == ["waiting", "waiting"]
    assert signal.getsignal(signal.SIGINT) is before
    assert [t.outcome for t in run_trials(plan)] == ["complete", "complete"]


@pytest.mark.parametrize("method", ["claim", "snapshots", "finish"])
def test_a_database_that_is_away_for_a_while_costs_nothing(
    method: str, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    plan = plan_trials(files[1:], Place("", 1, "cpu"), seeds="0")
    with plan.study() as study:
        study.add_missing(plan.slots)
    usual = getattr(Study, method)

    def away(self: Study, *arguments: Any, **notes: Any) -> Any:
        if len(slept) < 3:
            raise StorageError("away")
        return usual(self, *arguments, **notes)

    monkeypatch.setattr(Study, method, away)
    monkeypatch.setattr("ict.studies.workers.time", SimpleNamespace(sleep=slept.append, monotonic=time.monotonic))
    work(plan)
    with plan.study() as study:
        assert [trial.outcome for trial in study.snapshots()] == ["complete"] and slept == [1, 2, 4]


def test_patience_has_an_end(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    def away(*_: object) -> None:
        raise StorageError("away")

    monkeypatch.setattr(Study, "claim", away)
    monkeypatch.setattr("ict.studies.workers.time", SimpleNamespace(sleep=slept.append, monotonic=time.monotonic))
    with pytest.raises(StorageError):
        work(plan_trials(files, Place("", 1, "cpu"), seeds="0"))
    assert 60 < sum(slept) < 300


def test_an_interruption_is_one_also_when_the_trial_is_lost(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def lost(*_: object) -> None:
        raise Lost

    monkeypatch.setattr("ict.studies.workers.train", interrupted)
    monkeypatch.setattr(Study, "release", lost)
    with pytest.raises(KeyboardInterrupt):
        run_trials(plan_trials(files, Place("", 1, "cpu"), seeds="0"))


def test_a_worker_drops_a_trial_that_is_no_longer_its_own(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    beats = []

    def lost(self: Study, claim: Any, progress: Any) -> None:
        beats.append(claim.snapshot.number)
        raise Lost

    def trained(recipe: Any, log: Any, **_: Any) -> None:
        while True:  # until the beat has told
            log({"step": 1, "seconds": 0.1})
            time.sleep(0.01)

    plan = plan_trials(files, Place("", 1, "cpu", timeout=4), seeds="0")
    with plan.study() as study:
        study.add_missing(plan.slots)
    monkeypatch.setattr(Study, "beat", lost)
    monkeypatch.setattr("ict.studies.workers.train", trained)
    work(plan)
    with plan.study() as study:
        assert beats == [0, 1] and [t.outcome for t in study.snapshots()] == ["running", "running"]


def test_a_trial_whose_last_worker_is_still_in_its_folder_waits(
    files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_trials(files[1:], Place("", 1, "cpu"), seeds="0")
    with plan.study() as study:
        study.add_missing(plan.slots)
    theirs = ExitStack()
    theirs.enter_context(Folder(plan.runs[0].out).alone())
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            theirs.close()

    monkeypatch.setattr("ict.studies.workers.time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    work(plan)
    with plan.study() as study:
        assert [trial.outcome for trial in study.snapshots()] == ["complete"] and slept == [1.0] * 3


@pytest.mark.slow
def test_two_processes_share_the_cells(files: list[str]) -> None:
    ended = run_trials(plan_trials(files, Place("", 2, "cpu"), seeds="0-1"))
    assert [trial.outcome for trial in ended] == ["complete"] * 4
    assert os.getpid() not in {trial.notes["worker"]["pid"] for trial in ended}
    assert len(list(Path("results/trials").glob("*.json"))) == 4


@pytest.mark.parametrize("in_use", [False, True])
def test_a_worker_whose_parent_is_gone_gives_its_trial_back(in_use: bool, files: list[str]) -> None:
    plan = plan_trials(files, Place("", 1, "cpu"), seeds="0")
    folder = Folder(plan.runs[0].out).alone() if in_use else nullcontext()
    with folder, plan.study() as study:
        study.add_missing(plan.slots)
        ours, theirs = Pipe()
        ours.close()
        with pytest.raises(KeyboardInterrupt):
            work(plan, None, theirs)
        assert [trial.outcome for trial in study.snapshots()] == ["waiting", "waiting"]


def test_a_worker_that_fails_says_so_and_one_that_died_is_done_without(
    files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_trials(files, Place("", 2, "cpu"), seeds="0")
    with plan.study() as study:
        study.add_missing(plan.slots)
    pipes = [Pipe() for _ in range(2)]

    @contextmanager
    def crew(size: int, run: object) -> Any:
        yield [ours for ours, _ in pipes]

    monkeypatch.setattr("ict.studies.workers.crew", crew)
    pipes[0][1].close()
    pipes[1][1].send(("done", None))
    run_plan(plan)
    pipes[:] = [Pipe() for _ in range(2)]
    pipes[0][1].close()
    pipes[1][1].close()
    with pytest.raises(UserError, match="every worker was killed"):
        run_plan(plan)
    pipes[:] = [Pipe() for _ in range(2)]
    monkeypatch.setattr("ict.studies.workers.work", lambda *_: 1 / 0)
    pipes[0][1].send(pool.answer(serve, pipes[0][1], (plan, None)))
    with pytest.raises(ZeroDivisionError):
        run_plan(plan)


class Caught(Exception):
    pass


@pytest.mark.parametrize(
    ("visible", "workers", "gets"),
    [(None, None, ["0", "1", "2"]), ("4,7", None, ["4", "7"]), ("4,7", 3, ["4", "7", "4"]), (None, 2, ["0", "1"])],
)
def test_workers_are_spread_over_the_gpus(
    visible: str | None, workers: int | None, gets: list[str], files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    class Taker:
        def send(self, order: tuple[StudyPlan, str]) -> None:
            sent.append(order[1])
            if len(sent) == len(gets):
                raise Caught

    @contextmanager
    def crew(size: int, run: object) -> Any:
        yield [Taker() for _ in range(size)]

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    plan = plan_trials(files, Place("", workers, "cpu"), seeds="0-1")
    monkeypatch.setattr("ict.studies.workers.pick_device", lambda device: torch.device("cuda", 0))
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    monkeypatch.setattr("ict.studies.workers.crew", crew)
    with plan.study() as study:
        study.add_missing(plan.slots)
    with pytest.raises(Caught):
        run_plan(plan)
    assert sent == gets


def test_seeds_are_read() -> None:
    assert read_seeds("0-2") == [0, 1, 2] and read_seeds("5") == [5] and read_seeds("3, 1-2,3") == [3, 1, 2]
    for wrong in ("", "2-0", "a", "-1", "1-", "0..2", "1,,2"):
        with pytest.raises(UserError, match="write 0-2 or"):
            read_seeds(wrong)


def test_results_cannot_go_into_a_file(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(UserError, match="taken is a file: name a folder with --results"):
        plan_trials(files, results=tmp_path / "taken")


def test_fast_and_exact_runs_are_kept_apart(files: list[str]) -> None:
    exact = plan_trials(files, Place("", 1, "cpu", "exact"))
    fast = plan_trials(files, Place("", 1, "cpu", "fast"))
    assert exact.name != fast.name and exact.runs[0].out != fast.runs[0].out
    assert exact.result_file(exact.runs[0]) != fast.result_file(fast.runs[0])


def seen(number: int, outcome: Outcome, recipe: str = "a/b", curve: Any = (), **notes: Any) -> TrialSnapshot:
    return TrialSnapshot(number, outcome, {}, {"recipe": recipe, "seed": number, **notes}, None, dict(curve))


TRIALS = [
    seen(0, "complete", result={"seconds": 10.0, "tested": True, "test_error": 0.0625}),
    seen(1, "running", progress={"step": 50, "steps": 200, "seconds": 5.0, "valid_error": 0.25},
         worker={"host": "abacus", "pid": 7, "gpu": "3"}),
    seen(2, "failed", error="no such [file]"),
    seen(3, "running", "c/d", progress={"step": 10, "steps": 20, "seconds": 50.0}, worker={"host": "abacus", "pid": 8}),
    seen(4, "pruned", curve={4: 0.5}),
    seen(5, "waiting"),
]  # fmt: skip


def test_the_live_view_shows_which_trial_runs_where_and_how_far() -> None:
    live = LiveStudy(lambda: TRIALS, title)
    console = Console(width=140)
    with console.capture() as caught:
        console.print(live)
    rows = {line.split("│")[1].strip(): line for line in caught.get().splitlines() if "│" in line}
    assert "abacus:7 GPU 3" in rows["a/b seed 1"] and "25%" in rows["a/b seed 1"] and "25.00 %" in rows["a/b seed 1"]
    assert "abacus:8 " in rows["c/d seed 3"] and "50%" in rows["c/d seed 3"]
    assert "test error 6.25 %" in rows["a/b seed 0"] and "no such [file]" in rows["a/b seed 2"]
    assert "pruned at validation error 50.00 %" in rows["a/b seed 4"] and "a/b seed 5" not in rows
    assert "3 of 6 done, 2 running" in caught.get()
    # a whole run of a/b takes the mean of 10 and 20 s, one of c/d 100; .75 and 1 of the first are left, .5 of the last
    assert live.remaining() == pytest.approx(max((15 * 1.75 + 50) / 2, 50))
    assert LiveStudy(lambda: TRIALS[5:], title).remaining() is None


def test_a_line_is_told_for_each_trial_that_ends_meanwhile(capsys: pytest.CaptureFixture[str]) -> None:
    trials = [TRIALS[0], TRIALS[1]]
    with watch_study(lambda: list(trials), title):
        trials[1] = replace(TRIALS[1], outcome="failed", notes={**TRIALS[1].notes, "error": "why"})
    assert capsys.readouterr().err == "a/b seed 1: why (2 of 2)\n"


def test_a_view_that_cannot_look_says_nothing() -> None:
    answers = iter([TRIALS])

    def look() -> list[TrialSnapshot]:
        for answer in answers:
            return answer
        raise StorageError("away")

    live = LiveStudy(look, title)
    assert live.refresh() == [] and live.trials == TRIALS
