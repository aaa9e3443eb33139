"""An algorithm from outside the package: the example of docs/extend.md as a user would run it, and what goes wrong."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parent.parent / "docs/extend.md").read_text()
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
(COMMAND,) = re.findall(r"```sh\nict (.*?)\n```", PAGE)
SHORT = shlex.split("--set train.steps=12 --set network.width=4 --out run --json")


def ict(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    # a fresh process in the user's folder, which is not on sys.path when a console script starts
    script = [sys.executable, "-P", "-c", "from ict.cli import main; main()"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([*script, *words], cwd=folder, capture_output=True, text=True, env=environment)


def test_the_example_trains_resumes_and_evaluates(tmp_path: Path) -> None:
    assert len(EXAMPLE.splitlines()) < 30
    (tmp_path / "mine.py").write_text(EXAMPLE)
    done = ict(tmp_path, *shlex.split(COMMAND), *SHORT)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["settings"]["algorithm"] == {"name": "mine:PseudoLabel", "threshold": 0.9}
    lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    assert "sure" in json.loads(lines[-1])
    again = ict(tmp_path, *shlex.split(COMMAND), *SHORT, "--resume")
    assert json.loads(again.stdout) == result
    measured = ict(tmp_path, "evaluate", "run", "--json", "--allow-code", "mine:PseudoLabel")
    assert json.loads(measured.stdout)["test_error"] == result["test_error"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nowhere:Mine", "nowhere"),
        ("mine:Nothing", "Nothing"),
        ("mine:NUMBER", "not a class"),
        ("mine:Empty", "docs/extend.md"),
        ("mine:", "mine:"),
    ],
)
def test_a_wrong_name_is_one_sentence(name: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("NUMBER = 3\n\n\nclass Empty:\n    pass\n")
    done = ict(tmp_path, "train", "digits-100/ict", "--algorithm", name, *SHORT)
    assert done.returncode == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert not (tmp_path / "run").exists()
