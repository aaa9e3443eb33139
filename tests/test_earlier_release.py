"""Files that release 0.1.0 wrote still load.

`earlier_release/` holds a model folder of `ict fit`, a run of digits-100/ict with a network of width 4 that was killed
after 19 of 40 updates, the weights of the same run when nothing kills it, and the databases of a search and of trials
as SQL. All were written by the code before its modules moved into folders.
"""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from ict.base.errors import UserError
from ict.experiment.run import train
from ict.models.saved_model import load_model
from ict.recipes import RECIPES, find
from ict.recipes.recipe import change
from ict.studies.search import plan_search, search
from ict.studies.trials import plan_trials, run_trials
from ict.studies.workers import Place

EARLIER = Path(__file__).parent / "earlier_release"
STUDY = ["network.width=4", "train.steps=20", "eval.every=10"]


def test_a_model_folder_loads_and_predicts() -> None:
    model = load_model(EARLIER / "photos_model")
    dark, light = np.full((2, 8, 8), 60, np.uint8), np.full((2, 8, 8), 180, np.uint8)
    probs = model.predict_proba(np.concatenate([dark, light]))
    assert [model.classes[i] for i in probs.argmax(1)] == ["dark", "dark", "light", "light"]


def test_a_checkpoint_is_resumed_to_the_weights_of_the_whole_run(tmp_path: Path) -> None:
    run_folder = tmp_path / "run"
    shutil.copytree(EARLIER / "interrupted_run", run_folder)
    settings = ["network.width=4", "train.steps=40", "eval.every=20", "eval.log_every=10"]
    resumed = train(find("digits-100/ict"), settings=settings, out=run_folder, resume=True)
    assert resumed.result["resumed_from"] == [19]
    whole = load_file(EARLIER / "whole_run.safetensors")
    for name, tensor in resumed.network.state_dict().items():
        # not bit for bit: another CPU rounds differently
        torch.testing.assert_close(tensor, whole[name], rtol=1e-2, atol=1e-3)


def restored(name: str, database: Path) -> str:
    """The address of a study that release 0.1.0 wrote, restored from its SQL."""
    database.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript((EARLIER / f"{name}.sql").read_text())
    return f"sqlite:///{database}"


def test_a_search_is_joined_under_its_name(tmp_path: Path) -> None:
    place = Place(restored("search", tmp_path / "study.db"), 1, "cpu")
    recipe = change(RECIPES["digits-100/ict"], STUDY)
    plan = plan_search(recipe, place, params=["train.weight=1,5"], study="kept", out=tmp_path / "kept")
    summary = search(plan)  # trains nothing, since both trials are complete
    assert [(row["params"]["train.weight"], row["valid_error"]) for row in summary["trials"]] == [(1, 0.77), (5, 0.74)]
    assert summary["winner"]["number"] == 1 and not (tmp_path / "kept" / "trial0").exists()
    other = plan_search(change(recipe, ["train.steps=21"]), place, params=["train.weight=1,5"], study="kept")
    with pytest.raises(UserError, match="created for another recipe"):
        search(other)


def test_a_search_keeps_the_name_that_its_arguments_gave_it() -> None:
    """`ict search digits-100/ict` with these settings and values, as release 0.1.0 named it."""
    recipe = change(RECIPES["digits-100/ict"], ["train.steps=10", "network.width=4"])
    plan = plan_search(recipe, Place("", 1, "cpu"), params=["train.weight=1,5"])
    assert plan.name == "search/digits-100/ict/a7f4d3dd"


def test_trials_are_found_by_their_arguments(tmp_path: Path) -> None:
    """The file of the study is named by its content, so that today's name must be that of the release."""
    restored("trials", tmp_path / "runs" / "study-2a92f910.db")
    place = Place("", 1, "cpu")
    plan = plan_trials(
        ["digits-100/ict"], place, seeds="0", settings=STUDY, out=tmp_path / "runs", results=tmp_path / "results"
    )
    (trial,) = run_trials(plan)
    assert trial.outcome == "complete" and trial.notes["result"]["test_error"] == pytest.approx(0.866419)
    assert not (tmp_path / "runs" / "digits-100-ict").exists(), "nothing was trained"
