"""research/confused.py: confusions of a run's validation images."""

import json
from pathlib import Path

import confused
import numpy as np
import pytest

from ict.base.errors import UserError
from ict.experiment.run import train

SETTINGS = ["train.steps=20", "network.width=4", "eval.every=10"]


@pytest.mark.parametrize("recipe", ["digits-100/ict", "digits-100/supervised"])  # with a teacher and without
def test_confusions_add_up_to_the_runs_own_error(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = train(recipe, seed=1, settings=SETTINGS, device="cpu", out=tmp_path / "run").result
    monkeypatch.setattr("sys.argv", ["confused.py", str(tmp_path / "out.json"), str(tmp_path / "run")])
    confused.main()
    (run,) = json.loads((tmp_path / "out.json").read_text())["runs"]
    table = np.array(run["table"])
    assert 0 < result["valid_error"] == 1 - np.trace(table) / table.sum()
    assert run["steps"] == run["of"] == 20 and run["seed"] == 1
    assert set(table.sum(1)) == {10} != set(table.sum(0)), "a row is a true class: the recipe validates by ten of each"


def test_a_run_that_has_no_checkpoint_is_refused(tmp_path: Path) -> None:
    train("digits-100/ict", settings=SETTINGS, device="cpu", out=tmp_path / "run")
    for path in (tmp_path / "run").glob("checkpoint*"):
        path.unlink()
    with pytest.raises(UserError, match="no checkpoint"):
        confused.confusions(tmp_path / "run", None)
