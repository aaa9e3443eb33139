"""TensorBoard's own reader against metrics.jsonl, also after a crash."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ict.experiment.run import train
from ict.experiment.tensorboard import tensorboard
from tests.test_cli import SHORT, ict
from tests.tiny import Crash, tiny

SETTINGS = ["eval.log_every=2", "train.steps=12"]


def points(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard would show, by the name of the curve."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0}).Reload()
    return {name: [(p.step, p.value) for p in reader.Scalars(name)] for name in reader.Tags()["scalars"]}


def lines(folder: Path) -> dict[str, list[tuple[int, Any]]]:
    curves: dict[str, list[tuple[int, Any]]] = {}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        for name, value in record.items():
            if name != "step":
                curves.setdefault(name, []).append((record["step"], pytest.approx(value, rel=1e-6)))
    return curves


def test_the_curves_are_those_of_the_metrics_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    words = ["train", "digits-100/ict", *SHORT, "--set", "eval.log_every=3", "--out", str(tmp_path / "run")]
    assert ict(monkeypatch, *words, "--tensorboard", "--device", "cpu") == 0
    shown = points(tmp_path / "run")
    assert shown == lines(tmp_path / "run") and [step for step, _ in shown["w"]] == [3, 6, 9, 12]


def test_a_resumed_run_shows_no_point_twice_and_loses_none(tmp_path: Path) -> None:
    def crashing(at: int) -> None:
        """Saves after every update; what was written after the last save is written again."""
        with tensorboard(tmp_path) as write:

            def log(record: dict[str, Any]) -> None:
                write(record)
                if record["step"] == at:
                    raise Crash

            train(tiny(), out=tmp_path, settings=SETTINGS, resume=at > 4, checkpoint_seconds=0, log=log)

    for at in (4, 8):
        with pytest.raises(Crash):
            crashing(at)
    crashing(99)
    shown = points(tmp_path)
    assert shown == lines(tmp_path) and [step for step, _ in shown["w"]] == [2, 4, 6, 8, 10, 12]
    assert len(list((tmp_path / "tensorboard").iterdir())) == 3


def test_without_the_package_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    assert ict(monkeypatch, "train", "digits-100/ict", "--tensorboard", "--out", tmp_path / "run", *SHORT) == 2
    assert "pip install 'ict-ssl[tensorboard]'" in capsys.readouterr().err and not list(tmp_path.iterdir())
