"""A file that names code does not run it: a module beside the caller writes a canary when it is imported."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ict.base.errors import UserError
from ict.experiment.run import evaluate, train
from ict.models.saved_model import load_model
from ict.recipes import find
from tests.tiny import tiny

CANARY = "canary"
EVIL = f"""
from pathlib import Path
Path("{CANARY}").touch()
from ict.networks.mlp import MLP as Net
from ict.algorithms.supervised import Supervised as Method
"""
MODEL = Path(__file__).parent / "earlier_release/photos_model"


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with evil.py, which Python could import."""
    (tmp_path / "evil.py").write_text(EVIL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "evil", raising=False)
    return tmp_path


def model_that_names(folder: Path, network: dict[str, object]) -> Path:
    shutil.copytree(MODEL, folder / "model")
    config = json.loads((folder / "model/config.json").read_text())
    (folder / "model/config.json").write_text(json.dumps(config | {"network": network}))
    return folder / "model"


def recipe_that_names(folder: Path, **parts: str) -> str:
    path = folder / "recipe.json"
    path.write_text(json.dumps({"base": "digits-100/ict", **{kind: {"name": name} for kind, name in parts.items()}}))
    return str(path)


def refused(use: Callable[[], object]) -> str:
    with pytest.raises(UserError) as mistake:
        use()
    assert not Path(CANARY).exists() and "evil" not in sys.modules
    return str(mistake.value)


@pytest.mark.parametrize("name", ["evil:Net", "builtins:print", "os:system"])
def test_a_model_folder_runs_no_code_that_it_names(beside: Path, name: str) -> None:
    said = refused(lambda: load_model(model_that_names(beside, {"name": name})))
    assert "config.json" in said and name in said


@pytest.mark.parametrize("kind", ["algorithm", "network", "dataset"])
def test_a_recipe_runs_no_code_that_it_names_until_it_is_allowed(beside: Path, kind: str) -> None:
    name = "evil:Net" if kind == "network" else "evil:Method"
    recipe = recipe_that_names(beside, **{kind: name})
    assert f"--allow-code {name}" in refused(lambda: find(recipe))
    assert name in refused(lambda: find(recipe, ["evil:Other"]))
    assert getattr(find(recipe, [name]), kind).name == name
    assert Path(CANARY).exists()


def test_a_run_folder_runs_no_code_that_it_names(beside: Path) -> None:
    run = beside / "run"
    train(tiny("supervised"), out=run)
    content = json.loads((run / "recipe.json").read_text())
    (run / "recipe.json").write_text(json.dumps(content | {"algorithm": {"name": "evil:Method"}}))
    assert "--allow-code evil:Method" in refused(lambda: evaluate(run))
    refused(lambda: train(tiny("supervised"), out=run, resume=True))
    assert evaluate(run, allow_code=["evil:Method"])["recipe"] == "tiny/supervised"


def test_the_command_imports_from_the_working_folder_only_what_it_is_asked_for(beside: Path) -> None:
    model = model_that_names(beside, {"name": "evil:Net"})
    np.save(beside / "x.npy", np.zeros((2, 8, 8), np.uint8))

    def ict(*words: str) -> "subprocess.CompletedProcess[str]":
        # as a console script starts: without the working folder on sys.path
        script = [sys.executable, "-P", "-c", "from ict.cli import main; main()"]
        return subprocess.run([*script, *words], cwd=beside, capture_output=True, text=True, env=dict(os.environ))

    done = ict("predict", str(model), "x.npy")
    assert done.returncode == 2 and "--allow-code evil:Net" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and not Path(CANARY).exists()
    allowed = ict("show", recipe_that_names(beside, algorithm="evil:Method"), "--allow-code", "evil:Method")
    assert allowed.returncode == 0 and "algorithm.name=evil:Method" in allowed.stdout, allowed.stderr
    assert Path(CANARY).exists()


def test_options_in_a_model_folder_have_the_types_that_the_network_says(beside: Path) -> None:
    said = refused(lambda: load_model(model_that_names(beside, {"name": "convnet", "width": "16"})))
    assert "network.width" in said
