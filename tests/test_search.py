"""The search: what it tries and chooses against runs made one by one, that it never looks at the test set, its page."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import optuna
import pytest
import torch

from ict.base.errors import UserError
from ict.engine.evaluate import error
from ict.experiment.run import train
from ict.recipes import RECIPES, find
from ict.recipes.recipe import Recipe, change
from ict.studies.report import search_page
from ict.studies.search import plan_search, report, search
from ict.studies.search_space import Choices, Range, read_space
from ict.studies.workers import Place, run_plan
from tests.test_cli import assert_refused, ict
from tests.tiny import tiny

pytestmark = pytest.mark.xdist_group("search")  # they share one search
HERE = Place("", 1, "cpu")
GRID = ["--param", "train.weight=1,5", "--param", "algorithm.alpha=0.5,1"]


def small() -> Recipe:
    return change(tiny(), ["train.steps=8", "eval.every=4"])


@pytest.fixture(scope="module")
def recipe_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "small.json"
    path.write_text(json.dumps(small().to_dict()))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, recipe_file: Path) -> Iterator[Path]:
    """A finished search over a grid of four cells, as the command leaves it."""
    out = tmp_path_factory.mktemp("search")
    seen: list[int] = []

    def spied(network: Any, examples: Any, *rest: Any) -> float:
        seen.append(len(examples))
        return error(network, examples, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ict.experiment.finish.error", spied)
        patch.setattr("ict.experiment.run.error", spied)
        patch.setattr("ict.engine.loop.error", spied)
        words: list[str | Path] = [
            "search",
            recipe_file,
            *GRID,
            "--no-prune",
            "--workers",
            "1",
            "--device",
            "cpu",
            "--out",
            out,
        ]
        assert ict(patch, *words) == 0
    # two validations of two networks in each of four runs, and the final ones
    assert len(seen) >= 16 and set(seen) == {20}, "something other than the 20 validation examples was evaluated"
    yield out


@pytest.fixture
def content(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "search.json").read_text())
    return read


def test_every_cell_is_run_once_and_the_best_one_wins(content: dict[str, Any], recipe_file: Path) -> None:
    errors = {}
    for weight in (1.0, 5.0):
        for alpha in (0.5, 1.0):
            recipe = change(find(str(recipe_file)), [f"train.weight={weight}", f"algorithm.alpha={alpha}"])
            errors[weight, alpha] = train(recipe, device="cpu").result["valid_error"]
    found = {tuple(trial["params"].values()): trial["valid_error"] for trial in content["trials"]}
    assert found == errors and len(content["trials"]) == 4
    assert list(content["trials"][0]["params"]) == ["train.weight", "algorithm.alpha"]
    best = min(errors.values())
    first = next(i for i, cell in enumerate(errors) if errors[cell] == best)
    assert content["winner"]["number"] == first and content["winner"]["value"] == best


def test_no_trial_has_a_test_error(folder: Path) -> None:
    results = [json.loads(file.read_text()) for file in folder.glob("trial*/result.json")]
    assert len(results) == 4
    for result in results:
        assert result["tested"] is False and result["n_test"] == 0
        assert all(value is None for key, value in result.items() if key.startswith("test_error"))


def test_a_run_without_the_test_set_is_the_same_run_and_can_be_evaluated_later(tmp_path: Path) -> None:
    whole = train(small(), device="cpu")
    without = train(small(), device="cpu", out=tmp_path, test=False)
    assert whole.result["tested"] and not without.result["tested"]
    assert without.result["valid_error"] == whole.result["valid_error"]
    later = train(small(), device="cpu", out=tmp_path, resume=True)
    assert later.result["test_error"] == whole.result["test_error"] and later.result["resumed_from"] == [8]
    again = train(small(), device="cpu", out=tmp_path, resume=True, test=False)
    assert again.result == later.result, "a result that has more is as good"


def test_the_winner_is_a_recipe_that_trains(
    folder: Path, content: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert ict(monkeypatch, "train", "winner.json", "--device", "cpu", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["valid_error"] == content["winner"]["value"] and result["recipe"].endswith("-tuned")
    assert {k: result["settings"][k.partition(".")[0]][k.partition(".")[2]] for k in content["winner"]["params"]} == (
        content["winner"]["params"]
    )


def test_the_same_command_runs_nothing_again(
    folder: Path,
    content: dict[str, Any],
    recipe_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("ict.studies.workers.train", lambda *_, **__: pytest.fail("a trial was run again"))
    words: list[str | Path] = ["search", recipe_file, *GRID, "--no-prune", "--device", "cpu", "--out", folder]
    assert ict(monkeypatch, *words) == 0
    text = capsys.readouterr().out
    assert "4 trials (4 complete)" in text and str(folder / "winner.json") in text
    assert ict(monkeypatch, *words, "--report", "--json") == 0
    assert json.loads(capsys.readouterr().out)["trials"] == content["trials"]


@pytest.mark.parametrize("change_", [["--seed", "1"], ["--param", "optimizer.lr=0.1,0.2"], ["--set", "train.steps=9"]])
def test_another_search_is_another_study(
    change_: list[str],
    folder: Path,
    recipe_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words: list[str | Path] = [
        "search",
        recipe_file,
        *GRID,
        "--no-prune",
        "--device",
        "cpu",
        "--out",
        folder,
        "--report",
        *change_,
    ]
    assert ict(monkeypatch, *words) == 2
    assert "there is no study" in capsys.readouterr().err
    named = json.loads((folder / "search.json").read_text())["study"]
    assert ict(monkeypatch, *words, "--study", named) == 2
    assert "was created for another" in capsys.readouterr().err


def naively_pruned_at(trials: list[dict[str, Any]], curves: list[dict[int, float]], i: int, warmup: int) -> int | None:
    """The step at which the median rule ends trial i, by its own words: the best so far is above the others' median."""
    earlier = [k for k in range(i) if trials[k]["outcome"] == "complete"]
    for step in sorted(curves[i]):
        others = [curves[k][step] for k in range(i) if step in curves[k] and trials[k]["outcome"] == "complete"]
        best = min(value for s, value in curves[i].items() if s <= step)
        if step >= warmup and len(earlier) >= 5 and best > median(others):
            return step
    return None


