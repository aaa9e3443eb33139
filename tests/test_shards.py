"""Data in shards is the data, read a batch at a time, in an order that stays near one place."""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ict.base.errors import UserError
from ict.data.dataset import Dataset
from ict.data.shards import INDEX, WindowOrder, shards
from ict.data.user.read import read_data
from ict.data.user.write_shards import shard_data
from ict.data.write_shards import Block, shard_dataset, write_shards
from ict.experiment.prepare import load_data, prepare
from ict.experiment.run import train
from ict.recipes.recipe import change
from tests.test_cli import SHORT, ict
from tests.tiny import crash_at, outcome, same_bits, tiny

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_data(tiny().resolved(), 0)


@pytest.fixture(scope="module")
def folder(digits: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("shards") / "digits"
    said = shard_dataset(digits, home, 100)
    assert said.startswith(f"{home}: 1,258 training and 539 test examples of 1x8x8 uint8 in 10 classes, 19 shards")
    return home


def test_what_was_written_is_what_is_read(digits: Dataset, folder: Path) -> None:
    read = shards(folder, 0, verify=True)
    assert read.classes == digits.classes and read.shape == digits.shape
    for found, expected in ((read.train, digits.train), (read.test, digits.test)):
        assert torch.equal(found.y, expected.y)
        assert found.x.shape == expected.x.shape and found.x.dtype == expected.x.dtype
        assert (found.x.numel(), found.x.dim(), found.x.nbytes) == (expected.x.numel(), 4, expected.x.nbytes)
        assert torch.equal(torch.cat(list(found.x.split(70))), expected.x)
        rows = torch.tensor([5, 0, len(expected) - 1, 99, 100, 5, 199, 200])
        assert torch.equal(found.x[rows], expected.x[rows]) and torch.equal(found.x[101], expected.x[101])
        assert torch.equal(found.x[95:205], expected.x[95:205]) and len(found.x[:0]) == 0


def own(data: Dataset) -> Dataset:
    """With labels for a few rows of several shards."""
    return replace(data, labeled_rows=torch.arange(0, 1200, 60))


def test_training_on_shards_is_training_on_arrays(digits: Dataset, folder: Path) -> None:
    sharded = own(shards(folder, 0, window=300))
    a, b = train(tiny(), data=sharded), train(tiny(), data=own(replace(digits, order=sharded.order)))
    assert same_bits(a, b) and outcome(a.result) == outcome(b.result)
    content = digits.train.x.numpy().tobytes() + digits.train.y.numpy().tobytes()
    assert a.result["settings"]["dataset"]["sha256"] == hashlib.sha256(content).hexdigest()
    assert not same_bits(a, train(tiny(), data=own(digits))), "the order is another one"


def test_shards_are_named_in_a_recipe_split_and_never_copied(digits: Dataset, folder: Path) -> None:
    recipe = change(tiny(), ["dataset=shards", f"dataset.path={folder}"])
    data = load_data(recipe, 0)
    job = prepare(recipe, 0, data, None, CPU)
    assert job.program.batches.examples.x is data.train.x
    assert torch.equal(job.valid.x, digits.train.x[torch.from_numpy(job.indices.valid)])
    assert len(job.indices.labeled) == 20 and len(job.indices.unlabeled) == 1238


def test_a_run_on_shards_resumes_bit_for_bit(folder: Path, tmp_path: Path) -> None:
    recipe = change(tiny(), ["dataset=shards", "dataset.window=300", "train.steps=200"])
    whole = train(recipe, data_dir=folder)
    crash_at(170, tmp_path, recipe, data_dir=folder)  # in the second epoch
    assert same_bits(whole, train(recipe, data_dir=folder, out=tmp_path, resume=True))


def test_the_order_is_by_shard_and_then_within_a_window() -> None:
    order = WindowOrder(torch.tensor([0, 10, 40]), 12)  # shards of 10, 30 and 20 rows
    rows = torch.cat([torch.arange(0, 30), torch.arange(45, 60)])
    found = order(rows, torch.Generator().manual_seed(3)).tolist()
    draws = torch.Generator().manual_seed(3)
    place = torch.randperm(3, generator=draws).tolist()
    by_shard: list[int] = []
    for shard in sorted(range(3), key=lambda s: place[s]):
        first, end = [(0, 10), (10, 40), (40, 60)][shard]
        by_shard += [row for row in rows.tolist() if first <= row < end]
    expected: list[int] = []
    while by_shard:
        window, by_shard = by_shard[:12], by_shard[12:]
        expected += [window[i] for i in torch.randperm(len(window), generator=draws).tolist()]
    assert found == expected and sorted(found) == rows.tolist()
    assert found != order(rows, torch.Generator().manual_seed(4)).tolist()


def test_own_images_and_tables_become_shards(tmp_path: Path) -> None:
    draws = np.random.default_rng(0)
    images = draws.integers(0, 256, (9, 5, 6, 3), dtype=np.uint8)
    names = np.array(["cat", "dog", "", "cat", "dog", "cat", "", "", "dog"])
    np.savez(tmp_path / "own.npz", x=images, y=names)
    shard_data(read_data(tmp_path / "own.npz"), tmp_path / "images", 4)
    read = shards(tmp_path / "images", 0)
    assert read.classes == ("cat", "dog") and read.train.y.tolist() == [0, 1, -1, 0, 1, 0, -1, -1, 1]
    assert np.array_equal(read.train.x[torch.arange(9)].numpy(), images.transpose(0, 3, 1, 2)) and not len(read.test)
    (tmp_path / "own.csv").write_text("a,b,label\n1,2,yes\n3,4,no\n5,6,\n")
    shard_data(read_data(tmp_path / "own.csv"), tmp_path / "table", 2)
    table = shards(tmp_path / "table", 0)
    assert table.shape == (2,) and table.train.x[2].tolist() == [5, 6] and table.train.x.dtype == torch.float32


Spoil = Callable[[Path, dict[str, Any]], None]


def _cut_file(folder: Path, index: dict[str, Any]) -> None:
    path = folder / index["train"][1]["x"]
    path.write_bytes(path.read_bytes()[:-70])


def _flip_a_pixel(folder: Path, index: dict[str, Any]) -> None:
    path = folder / index["train"][1]["x"]
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def _label_out_of_range(folder: Path, index: dict[str, Any]) -> None:
    np.save(folder / index["test"][0]["y"], np.full(index["test"][0]["count"], 10))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda folder, _: (folder / INDEX).unlink(), "holds no shards"),
        (lambda folder, _: (folder / INDEX).write_text("{"), "cannot be read as JSON"),
        (lambda _, index: index.update(format="other"), "expected the format"),
        (lambda _, index: index.update(shape=[8, 8]), r"a shape \[F\]"),
        (lambda _, index: index.update(dtype="object"), "a dtype among"),
        (lambda _, index: index.update(classes=[]), "a list of classes"),
        (lambda _, index: index.update(train=[]), "at least one shard"),
        (lambda _, index: index["train"][0].update(x="../else.npy"), "a list of shards"),
        (lambda _, index: index["train"][0].update(count=99), r"expected uint8 \[99, 1, 8, 8\]"),
        (lambda folder, index: (folder / index["train"][2]["y"]).unlink(), "train-00002-y.npy: expected a shard"),
        (lambda folder, index: (folder / index["train"][2]["x"]).write_bytes(b"no array"), "a NumPy file.*`ict shard`"),
        (_cut_file, "a NumPy file.*`ict shard`"),
        (_flip_a_pixel, "train-00001-x.npy: expected the SHA-256"),
        (_label_out_of_range, "expected labels 0 to 9, found 10"),
    ],
)
def test_a_broken_folder_is_one_sentence(spoil: Spoil, says: str, digits: Dataset, tmp_path: Path) -> None:
    home = tmp_path / "shards"
    shard_dataset(digits, home, 500)
    index = json.loads((home / INDEX).read_text())
    spoil(home, index)
    if (home / INDEX).exists() and (home / INDEX).read_text() != "{":
        (home / INDEX).write_text(json.dumps(index))
    with pytest.raises(UserError, match=says):
        shards(home, 0, verify=spoil is _flip_a_pixel)


