"""Checkpoints that are damaged, foreign or do not fit on the disk."""

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ict.base.errors import UserError
from ict.base.files import read_json, write_atomic
from ict.engine import checkpoint
from ict.engine.checkpoint import Saver, load_latest, save
from ict.experiment.run import evaluate, train
from ict.experiment.run_folder import Folder
from ict.recipes.recipe import change
from tests.tiny import N_STEPS, crash_at, same_bits, tiny

CPU = torch.device("cpu")


def newest(folder: Path) -> Path:
    return max(folder.glob("checkpoint-*.pt"))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def replace_by_pickle(path: Path) -> None:
    torch.save({"step": 10**6}, path)


@pytest.mark.parametrize("damage", [truncate, flip_a_bit, empty, replace_by_pickle])
def test_a_bad_checkpoint_is_skipped_with_a_warning_for_the_previous_one(damage: Any, tmp_path: Path) -> None:
    whole = train(tiny())
    crash_at(16, tmp_path, tiny())
    damage(newest(tmp_path))
    with pytest.warns(UserWarning, match=r"skipping .*checkpoint-000000015\.pt"):
        resumed = train(tiny(), out=tmp_path, resume=True)
    assert resumed.result["resumed_from"] == [14] and same_bits(whole, resumed)


def test_two_are_kept(tmp_path: Path) -> None:
    for step in (3, 20, 100):
        save(tmp_path, step, {"step": step})
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["checkpoint-000000020.pt", "checkpoint-000000100.pt"]
    loaded = load_latest(tmp_path, CPU)
    assert loaded is not None and loaded["step"] == 100


def test_code_in_a_checkpoint_is_not_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "owned"),)

    save(tmp_path, 1, {"step": Evil()})
    with pytest.warns(UserWarning, match="skipping"):
        assert load_latest(tmp_path, CPU) is None
    assert not (tmp_path / "owned").exists()