def test_bad_trials_end_where_the_median_rule_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Scripted:
        """Training whose validation errors are drawn at random, the same for the same rate."""

        def __init__(self, recipe: Recipe, log: Any, **_: Any) -> None:
            rng = np.random.default_rng(int(recipe.optimizer.lr * 1e9))
            drawn = 0.9 - rng.uniform(0, 0.06) * np.arange(6) + rng.uniform(-0.05, 0.05, 6)
            drawn[-1] -= 0.5
            if recipe.optimizer.lr > 0.05:
                drawn[:] = 0.45  # falls behind at the last step alone
            for step, value in zip(range(2, 13, 2), drawn, strict=True):
                log({"step": step, "seconds": step / 10, "valid_error_student": 0.0, "valid_error_teacher": value})
            self.result = {"valid_error": drawn[-1], "steps": 12, "seconds": 1.2}

    monkeypatch.setattr("ict.studies.workers.train", Scripted)
    recipe = change(tiny(), ["train.steps=12", "eval.every=2", "train.rampup=0.34"])
    params = ["optimizer.lr=log:0.00001:0.3"]
    plan = plan_search(recipe, HERE, params=params, sampler="random", trials=16, out=tmp_path)
    trials = search(plan)["trials"]
    with plan.study() as study:
        curves = [trial.curve for trial in study.snapshots()]
    ends = [naively_pruned_at(trials, curves, i, warmup=4) for i in range(16)]
    assert len(set(ends) - {None, 12}) >= 2 and 12 in ends, "the draws try too little"
    for trial, curve, end in zip(trials, curves, ends, strict=True):
        pruned = end is not None and end < 12  # at the last step there is nothing left to save
        assert (trial["outcome"], trial["step"]) == (("pruned", end) if pruned else ("complete", 12))
        assert list(curve) == list(range(2, trial["step"] + 1, 2)) and trial["seconds"] == trial["step"] / 10


