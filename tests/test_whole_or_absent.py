"""What `ict fit` leaves when it is stopped, refused or out of room: a whole model, an unfinished one, or nothing."""

import json
import os
import shutil
import signal
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ict.base.errors import FolderInUse, UserError
from ict.base.files import write_together
from ict.base.interrupts import stops_exit, stops_interrupt
from ict.base.new_folder import new_folder
from ict.engine import loop
from ict.fit import outputs
from ict.models.saved_model import SavedModel, load_model
from ict.models.used_backbone import UsedBackbone
from tests.test_classifier import blobs
from tests.test_cli import ict

pytestmark = pytest.mark.filterwarnings("ignore:.*(unfinished|interrupted)")

MODEL_ALONE = {"model.safetensors", "labels.json", "README.md", "config.json"}
WHOLE = MODEL_ALONE | {"predictions.csv", "next.csv", "held_out.csv", "report.html"}
SUPERVISED = ("fit", "data.npz", "--method", "supervised", "--steps", "40", "--device", "cpu")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    features, y, _ = blobs(120)
    np.savez(tmp_path / "data.npz", x=features.astype(np.float32), y=y)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def without_progress(error: str) -> list[str]:
    """The lines of stderr that a fast machine prints too."""
    return [line for line in error.splitlines() if " so far" not in line]


def stop_in_fit(monkeypatch: pytest.MonkeyPatch, number: int, fit: int, after: int = 3) -> None:
    """Send this process a signal in the update `after` of the network that is the `fit`-th to be trained."""
    real, fits = loop.train, [0]

    def train(program: Any, state: Any, watch: Any, log: Any, saver: Any = None, update: Any = None) -> None:
        fits[0] += 1

        def stopping(program: Any, state: Any) -> None:
            update(program, state)
            if fits[0] == fit and state.step == after:
                os.kill(os.getpid(), number)

        real(program, state, watch, log, saver, stopping)

    monkeypatch.setattr(loop, "train", train)


STOPS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.mark.parametrize(("number", "code"), STOPS)
def test_a_stop_while_methods_are_compared_writes_nothing(
    number: int, code: int, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stop_in_fit(monkeypatch, number, fit=1)
    assert ict(monkeypatch, "fit", "data.npz", "--steps", "40", "--device", "cpu") == code
    assert "nothing was written" in capsys.readouterr().err
    assert names(place) == {"data.npz"}


@pytest.mark.parametrize(("number", "code"), STOPS)
def test_a_stop_of_the_final_fit_leaves_a_model_that_says_it_is_unfinished_and_may_be_replaced(
    number: int, code: int, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        stop_in_fit(patched, number, fit=1)
        assert ict(patched, *SUPERVISED) == code
    assert "marked as unfinished" in capsys.readouterr().err
    assert names(place) == {"data.npz", "model"} and names(place / "model") == WHOLE
    with pytest.warns(UserWarning, match="unfinished: training was interrupted after 3 updates"):
        assert load_model(place / "model").predict_proba(np.zeros((2, 6))).shape == (2, 3)
    assert ict(monkeypatch, *SUPERVISED) == 0
    assert names(place / "model") == WHOLE and names(place) == {"data.npz", "model"}
    assert "unfinished" not in json.loads((place / "model/config.json").read_text())
    assert ict(monkeypatch, *SUPERVISED) == 2


def no_memory(*_: Any, **__: Any) -> Any:
    raise MemoryError


@pytest.mark.parametrize("what", ["predicted", "report", "write_next"])
def test_running_out_of_memory_after_training_does_not_lose_the_model(
    what: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(outputs, what, no_memory)
    assert ict(monkeypatch, *SUPERVISED) == 2
    error = capsys.readouterr().err
    assert "memory ran out: model holds the trained model" in error and len(without_progress(error)) == 1
    assert MODEL_ALONE <= names(place / "model") <= WHOLE and names(place) == {"data.npz", "model"}
    assert ict(monkeypatch, "predict", "model", "data.npz") == 0


def test_a_stop_after_training_leaves_the_model(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(outputs, "report", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    assert ict(monkeypatch, *SUPERVISED) == 143
    assert "no predictions and no report" in capsys.readouterr().out
    assert names(place / "model") == MODEL_ALONE


@pytest.mark.parametrize(("number", "code"), STOPS)
def test_a_stop_while_predictions_are_written_leaves_no_file(
    number: int, code: int, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ict(monkeypatch, *SUPERVISED) == 0
    monkeypatch.setattr(SavedModel, "predict_proba", lambda *_: os.kill(os.getpid(), number))
    assert ict(monkeypatch, "predict", "model", "data.npz") == code
    assert names(place) == {"data.npz", "model"}


def test_a_closed_terminal_stops_nothing_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stops_interrupt(), stops_exit():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("kind", ["missing", "pipe", "huge"])
def test_a_copy_of_a_backbone_that_is_no_file_is_a_sentence(kind: str, tmp_path: Path) -> None:
    copy = tmp_path / "backbone.onnx"
    if kind == "pipe":
        os.mkfifo(copy)
    elif kind == "huge":
        copy.touch()
        os.truncate(copy, 10**12)
    with pytest.raises(UserError, match=r"backbone\.onnx"):
        UsedBackbone("x", "i", "l", file=copy, sha256="0").open("cpu")


def never(*_: Any, **__: Any) -> Any:
    raise AssertionError("trained before its output folder was checked")


def no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9, 0))


def no_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)


@pytest.mark.parametrize(("trouble", "says"), [(no_room, "MB free"), (no_permission, "cannot write to model")])
def test_a_place_that_cannot_be_written_to_is_refused_before_training(
    trouble: Callable[[pytest.MonkeyPatch], None],
    says: str,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(loop, "train", never)
    trouble(monkeypatch)
    assert ict(monkeypatch, *SUPERVISED) == 2
    error = capsys.readouterr().err
    assert says in error and len(without_progress(error)) == 1
    assert names(place) == {"data.npz"}


def test_a_folder_that_is_there_keeps_its_files(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "model").mkdir()
    (place / "model/notes.txt").write_text("mine")
    assert ict(monkeypatch, *SUPERVISED) == 0
    assert names(place / "model") == WHOLE | {"notes.txt"}


def test_two_cannot_build_the_same_folder(tmp_path: Path) -> None:
    with new_folder(tmp_path / "out") as first:
        (first.path / "a").write_text("first")
        with pytest.raises(FolderInUse), new_folder(tmp_path / "out"):
            pass
        first.publish("a")
    assert (tmp_path / "out/a").read_text() == "first" and names(tmp_path) == {"out"}


def test_files_that_belong_together_are_replaced_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        (tmp_path / name).write_text("old")
    real, calls = os.fsync, [0]

    def full(handle: int) -> None:
        calls[0] += 1
        if calls[0] == 2:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_together({tmp_path / name: b"new" for name in "ab"})
    assert names(tmp_path) == {"a", "b"} and {(tmp_path / name).read_text() for name in "ab"} == {"old"}
    write_together({tmp_path / name: b"new" for name in "ab"})
    assert {(tmp_path / name).read_text() for name in "ab"} == {"new"}
