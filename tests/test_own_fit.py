"""From users' files to a model folder and predictions: what is written, what it says, and that it can be trusted."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from ict.errors import UserError
from ict.fitted import Network
from ict.graph import GraphPropagation
from ict.inputs import fit_inputs
from ict.model_folder import SavedModel, load_model, save_model
from tests.test_cli import ict
from tests.test_estimator import blobs
from tests.test_own import noise, save

SHORT = ("--steps", "40", "--device", "cpu")


def table(path: Path, per_class: int = 20) -> tuple[Any, Any]:
    """A CSV of features with a label column that is blank for most rows."""
    X, y, truth = blobs(per_class=per_class)
    names = np.array(["ant", "bee", "cow"])
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"f{i}" for i in range(6)), "label"])
        for row, label in zip(X, y, strict=True):
            writer.writerow([*row, names[label] if label >= 0 else ""])
    return y, names[truth]


@pytest.fixture
def fitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[Path, str, Any]:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    y, truth = table(tmp_path / "data.csv")
    assert ict(monkeypatch, "fit", "data.csv", "--out", "model", *SHORT) == 0
    return tmp_path, capsys.readouterr().out, truth[y < 0]


def test_fit_writes_a_model_and_predictions_for_every_unlabeled_row(fitted: tuple[Path, str, Any]) -> None:
    folder, said, truth = fitted
    assert {p.name for p in (folder / "model").iterdir()} == {
        "model.safetensors", "config.json", "labels.json", "README.md", "predictions.csv",
    }  # fmt: skip
    rows = list(csv.DictReader((folder / "model/predictions.csv").read_text().splitlines()))
    assert len(rows) == len(truth) == 180
    assert np.mean([row["label"] == label for row, label in zip(rows, truth, strict=True)]) > 0.95
    for row in rows:
        probabilities = [float(row[f"p({name})"]) for name in ("ant", "bee", "cow")]
        assert sum(probabilities) == pytest.approx(1, abs=1e-5) and float(row["probability"]) == max(probabilities)
    assert json.loads((folder / "model/labels.json").read_text())["classes"] == ["ant", "bee", "cow"]
    assert "of 12 held-out labels right" in said and "95 % interval" in said


def test_the_held_out_number_is_that_of_the_saved_model_on_rows_it_never_saw(fitted: tuple[Path, str, Any]) -> None:
    folder, said, _ = fitted
    about = json.loads((folder / "model/config.json").read_text())["about"]
    assert about["labeled"] == 48 and about["unlabeled"] == 180, "twelve labeled rows are in neither"
    assert about["test"] in said


def test_predict_gives_what_fit_gave(
    fitted: tuple[Path, str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _, _ = fitted
    assert ict(monkeypatch, "predict", "model", "data.csv", "-o", "again.csv") == 0
    again = {row["example"]: row for row in csv.DictReader((folder / "again.csv").read_text().splitlines())}
    rows = list(csv.DictReader((folder / "model/predictions.csv").read_text().splitlines()))
    assert len(again) == 240 and all(again[row["example"]] == row for row in rows)


def test_a_model_folder_is_read_without_running_anything_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path
    table(folder / "data.csv")
    assert ict(monkeypatch, "fit", "data.csv", "--method", "supervised", *SHORT) == 0
    model = load_model(folder / "model")
    assert isinstance(model.network, Network)
    weights = load_file(folder / "model/model.safetensors")
    assert all(torch.equal(t, weights[name]) for name, t in model.network.module.state_dict().items())
    (folder / "model/model.safetensors").write_bytes(b"\x80\x04cos\nsystem\n")
    with pytest.raises(UserError, match="not a whole model"):
        load_model(folder / "model")
    (folder / "model/config.json").unlink()
    with pytest.raises(UserError, match=r"no config\.json"):
        load_model(folder / "model")


def test_a_second_fit_does_not_overwrite_the_first(
    fitted: tuple[Path, str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ict(monkeypatch, "fit", "data.csv", "--out", "model", *SHORT) == 2
    assert "already holds a model" in capsys.readouterr().err


def test_too_few_labels_to_hold_some_out_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "few.csv", per_class=2)
    assert ict(monkeypatch, "fit", "few.csv", "--method", "ict", *SHORT) == 0
    assert "no accuracy was measured" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["fit", "nowhere"], "nowhere"),
        (["fit", "data.csv", "--out", "data.csv/model"], "only read"),
        (["fit", "data.csv", "--method", "itc"], "ict"),
        (["predict", "nowhere", "data.csv"], "nowhere"),
    ],
)
def test_mistakes_are_sentences_and_leave_nothing_behind(
    words: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "data.csv")
    options = SHORT if words[0] == "fit" else ()
    assert ict(monkeypatch, *words, *options) == 2
    assert says in capsys.readouterr().err
    assert {p.name for p in tmp_path.iterdir()} == {"data.csv"}


def test_a_graph_is_saved_and_predicts_as_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    X, y, _ = blobs()
    inputs = fit_inputs(X)
    graph = GraphPropagation(n_neighbors=7, alpha=0.99).fit(inputs(X), y)
    new = np.random.default_rng(5).uniform(X.min(0), X.max(0), X.shape)  # between the blobs, where neighbors disagree
    save_model(tmp_path / "model", SavedModel(graph, inputs, ("a", "b", "c")), {"test": "none"})
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded.network, GraphPropagation) and loaded.network.settings() == graph.settings()
    assert np.array_equal(loaded.predict_proba(new), graph.predict_proba(inputs(new)))
    arrays = load_file(tmp_path / "model/model.safetensors")
    assert set(arrays) == {"center", "nodes", "probs", "scale"}
    training = arrays["nodes"] + arrays["center"]
    assert np.allclose(np.unique(inputs(X), axis=0), training.numpy(), atol=1e-6), "the training rows are in the file"
    for wrong in (arrays["probs"][:-1], arrays["probs"][:, :2]):
        save_file({**arrays, "probs": wrong.contiguous()}, tmp_path / "model/model.safetensors")
        with pytest.raises(UserError, match="not a whole model"):
            load_model(tmp_path / "model")


def test_auto_compares_the_graph_too(fitted: tuple[Path, str, Any]) -> None:
    folder, said, _ = fitted
    assert isinstance(load_model(folder / "model").network, GraphPropagation), "blobs are what a graph is best at"
    assert said.startswith("graph, 48 labeled")
    assert "graph of 228 training examples" in (folder / "model/README.md").read_text()


def test_nothing_is_written_into_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = tmp_path / "photos"
    for i in range(12):
        save(photos / ("cat", "dog", "unlabeled")[i % 3] / f"{i}.png", noise(i, 8, 8))

    def listing() -> list[tuple[str, int, int]]:
        return sorted((str(p), p.stat().st_mtime_ns, p.stat().st_size) for p in [photos, *photos.rglob("*")])

    before = listing()
    monkeypatch.chdir(tmp_path)
    assert ict(monkeypatch, "fit", photos, "--out", "model", "--method", "graph") == 0
    assert ict(monkeypatch, "predict", "model", photos) == 0
    monkeypatch.chdir(photos)
    assert ict(monkeypatch, "fit", ".", "--method", "graph") == 2
    assert ict(monkeypatch, "predict", "../model", ".") == 2
    assert ict(monkeypatch, "predict", "../model", "cat", "-o", "../p.csv") == 0
    assert listing() == before


def test_one_class_alone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("cat/a.png", "unlabeled/b.png"):
        save(tmp_path / "photos" / name, noise(0, 8, 8))
    assert ict(monkeypatch, "fit", tmp_path / "photos", "--out", tmp_path / "model") == 2
    assert "one class alone, 'cat'" in capsys.readouterr().err
