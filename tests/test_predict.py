"""`ict predict` on inputs of any size: the numbers of one piece, from chunks, and never more than a few at a time."""

import csv
import gc
import io
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from ict.base.errors import UserError
from ict.data.array_inputs import fit_inputs
from ict.data.user import arrays, images, read, table_file, tables
from ict.data.user.read import read_data, stream_data
from ict.data.user.records import Chunk
from ict.fit.predict import STDOUT, predict_files
from ict.models.saved_model import SavedModel, load_model, save_model
from ict.models.trained_network import TrainedNetwork
from ict.networks import NETWORKS
from tests.test_cli import ict
from tests.test_user_data import bad_file, noise, save, save_table

CLASSES = ("ant", "bee", "cow")
N = 30
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(N, 4)).astype(np.float32)


def a_model(folder: Path, x: NDArray[Any], columns: tuple[str, ...] = ()) -> Path:
    """A network as it starts, which is as good as any to compare numbers by."""
    inputs = fit_inputs(x)
    torch.manual_seed(0)
    module = NETWORKS["mlp"](tuple(inputs(x).shape[1:]), 3).eval()
    network = TrainedNetwork(module, 0, {"network": {"name": "mlp"}}, False)
    save_model(folder, SavedModel(network, inputs, CLASSES, columns), {})
    return folder


def a_table(path: Path, x: NDArray[Any], names: str = "abcd") -> Path:
    pandas = pytest.importorskip("pandas")
    return save_table(path, pandas.DataFrame(x, columns=list(names)))