def full_disk(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_leaves_the_previous_checkpoint_and_says_so(tmp_path: Path, monkeypatch: Any) -> None:
    saver = Saver(tmp_path, 0)
    saver.save(5, {"step": 5})
    monkeypatch.setattr("ict.base.files.os.fsync", full_disk)
    with pytest.warns(UserWarning, match=r"no checkpoint written at step 6 .*No space left.*checkpoint-000000005\.pt"):
        saver.save(6, {"step": 6})
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint-000000005.pt"]
    monkeypatch.undo()
    loaded = load_latest(tmp_path, CPU)
    assert loaded is not None and loaded["step"] == 5


def test_training_survives_a_full_disk(tmp_path: Path, monkeypatch: Any) -> None:
    real = checkpoint.save

    def sometimes(folder: Path, step: int, content: dict[str, Any]) -> None:
        if 5 <= step <= 9:
            full_disk(0)
        real(folder, step, content)

    monkeypatch.setattr(checkpoint, "save", sometimes)
    with pytest.warns(UserWarning, match="No space left"):
        run = train(tiny(), out=tmp_path, checkpoint_seconds=0)
    assert same_bits(run, train(tiny()))


def test_an_atomic_write_is_all_or_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")
    monkeypatch.setattr("ict.base.files.os.fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        write_atomic(path, b"new and longer")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_saves_are_ten_seconds_apart_and_cost_at_most_two_percent(tmp_path: Path, monkeypatch: Any) -> None:
    now = [0.0]
    monkeypatch.setattr("ict.engine.checkpoint.time.monotonic", lambda: now[0])

    def slow_save(folder: Path, step: int, content: Any) -> None:
        now[0] += cost[0]

    monkeypatch.setattr(checkpoint, "save", slow_save)
    cost, saver = [0.1], Saver(tmp_path, 10.0)
    now[0] = 9.9
    assert not saver.due()
    now[0] = 10.0
    assert saver.due()
    saver.save(1, {})
    now[0] += 9.9
    assert not saver.due()
    now[0] += 0.2
    assert saver.due()
    cost[0] = 2.0
    saver.save(2, {})
    now[0] += 97.0
    assert not saver.due()
    now[0] += 3.0
    assert saver.due()


def test_a_link_stays_one_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(target)
    for content in (b"first", b"second"):
        write_atomic(link, content)
        assert link.is_symlink() and target.read_bytes() == content
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomic(pipe, b"to the reader")
    assert os.read(reader, 100) == b"to the reader" and pipe.is_fifo()
    os.close(reader)


def test_checkpoints_without_a_recipe_are_not_taken_for_another_run(tmp_path: Path) -> None:
    crash_at(16, tmp_path, tiny(), seed=0)
    (tmp_path / "recipe.json").unlink()
    for resume in (False, True):
        with pytest.raises(UserError, match=r"recipe\.json is missing"):
            train(tiny(), seed=1, out=tmp_path, resume=resume)


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    crash_at(8, ours, tiny(), seed=1)
    for what in ({"seed": 0}, {"seed": 1, "settings": ["optimizer.lr=0.05"]}):
        shutil.rmtree(theirs, ignore_errors=True)
        crash_at(16, theirs, tiny(), **what)
        shutil.copy(newest(theirs), ours)
        before = sorted(path.read_bytes() for path in ours.iterdir())
        with pytest.raises(UserError, match="belongs to another run"):
            train(tiny(), seed=1, out=ours, resume=True)
        assert sorted(path.read_bytes() for path in ours.iterdir()) == before
        (ours / newest(theirs).name).unlink()
    assert train(tiny(), seed=1, out=ours, resume=True).result["steps"] == N_STEPS


def test_weights_of_another_run_are_refused(tmp_path: Path) -> None:
    for seed in (0, 1):
        train(tiny(), seed=seed, out=tmp_path / f"{seed}")
    shutil.copy(tmp_path / "0/model.safetensors", tmp_path / "1")
    with pytest.raises(UserError, match=r"model\.safetensors belongs to another run"):
        evaluate(tmp_path / "1")


def test_the_split_and_the_result_of_another_run_are_refused(tmp_path: Path) -> None:
    for seed in (0, 1):
        train(tiny(), seed=seed, out=tmp_path / f"{seed}")
    ours = Folder(tmp_path / "1")
    assert ours.load_split().owner and ours.load_result()
    for name in ("split.npz", "result.json"):
        shutil.copy(tmp_path / "0" / name, tmp_path / "1")
    with pytest.raises(UserError, match=r"split\.npz belongs to another run"):
        ours.load_split()
    with pytest.raises(UserError, match=r"result\.json belongs to another run"):
        train(tiny(), seed=1, out=tmp_path / "1", resume=True)


@pytest.mark.parametrize("content", [{}, {"seed": "0"}, {"test_error": "none"}, {"steps": None}])
def test_a_damaged_result_is_one_sentence(content: dict[str, Any], tmp_path: Path) -> None:
    train(tiny(), out=tmp_path)
    whole = json.loads((tmp_path / "result.json").read_text())
    (tmp_path / "result.json").write_text(json.dumps(whole | content if content else content))
    with pytest.raises(UserError, match=r"result\.json"):
        train(tiny(), out=tmp_path, resume=True)


def test_a_split_without_an_owner_is_one_of_the_first_release(tmp_path: Path) -> None:
    train(tiny(), out=tmp_path)
    ours = Folder(tmp_path)
    replace(ours.load_split(), owner="").save(ours.split)
    assert ours.load_split().owner == ""


def test_a_recipe_that_was_forced_keeps_the_hashes_it_has_had(tmp_path: Path) -> None:
    crash_at(16, tmp_path, tiny())
    first, second = tiny().resolved(), change(tiny(), ["optimizer.lr=0.05"])
    # killed before its first checkpoint by the second recipe, it goes on from the one by the first
    crash_at(16, tmp_path, second, resume=True, force=True)
    assert read_json(tmp_path / "recipe.json")["hashes"] == [first.hash, second.hash]
    assert train(second, out=tmp_path, resume=True).result["resumed_from"] == [15]
