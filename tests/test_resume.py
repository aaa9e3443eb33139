"""A resumed run is the uninterrupted one, bit for bit, whatever killed it and whenever."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ict.algorithms import ALGORITHMS
from ict.base.errors import UserError
from ict.data.dataset import Examples
from ict.experiment import run
from ict.experiment.prepare import load_data, prepare
from ict.experiment.run import train
from ict.experiment.run_folder import Folder
from tests.tiny import KILLED, N_STEPS, crash_at, outcome, same_bits, tiny


def metrics(folder: Path) -> list[dict[str, float]]:
    return [{k: v for k, v in r.items() if k != "seconds"} for r in Folder(folder).read_metrics()]


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_resume_is_bitwise_for_every_algorithm(name: str, tmp_path: Path) -> None:
    recipe = tiny(name)
    whole = train(recipe, seed=2, out=tmp_path / "whole")
    crash_at(8, tmp_path / "cut", recipe, seed=2)
    torch.rand(3)
    crash_at(16, tmp_path / "cut", recipe, seed=2, resume=True)
    resumed = train(recipe, seed=2, out=tmp_path / "cut", resume=True)
    assert same_bits(whole, resumed)
    assert outcome(whole.result) == outcome(resumed.result)
    assert resumed.result["resumed_from"] == [7, 15]  # the step that crashed was not saved yet
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "cut")
    assert (tmp_path / "whole/model.safetensors").read_bytes() == (tmp_path / "cut/model.safetensors").read_bytes()


@pytest.mark.parametrize(
    "settings",
    [
        ["average.when=before"],
        ["average.batchnorm=averaged"],
        ["optimizer.name=adam", "optimizer.final_momentum=0.5", "rate.shape=gaussian"],
        ["optimizer.name=muon"],
        ["swa.start=0.2", "swa.every=0.1", "swa.batches=3"],
        ["algorithm=sntg", "algorithm.base=temporal-ensembling", "train.layout=joined", "average.decay=none"],
    ],
)
def test_resume_is_bitwise_for_other_machinery(settings: list[str], tmp_path: Path) -> None:
    whole = train(tiny(), settings=settings)
    crash_at(12, tmp_path, tiny(), settings=settings)
    assert same_bits(whole, train(tiny(), settings=settings, out=tmp_path, resume=True))


def test_resume_keeps_what_the_algorithm_remembers(tmp_path: Path) -> None:
    data = load_data(tiny().resolved(), 0)  # so few examples that each is visited several times
    few = replace(data, train=Examples(data.train.x[:32], data.train.y[:32]), labeled_rows=torch.arange(16))
    whole = train(tiny("temporal-ensembling"), data=few)
    crash_at(12, tmp_path, tiny("temporal-ensembling"), data=few)
    assert same_bits(whole, train(tiny("temporal-ensembling"), data=few, out=tmp_path, resume=True))


def test_kill_9_at_random_moments_until_done(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.killer", tmp_path / "run"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kills = int(done.stdout)
    result = json.loads((tmp_path / "run/result.json").read_text())
    whole = train(tiny(), **KILLED)
    assert kills >= 3 and len(result["resumed_from"]) >= 2
    assert outcome(whole.result) == outcome(result)
    assert same_bits(whole, train(tiny(), out=tmp_path / "run", resume=True, **KILLED))


def test_resume_without_a_checkpoint_starts_at_zero(tmp_path: Path) -> None:
    run = train(tiny(), out=tmp_path / "new", resume=True)
    assert run.result["resumed_from"] == [] and run.result["steps"] == N_STEPS


def test_a_finished_run_gives_its_result_without_training(tmp_path: Path) -> None:
    first = train(tiny(), out=tmp_path)
    logged: list[object] = []
    again = train(tiny(), out=tmp_path, resume=True, log=logged.append)
    assert again.result == json.loads(json.dumps(first.result)) and not logged and same_bits(first, again)


def test_a_model_that_was_lost_is_written_again_from_the_last_checkpoint(tmp_path: Path) -> None:
    first = train(tiny(), out=tmp_path)
    model = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").unlink()
    again = train(tiny(), out=tmp_path, resume=True)
    assert (tmp_path / "model.safetensors").read_bytes() == model
    assert outcome(again.result) == outcome(first.result) and again.result["resumed_from"] == [N_STEPS]


def test_a_folder_with_a_run_is_not_overwritten(tmp_path: Path) -> None:
    crash_at(8, tmp_path, tiny())
    with pytest.raises(UserError, match="--resume"):
        train(tiny(), out=tmp_path)


def test_a_changed_recipe_is_refused_unless_forced(tmp_path: Path) -> None:
    crash_at(8, tmp_path, tiny())
    with pytest.raises(UserError, match=r"algorithm\.alpha"):
        train(tiny(), out=tmp_path, resume=True, settings=["algorithm.alpha=0.5"])
    forced = train(tiny(), out=tmp_path, resume=True, force=True, settings=["algorithm.alpha=0.5"])
    assert forced.result["resumed_from"] == forced.result["changed_at"] == [7]


@pytest.mark.parametrize("force", [False, True])
def test_another_seed_is_another_run_even_by_force(force: bool, tmp_path: Path) -> None:
    """Its split differs: what one trained on would be validation images of the other."""
    crash_at(8, tmp_path, tiny())
    with pytest.raises(UserError, match="run of another seed"):
        train(tiny(), out=tmp_path, resume=True, force=force, seed=9)


def test_a_forced_continuation_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    train(tiny(), out=tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UserError, match=r"cannot be read as a run of this recipe .*size mismatch") as refused:
        train(tiny(), out=tmp_path, resume=True, force=True, settings=["network.width=7"])
    assert "\n" not in str(refused.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_forced_continuation_withdraws_the_old_result(tmp_path: Path) -> None:
    train(tiny(), out=tmp_path)
    crash_at(28, tmp_path, tiny(), resume=True, force=True, settings=["train.steps=40"])
    assert not (tmp_path / "result.json").exists()
    longer = train(tiny(), out=tmp_path, resume=True, settings=["train.steps=40"])
    assert longer.result["steps"] == 40 and longer.result["resumed_from"] == [N_STEPS, 27]
    assert longer.result["changed_at"] == [N_STEPS], "what came before is not of this recipe"


def test_a_torn_last_line_of_metrics_is_dropped(tmp_path: Path) -> None:
    crash_at(12, tmp_path, tiny())
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 12, "lo')
    train(tiny(), out=tmp_path, resume=True)
    assert [r["step"] for r in Folder(tmp_path).read_metrics()] == [4, 6, 8, 12, 16, 18, 20, 24]


def test_two_processes_do_not_train_in_one_folder(tmp_path: Path) -> None:
    crash_at(12, tmp_path / "run", tiny())
    before = {path: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    lock = "fcntl.flock(os.open(sys.argv[1], 0), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    hold = f"import fcntl, os, sys; {lock}; print(flush=True); sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", hold, tmp_path / "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None and other.stdin is not None
    with other:
        other.stdout.readline()
        with pytest.raises(UserError, match=r"another process is training in .*run: wait until it ends"):
            train(tiny(), out=tmp_path / "run", resume=True)
        assert {path: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
        other.stdin.close()
    train(tiny(), out=tmp_path / "run", resume=True)
    with Folder(tmp_path / "run").alone():
        pass  # a finished run holds nothing


@pytest.mark.parametrize("ends", [True, False])
def test_a_run_that_another_process_begins_meanwhile_is_not_ones_own(
    ends: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(*arguments: Any, **options: Any) -> Any:
        monkeypatch.undo()
        train(tiny(), out=tmp_path) if ends else crash_at(12, tmp_path, tiny())
        before.update({path: path.read_bytes() for path in tmp_path.iterdir()})
        return prepare(*arguments, **options)

    before: dict[Path, bytes] = {}
    monkeypatch.setattr(run, "prepare", meanwhile)  # after the folder was looked at
    with pytest.raises(UserError, match="already holds a run"):
        train(tiny("mixup"), seed=5, out=tmp_path)
    assert before and {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_run_from_before_a_setting_existed_goes_on(tmp_path: Path) -> None:
    whole = train(tiny())
    crash_at(12, tmp_path, tiny())
    recipe = json.loads((tmp_path / "recipe.json").read_text())
    del recipe["optimizer"]["turn"]
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    assert same_bits(whole, train(tiny(), out=tmp_path, resume=True))


def test_a_run_of_a_later_version_is_named(tmp_path: Path) -> None:
    crash_at(12, tmp_path, tiny())
    recipe = json.loads((tmp_path / "recipe.json").read_text())
    recipe["optimizer"]["wings"] = 2
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    with pytest.raises(UserError, match=r"recipe\.json: unknown key 'optimizer\.wings'"):
        train(tiny(), out=tmp_path, resume=True)


def test_a_model_of_another_network_is_not_taken_for_the_runs(tmp_path: Path) -> None:
    train(tiny(), out=tmp_path / "run")
    train(tiny(), settings=["network.width=6"], out=tmp_path / "other")
    (tmp_path / "other/model.safetensors").replace(tmp_path / "run/model.safetensors")
    with pytest.raises(UserError, match=r"model\.safetensors belongs to another run"):
        train(tiny(), out=tmp_path / "run", resume=True)