def some_data(kind: str, folder: Path) -> Path:
    """Examples of a kind, in the order of their names."""
    if kind == "images":
        for i in range(N):
            save(folder / "data" / "xyz"[i % 3] / f"{i}.png", noise(i, 9, 8))
        return folder / "data"
    if kind == "pixels":
        np.save(folder / "data.npy", noise(0, N, 8, 8))
    elif kind == "doubles":
        np.save(folder / "data.npy", FEATURES.astype(np.float64))
    elif kind == "npz":
        np.savez(folder / "data.npz", x=FEATURES)
        return folder / "data.npz"
    else:
        return a_table(folder / f"data.{kind}", FEATURES)
    return folder / "data.npy"


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("kind", ["images", "pixels", "doubles", "npz", "csv", "parquet"])
def test_chunks_give_the_numbers_of_one_piece_and_few_are_held(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = some_data(kind, tmp_path)
    model = a_model(tmp_path / "model", noise(1, 5, 8, 8) if kind in ("images", "pixels") else FEATURES)
    if kind in ("csv", "parquet"):  # what `read_data` asks of a table to fit to
        whole, names = FEATURES, tuple(f"row {i + 1}" for i in range(N))
    else:
        data = read_data(path, size=8) if path.is_dir() else read_data(path)
        whole, names = data.x, data.names
    expected = load_model(model).predict_proba(whole)

    made: list[weakref.ref[Chunk]] = []
    held, sizes = [], []
    predict = SavedModel.predict_proba

    def spy(self: SavedModel, x: NDArray[Any]) -> NDArray[Any]:
        sizes.append(len(x))
        gc.collect()
        held.append(sum(reference() is not None for reference in made))
        return predict(self, x)

    def watched(*args: Any) -> Chunk:
        new = Chunk(*args)
        made.append(weakref.ref(new))
        return new

    monkeypatch.setattr(read, "CHUNK", 7)
    for reader in (images, arrays, tables):
        monkeypatch.setattr(reader, "Chunk", watched)
    monkeypatch.setattr(SavedModel, "predict_proba", spy)
    seen: list[tuple[str, int, int | None]] = []
    said = predict_files(model, path, tmp_path / "p.csv", skip_bad=False, progress=lambda *told: seen.append(told))
    assert sizes == [7, 7, 7, 7, 2], "chunk by chunk"
    assert set(held) <= {1, 2}, "the one at hand, and the one before until it is replaced"
    assert said.endswith(f"30 predictions: {tmp_path / 'p.csv'}")
    assert seen[-1] == ("predicting", N, None if kind == "csv" else N)
    found = rows((tmp_path / "p.csv").read_text())
    assert [row["example"] for row in found] == list(names)
    for row, probabilities in zip(found, expected, strict=True):
        assert [row[f"p({name})"] for name in CLASSES] == [f"{p:.6f}" for p in probabilities]
        assert row["label"] == CLASSES[int(probabilities.argmax())]


def test_tables_are_read_a_chunk_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The readers themselves hand out chunks, whatever is done with them later."""
    frames: list[int] = []
    given = table_file._frames

    def spy(*args: Any) -> Any:
        for frame in given(*args):
            frames.append(len(frame))
            yield frame

    monkeypatch.setattr(table_file, "_frames", spy)
    monkeypatch.setattr(read, "CHUNK", 7)
    for suffix in ("csv", "parquet"):
        stream = stream_data(a_table(tmp_path / f"t.{suffix}", FEATURES), (4,), (), False)
        assert frames == [], "nothing is read before it is asked for"
        next(stream.chunks)
        assert frames == [7]
        frames.clear()


@pytest.mark.parametrize("layout", ["one class", "flat", "deep"])
def test_images_in_any_layout(layout: str, tmp_path: Path) -> None:
    names = {"one class": ["cat/a.png", "cat/b.png"], "flat": ["a.png"], "deep": ["x/y/z/a.png", "unlabeled/b.png"]}
    for i, name in enumerate(names[layout]):
        save(tmp_path / "data" / name, noise(i, 8, 8))
    model = a_model(tmp_path / "model", noise(1, 5, 8, 8))
    predict_files(model, tmp_path / "data", tmp_path / "p.csv", skip_bad=False)
    assert {row["example"] for row in rows((tmp_path / "p.csv").read_text())} == set(names[layout])


def test_gray_images_for_a_model_of_colored_ones_and_the_other_way(tmp_path: Path) -> None:
    gray, color = noise(0, 8, 8), noise(1, 8, 8, 3)
    save(tmp_path / "data/a.png", gray)
    save(tmp_path / "data/b.png", color)
    for name, model_x in (("gray", noise(2, 5, 8, 8)), ("color", noise(2, 5, 8, 8, 3))):
        model = a_model(tmp_path / name, model_x)
        said = predict_files(model, tmp_path / "data", tmp_path / "p.csv", skip_bad=False)
        assert ("1 photo in color was made gray: b.png" in said) == (name == "gray")
        by_hand = [gray, np.asarray(Image.fromarray(color).convert("L"))]
        if name == "color":
            by_hand = [np.repeat(gray[..., None], 3, axis=2), color]
        expected = load_model(model).predict_proba(np.stack(by_hand))
        found = rows((tmp_path / "p.csv").read_text())
        assert [row["p(ant)"] for row in found] == [f"{p:.6f}" for p in expected[:, 0]]
    np.save(tmp_path / "gray.npy", gray[None])
    predict_files(tmp_path / "color", tmp_path / "gray.npy", tmp_path / "p.csv", skip_bad=False)
    assert rows((tmp_path / "p.csv").read_text())[0]["p(ant)"] == f"{expected[0, 0]:.6f}"


def test_bad_images_and_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "CHUNK", 4)
    images, out = some_data("images", tmp_path), tmp_path / "p.csv"
    model = a_model(tmp_path / "model", noise(1, 5, 8, 8))
    for name in ("y/bad.png", "z/worse.png"):
        bad_file("corrupt", images / name)
    (images / "x/link.png").symlink_to(tmp_path / "model/README.md")
    (images / "x/far").symlink_to(tmp_path / "model")
    out.write_text("old")
    with pytest.raises(UserError, match="x/far is a link to a folder"):
        predict_files(model, images, out, skip_bad=False)
    (images / "x/far").unlink()
    with pytest.raises(UserError, match=r"x/link\.png is a link that leads out"):
        predict_files(model, images, out, skip_bad=False)
    assert out.read_text() == "old" and not list(tmp_path.glob(".*"))
    said = predict_files(model, images, out, skip_bad=True)
    assert "3 photos could not be read and were left out: x/link.png, y/bad.png, z/worse.png" in said
    assert len(rows(out.read_text())) == N

    x = FEATURES.copy()
    x[11, 2] = np.nan
    np.save(tmp_path / "x.npy", x)
    features = a_model(tmp_path / "features", FEATURES)
    for path in (a_table(tmp_path / "x.csv", x), tmp_path / "x.npy"):
        with pytest.raises(UserError, match=r"row 12, column ('c'|3)"):
            predict_files(features, path, out, skip_bad=False)
        assert len(rows(out.read_text())) == N, "the old file stays"
        assert "1 row was left out" in predict_files(features, path, tmp_path / "q.csv", skip_bad=True)
        names = [row["example"] for row in rows((tmp_path / "q.csv").read_text())]
        assert names == [f"row {i + 1}" for i in range(N) if i != 11]


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    model = a_model(tmp_path / "model", FEATURES, ("a", "b", "c", "d"))
    expected = [f"{p:.6f}" for p in load_model(model).predict_proba(FEATURES)[:, 0]]
    extra = np.concatenate([np.arange(N)[:, None], FEATURES[:, ::-1], FEATURES[:, :1]], axis=1)
    path = a_table(tmp_path / "t.csv", extra, "idcbay")
    said = predict_files(model, path, tmp_path / "p.csv", skip_bad=False)
    assert [row["p(ant)"] for row in rows((tmp_path / "p.csv").read_text())] == expected
    assert "1 column that the model does not use was ignored: 'i'" in said, "and y is a label column"
    with pytest.raises(UserError, match="fitted to: add c"):
        predict_files(model, a_table(tmp_path / "u.csv", FEATURES, "abxd"), tmp_path / "p.csv", skip_bad=False)
    nameless = a_model(tmp_path / "nameless", FEATURES)  # fitted to an array, so the order counts
    for x, names in ((FEATURES, "pqrs"), (np.c_[FEATURES, FEATURES[:, :1]], "pqrsy"), (FEATURES, "pqry")):
        predict_files(nameless, a_table(tmp_path / "v.csv", x, names), tmp_path / "p.csv", skip_bad=False)
        assert [row["p(ant)"] for row in rows((tmp_path / "p.csv").read_text())] == expected


def test_standard_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    model, path = a_model(tmp_path / "model", FEATURES), some_data("npz", tmp_path)
    assert ict(monkeypatch, "predict", model, path, "-o", "-") == 0
    printed = capsys.readouterr()
    predict_files(model, path, tmp_path / "p.csv", skip_bad=False)
    assert printed.out == (tmp_path / "p.csv").read_text()
    assert printed.err.endswith(f"30 predictions: {STDOUT}\n")
    assert {p.name for p in tmp_path.iterdir()} == {"model", "data.npz", "p.csv"}


def test_names_that_are_not_utf_8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    save(tmp_path / "data/a.png", noise(0, 8, 8))
    (tmp_path / "data/a.png").rename(os.fsdecode(os.fsencode(tmp_path) + b"/data/\xff.png"))
    (tmp_path / os.fsdecode(b"data/\xfe.png")).write_bytes(b"")
    model = a_model(tmp_path / "model", noise(1, 5, 8, 8))
    assert "left out: \\udcfe.png" in predict_files(model, tmp_path / "data", tmp_path / "p.csv", skip_bad=True)
    assert (tmp_path / "p.csv").read_bytes().splitlines()[1].startswith(b"\xff.png,")
    assert ict(monkeypatch, "predict", model, tmp_path / "data", "-o", "-", "--skip-bad") == 0
    assert capfdbinary.readouterr().out == (tmp_path / "p.csv").read_bytes()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("gone", "does not exist"),
        ("empty folder", "holds no photos"),
        ("only bad", "nothing that can be read"),
        ("folder for features", r"fitted to examples of the shape \(4,\)"),
        ("odd shape", r"examples of the shape \(5,\), but"),
        ("no rows", r"\(0, 4\)"),
        ("text", "unknown kind"),
        ("into the folder", "must not change"),
        ("over the data", "must not change"),
    ],
)
def test_mistakes_leave_nothing_behind(kind: str, words: str, tmp_path: Path) -> None:
    model = a_model(
        tmp_path / "model", FEATURES if "f" in kind[:1] or kind in ("odd shape", "no rows") else noise(1, 5, 8, 8)
    )
    path, out = tmp_path / "data", tmp_path / "p.csv"
    if kind in ("empty folder", "folder for features", "only bad"):
        path.mkdir()
    if kind == "folder for features":
        save(path / "a.png", noise(0, 8, 8))
    elif kind == "only bad":
        (path / "a.png").write_bytes(b"")
    elif kind in ("odd shape", "no rows"):
        path = tmp_path / "x.npy"
        np.save(path, np.zeros((3, 5) if kind == "odd shape" else (0, 4)))
    elif kind == "text":
        path = tmp_path / "x.txt"
        path.write_text("")
    elif kind in ("into the folder", "over the data"):
        path = some_data("images" if kind == "into the folder" else "pixels", tmp_path)
        out = path / "p.csv" if kind == "into the folder" else path
    before = sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*"))
    with pytest.raises(UserError, match=words):
        predict_files(model, path, out, skip_bad=True)
    assert sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*")) == before