def test_a_trial_that_diverges_or_cannot_be_is_told_and_others_go_on(tmp_path: Path) -> None:
    recipe = change(tiny(), ["train.steps=6", "optimizer.nesterov=true"])
    params = ["optimizer.lr=0.1,1e30", "train.unlabeled_batch=8,7", "train.pair_groups=1,2"]
    summary = search(plan_search(recipe, HERE, params=params, out=tmp_path))
    outcomes = {tuple(trial["params"].values()): trial for trial in summary["trials"]}
    assert (
        outcomes[0.1, 8, 1]["outcome"] == outcomes[0.1, 8, 2]["outcome"] == outcomes[0.1, 7, 1]["outcome"] == "complete"
    )
    assert outcomes[1e30, 8, 1]["outcome"] == "diverged" and "not finite" in outcomes[1e30, 8, 1]["error"]
    assert outcomes[0.1, 7, 2]["outcome"] == "failed" and "must divide" in outcomes[0.1, 7, 2]["error"]
    assert "must divide" in search_page(summary) and (tmp_path / "winner.json").exists()


def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training that takes no time; the error is a smooth function of the parameters."""

    class Done:
        def __init__(self, recipe: Recipe, **_: Any) -> None:
            value = abs(np.log10(recipe.optimizer.lr) + 1) / 10 + abs(recipe.train.rampup - 0.5) / 10
            self.result = {"valid_error": float(value), "steps": 1, "seconds": 0.0, "tested": False}

    monkeypatch.setattr("ict.studies.workers.train", Done)


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_ranges_are_kept_seeds_decide_and_the_number_of_trials_is_of_all_workers(
    sampler: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake(monkeypatch)
    params = ["optimizer.lr=log:0.001:1", "train.rampup=lin:0.25:1", "train.labeled_batch=int:2:9", "inputs.pad=0,1"]

    def found(name: str, seed: int) -> list[dict[str, Any]]:
        plan = plan_search(
            small(), HERE, params=params, sampler=sampler, trials=6, seed=seed, out=tmp_path / name, prune=False
        )
        with plan.study() as study:
            study.fill(plan.slots)
        for _ in range(2):  # a second worker finds nothing left to do
            run_plan(plan)
        with plan.study() as study:
            return [trial.params for trial in study.snapshots()]

    first, second, other = found("a", 1), found("b", 1), found("c", 2)
    assert len(first) == 6 and first == second and first != other
    assert len({json.dumps(values) for values in first}) == 6
    for values in first:
        assert 0.001 <= values["optimizer.lr"] <= 1 and 0.25 <= values["train.rampup"] <= 1
        assert values["train.labeled_batch"] in range(2, 10) and values["inputs.pad"] in (0, 1)
    assert len({values["train.labeled_batch"] for values in first}) > 2
    assert min(values["optimizer.lr"] for values in first) < 0.1


def test_a_longer_search_goes_on_from_a_shorter_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(monkeypatch)

    def trials(n: int) -> list[dict[str, Any]]:
        plan = plan_search(small(), HERE, params=["optimizer.lr=log:0.001:1"], trials=n, out=tmp_path)
        assert plan.sampler_name == "tpe"
        rows: list[dict[str, Any]] = search(plan)["trials"]
        return rows

    assert trials(3)[:2] == trials(2)[:2] and len(trials(4)) == 4


def test_no_trial_is_begun_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(monkeypatch)
    place = replace(HERE, timeout=0.0)
    summary = search(plan_search(small(), place, params=["optimizer.lr=0.1,0.2"], out=tmp_path))
    assert [trial["outcome"] for trial in summary["trials"]] == ["waiting"] * 2 and summary["winner"] is None
    assert "No trial is complete yet" in (tmp_path / "report.html").read_text()
    assert not (tmp_path / "winner.json").exists()


def test_the_papers_grid_is_the_default_and_is_over_what_a_recipe_has() -> None:
    weights, alphas = (1.0, 10.0, 20.0, 50.0, 100.0), (0.1, 0.2, 0.5, 1.0)
    space = read_space(RECIPES["cifar10-4000/ict"], [])
    assert space.params == (Choices("train.weight", weights), Choices("algorithm.alpha", alphas)) and space.size == 20
    assert {tuple(cell.values()) for cell in space.cells()} == {(w, a) for w in weights for a in alphas}
    assert read_space(RECIPES["digits-100/mixup"], []).params == (Choices("algorithm.alpha", alphas),)
    assert read_space(RECIPES["digits-100/mean-teacher"], []).params == (Choices("train.weight", weights),)
    with pytest.raises(UserError, match="supervised has none"):
        read_space(RECIPES["digits-100/supervised"], [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("algorithm.alpha=log:0.05:2", Range("algorithm.alpha", "log", 0.05, 2.0)),
        ("train.weight=lin:0:1", Range("train.weight", "lin", 0.0, 1.0)),
        ("train.steps=log:10:1000", Range("train.steps", "log", 10, 1000)),
        ("train.weight=int:1:3", Range("train.weight", "int", 1, 3)),
        ("average.decay=none, 0.9", Choices("average.decay", (None, 0.9))),
        ("algorithm.consistency=mse,kl", Choices("algorithm.consistency", ("mse", "kl"))),
        ("inputs.flip=true,false", Choices("inputs.flip", (True, False))),
        ("train.steps=5", Choices("train.steps", (5,))),
    ],
)
def test_a_parameter_is_read_by_its_fields_type(text: str, expected: Choices | Range) -> None:
    assert read_space(RECIPES["digits-100/ict"], [text]).params == (expected,)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--param", "algorithm.alpa=1,2"], "unknown parameter 'algorithm.alpa': did you mean algorithm.alpha"),
        (["--param", "train.weight"], "has no values"),
        (["--param", "train.weight="], "has no values"),
        (["--param", "train.weight=1,two"], "train.weight is 'two'"),
        (["--param", "train.weight=1,1.0"], "twice"),
        (["--param", "train.weight=1,2", "--param", "train.weight=3"], "given twice"),
        (["--param", "train.weight=log:1"], "write log:LOW:HIGH"),
        (["--param", "train.weight=log:2:1"], "LOW must be below HIGH"),
        (["--param", "train.weight=log:0:1"], "above 0"),
        (["--param", "train.weight=lin:0:inf"], "finite"),
        (["--param", "train.weight=lin:-1:1"], "train.weight is -1.0: it must be 0 or more"),
        (["--param", "train.steps=int:0.5:2"], "write int:LOW:HIGH"),
        (["--param", "algorithm.consistency=int:1:2"], "list its values"),
        (["--param", "train.weight=log:1:9", "--sampler", "grid"], "a range, which a grid cannot use"),
        (["--trials", "7"], "the grid has 20 cells and --trials is 7"),
        (["--trials", "0"], "--trials"),
        (["--sampler", "cma"], "--sampler"),
        (["--set", "split.valid=0"], "no validation split"),
        (["--report"], "there is no study"),
        (["--device", "cuda"], "no GPU"),
    ],
)
def test_a_mistake_is_told_in_a_sentence_with_exit_code_2(
    words: list[str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    if "--device" in words and torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    assert_refused(monkeypatch, capsys, tmp_path, says, "search", "digits-100/ict", *words)


def test_what_mattered_is_what_changes_the_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(monkeypatch)
    params = ["optimizer.lr=log:0.0001:1", "inputs.noise=lin:0:1"]  # the second changes nothing
    plan = plan_search(small(), HERE, params=params, sampler="random", trials=16, prune=False, out=tmp_path)
    shares = search(plan)["importances"]
    assert shares["optimizer.lr"] > 0.8 and sum(shares.values()) == pytest.approx(1)
    assert report(plan)["importances"] == shares


def test_optuna_says_nothing_of_its_own(
    folder: Path, recipe_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert optuna.logging.get_verbosity() == optuna.logging.ERROR
    assert ict(monkeypatch, "search", recipe_file, *GRID, "--no-prune", "--device", "cpu", "--out", folder) == 0
    assert capsys.readouterr().err == ""
    assert "optuna" in sys.modules


def test_a_trial_without_validation_examples_cannot_be_judged() -> None:
    with pytest.raises(UserError, match="no validation examples"):
        plan_search(tiny(), params=["optimizer.lr=0.1,0.2"]).value({"valid_error": None})


def test_another_search_in_the_same_folder_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    first = plan_search(tiny(), HERE, params=["optimizer.lr=0.1,0.2"], out=tmp_path)
    search(first)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match="holds another search"):
        search(plan_search(tiny(), HERE, params=["optimizer.lr=0.1,0.3"], out=tmp_path))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    search(first)