def test_a_folder_must_be_named_and_a_window_be_there(folder: Path) -> None:
    with pytest.raises(UserError, match="--data-dir"):
        shards(None, 0)
    with pytest.raises(UserError, match="window is 0"):
        shards(folder, 0, window=0)


X = np.zeros((3, 1, 4, 4), np.uint8)
Y = np.zeros(3, np.int64)


def _that_break(then: Block) -> Iterator[Block]:
    yield X, Y
    yield then


@pytest.mark.parametrize(
    ("blocks", "says"),
    [
        ([], "no training example"),
        (_that_break((X[:, :, :2], Y)), "others do not"),
        (_that_break((X.astype(np.float64), Y)), "shards hold uint8 or float32"),
    ],
)
def test_what_cannot_be_written_leaves_nothing(blocks: Any, says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=says):
        write_shards(tmp_path / "out", {"train": blocks}, ["a"], 2)
    assert not list(tmp_path.iterdir())


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(UserError, match="exists already"):
        write_shards(tmp_path, {"train": [(X, Y)]}, ["a"], 2)
    with pytest.raises(UserError, match="cannot write"):
        write_shards(tmp_path / "mine" / "below", {"train": [(X, Y)]}, ["a"], 2)
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


def test_the_command_writes_shards_and_trains_on_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    home, out = tmp_path / "shards", tmp_path / "run"
    assert ict(monkeypatch, "shard", "digits", home, "--size", "300") == 0
    assert "1,258 training and 539 test examples of 1x8x8 uint8 in 10 classes, 7 shards" in capsys.readouterr().out
    words = ["train", "digits-100/ict", "--set", "dataset=shards", *SHORT]
    assert ict(monkeypatch, *words, "--data-dir", home, "--out", out) == 0
    assert json.loads((out / "result.json").read_text())["n_test"] == 60
    (home / "train-00003-x.npy").unlink()
    capsys.readouterr()
    assert ict(monkeypatch, "evaluate", out, "--data-dir", home) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and "train-00003-x.npy: expected a shard, found no file" in error
    assert ict(monkeypatch, "shard", tmp_path / "none", tmp_path / "other") == 2
    assert "does not exist" in capsys.readouterr().err and not (tmp_path / "other").exists()
    images = tmp_path / "images"
    images.mkdir()
    assert ict(monkeypatch, "shard", images, images / "shards") == 2
    assert "which must not change" in capsys.readouterr().err and not list(images.iterdir())
