"""A few points of every scenario; `make chaos` disturbs each operation."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("optuna")

LARGE = ("train", "fit", "fit-images", "predict", "search", "trials")
SMALL = ("embed", "label", "save", "shard")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("scenarios", "points"), [(LARGE, 2), (SMALL, 1)])
def test_commands_end_well_after_a_kill_an_error_and_a_full_disk_and_beside_another(
    scenarios: tuple[str, ...], points: int
) -> None:
    command = [sys.executable, "-m", "tests.chaos", *scenarios, "--points", str(points), "--races", "1"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])
    assert all(counts[name].get("bad", 0) == 0 for name in scenarios), done.stderr
    assert all(counts[name][kind] == points for name in scenarios for kind in ("kill", "error", "full"))
    assert all(counts[name]["race"] == 1 for name in scenarios)
    assert all(counts[name]["operations"] >= 2 for name in scenarios)
