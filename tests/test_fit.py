"""From users' files to a model folder and predictions: what is written, what it says, and that it can be trusted."""

import base64
import csv
import io
import json
import re
import shutil
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from ict.base.errors import UserError
from ict.data.array_inputs import fit_inputs
from ict.experts.graph import GraphPropagation
from ict.experts.temperature import reliability
from ict.fit.holdout import hold_out
from ict.models.saved_model import SavedModel, load_model, save_model
from ict.models.trained_network import TrainedNetwork
from tests.test_classifier import blobs
from tests.test_cli import ict
from tests.test_user_data import noise, save

SHORT = ("--steps", "40", "--device", "cpu", "--set", "anchor.trees=5")


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


@pytest.fixture(scope="module")
def fitted_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Any]:
    pytest.importorskip("pandas")
    folder, said = tmp_path_factory.mktemp("fitted"), io.StringIO()
    y, truth = table(folder / "data.csv")
    with pytest.MonkeyPatch.context() as monkeypatch, redirect_stdout(said):
        monkeypatch.chdir(folder)
        assert ict(monkeypatch, "fit", "data.csv", "--out", "model", *SHORT) == 0
    return folder, said.getvalue(), truth[y < 0]


@pytest.fixture
def fitted(
    fitted_once: tuple[Path, str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, str, Any]:
    """A copy of a fitted model's folder and data, where a test may break things; what fit said; the truth."""
    folder, said, truth = fitted_once
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path, said, truth


def test_fit_writes_a_model_and_predictions_for_every_unlabeled_row(fitted: tuple[Path, str, Any]) -> None:
    folder, said, truth = fitted
    assert {p.name for p in (folder / "model").iterdir()} == {
        "model.safetensors", "config.json", "labels.json", "README.md", "predictions.csv", "next.csv", "report.html",
        "held_out.csv",
    }  # fmt: skip
    rows = list(csv.DictReader((folder / "model/predictions.csv").read_text().splitlines()))
    assert len(rows) == len(truth) == 180
    assert np.mean([row["label"] == label for row, label in zip(rows, truth, strict=True)]) > 0.95
    for row in rows:
        probabilities = [float(row[f"p({name})"]) for name in ("ant", "bee", "cow")]
        assert sum(probabilities) == pytest.approx(1, abs=1e-5) and float(row["probability"]) == max(probabilities)
    assert json.loads((folder / "model/labels.json").read_text())["classes"] == ["ant", "bee", "cow"]
    assert "on 60 labels held out in folds" in said and "95 % interval" in said


def test_no_label_is_given_up_for_the_accuracy(fitted: tuple[Path, str, Any]) -> None:
    folder, said, _ = fitted
    about = json.loads((folder / "model/config.json").read_text())["about"]
    assert about["labeled"] == 60 and about["unlabeled"] == 180
    assert about["test"] in said


def test_the_result_is_printed_for_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "data.csv")
    options = ("--json", "--metric", "log_loss", "--holdout", "0.2")
    assert ict(monkeypatch, "fit", "data.csv", *options, *SHORT) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["labeled"] == 48 and "of 12 held-out labels right" in result["test"]
    assert "log loss" in result["folds"] and "48 labels held out in folds" in result["folds"], "12 say little"
    assert result["method"] in result["candidates"] and result["metric"] == "log_loss"
    assert result["estimate"]["low"] <= result["estimate"]["value"] <= result["estimate"]["high"]
    assert result["unlabeled_rows"]["answer"] in ("helped", "hurt", "cannot tell")
    assert (result["unlabeled_rows"]["gain"] is None) == (result["unlabeled_rows"]["answer"] == "cannot tell")
    assert result["temperature"] == json.loads((tmp_path / "model/config.json").read_text())["temperature"]
    for option, value in (("--holdout", "0.9"), ("--metric", "auc"), ("--group-column", "person")):
        assert ict(monkeypatch, "fit", "data.csv", "--out", "other", option, value, *SHORT) == 2
        assert value in capsys.readouterr().err and not (tmp_path / "other").exists()


def test_a_group_column_is_no_feature_and_keeps_rows_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "data.csv")
    lines = list(csv.reader((tmp_path / "data.csv").read_text().splitlines()))
    with (tmp_path / "grouped.csv").open("w", newline="") as file:
        for i, line in enumerate(lines):
            csv.writer(file).writerow(["person" if i == 0 else f"p{line[-1]}" if line[-1] else "", *line])
    words = ("fit", "grouped.csv", "--group-column", "person", "--method", "graph")
    assert ict(monkeypatch, *words) == 0, "every class is one person, so that nothing can be held out"
    assert "no accuracy was measured" in capsys.readouterr().out
    assert json.loads((tmp_path / "model/config.json").read_text())["columns"] == [f"f{i}" for i in range(6)]


def test_probabilities_are_the_softmax_of_logits_over_the_saved_temperature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "data.csv")
    assert ict(monkeypatch, "fit", "data.csv", "--method", "ict", *SHORT) == 0
    folder, said = tmp_path, capsys.readouterr().out
    config = json.loads((folder / "model/config.json").read_text())
    temperature = config["temperature"]
    assert temperature != 1 and f"temperature {temperature:.2f}, from 60 labeled rows" in said
    assert config["calibration"] in said and config["calibration"] in (folder / "model/README.md").read_text()
    model = load_model(folder / "model")
    rows = list(csv.DictReader((folder / "model/predictions.csv").read_text().splitlines()))
    frame = list(csv.reader((folder / "data.csv").read_text().splitlines()))[1:]
    x = np.array([frame[int(row["example"].removeprefix("row ")) - 1][:6] for row in rows], dtype=np.float32)
    assert isinstance(model.network, TrainedNetwork)
    with torch.no_grad():
        logits = model.network.module.double()(torch.from_numpy(model.inputs(x)).double())
    expected = (logits / temperature).softmax(1).numpy()
    found = np.array([[float(row[f"p({name})"]) for name in ("ant", "bee", "cow")] for row in rows])
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_next_names_unlabeled_rows_once_and_in_order(fitted: tuple[Path, str, Any]) -> None:
    folder, said, _ = fitted
    rows = list(csv.DictReader((folder / "model/next.csv").read_text().splitlines()))
    predictions = {
        row["example"]: row for row in csv.DictReader((folder / "model/predictions.csv").read_text().splitlines())
    }
    assert list(rows[0]) == ["rank", "example", "label", "guess", "probability", "cluster", "why"]
    assert [row["rank"] for row in rows] == [str(i) for i in range(1, 101)]
    assert len({row["example"] for row in rows}) == 100
    for row in rows:
        predicted = predictions[row["example"]]
        assert (row["guess"], row["probability"]) == (predicted["label"], predicted["probability"])
        assert row["guess"] in row["why"]
    assert all(f"model/{name}" in said for name in ("model.safetensors", "predictions.csv", "next.csv", "report.html"))


def test_the_report_says_what_the_command_said(fitted: tuple[Path, str, Any]) -> None:
    folder, said, _ = fitted
    page = (folder / "model/report.html").read_text()
    accuracy = re.search(r"accuracy [\d.]+% on 60 labels held out in folds", said)
    assert accuracy and accuracy.group() in page.lower()
    for name in ("mean", "anchored", "trees", "anchored-graph", "logistic"):
        assert f">{name}" in page
    assert json.loads((folder / "model/config.json").read_text())["calibration"] in page
    assert "ict fit data.csv --out model --steps 40 --device cpu" in page
    first = next(csv.DictReader((folder / "model/next.csv").read_text().splitlines()))
    assert page.index("What to do next") < page.index(first["example"])


def test_a_temperature_that_is_none_is_refused(fitted: tuple[Path, str, Any]) -> None:
    path = fitted[0] / "model/config.json"
    for temperature in (0, -1, "warm", float("inf"), float("nan")):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"temperature": temperature}))
        with pytest.raises(UserError, match="cannot be read as a complete model"):
            load_model(path.parent)


def test_a_share_that_is_held_out_is_the_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(560) % 2
    x = (rng.normal(size=(560, 4)) + y[:, None]).astype(np.float32)
    known = np.where(np.arange(560) < 520, y, -1)
    np.savez(tmp_path / "data.npz", x=x, y=known)
    monkeypatch.chdir(tmp_path)
    assert ict(monkeypatch, "fit", "data.npz", "--method", "mean-teacher", "--holdout", "0.2", *SHORT) == 0
    said = capsys.readouterr().out
    assert "of 104 held-out labels right" in said and "from 416 labeled rows" in said
    about = json.loads((tmp_path / "model/config.json").read_text())["about"]
    assert about["labeled"] == 520 - 104 and about["unlabeled"] == 40
    page = (tmp_path / "model/report.html").read_text()
    assert "was not measured" in page, "a method that was asked for is compared with nothing"
    test, model = hold_out(known, 0.2, seed=0), load_model(tmp_path / "model")
    errors = [
        f"{reliability(replace(model, temperature=t).predict_proba(x[test]), y[test]).error:.1%}"
        for t in (1.0, model.temperature)
    ]
    assert errors[0] != errors[1] and f"{errors[0]} before calibration and {errors[1]} after" in page


def test_images_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    x = rng.integers(0, 100, (60, 8, 8), dtype=np.uint8) + 100 * y[:, None, None].astype(np.uint8)
    np.savez(tmp_path / "data.npz", x=x, y=np.where(np.arange(60) < 8, y, -1))
    monkeypatch.chdir(tmp_path)
    assert ict(monkeypatch, "fit", "data.npz", "--method", "supervised", "--steps", "10", "--device", "cpu") == 0
    page = (tmp_path / "model/report.html").read_text()
    mistaken = re.findall("taken for <strong>", page)
    sources = re.findall(r'<img src="data:image/png;base64,([^"]*)" alt="row (\d+)"', page)
    assert len(sources) == 12 + len(mistaken) + 24 + 24
    for content, row in sources:
        pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(content))))
        assert np.array_equal(pixels, x[int(row) - 1])


def test_predict_gives_what_fit_gave(
    fitted: tuple[Path, str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _, _ = fitted
    assert ict(monkeypatch, "predict", "model", "data.csv", "-o", "again.csv") == 0
    assert "Probabilities are calibrated" in capsys.readouterr().out
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
    assert isinstance(model.network, TrainedNetwork)
    weights = load_file(folder / "model/model.safetensors")
    assert all(torch.equal(t, weights[name]) for name, t in model.network.module.state_dict().items())
    (folder / "model/model.safetensors").write_bytes(b"\x80\x04cos\nsystem\n")
    with pytest.raises(UserError, match="cannot be read as a complete model"):
        load_model(folder / "model")
    (folder / "model/config.json").unlink()
    with pytest.raises(UserError, match=r"no config\.json"):
        load_model(folder / "model")


def test_a_second_fit_does_not_overwrite_the_first(
    fitted: tuple[Path, str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ict(monkeypatch, "fit", "data.csv", "--out", "model", *SHORT) == 2
    assert "already holds a model" in capsys.readouterr().err
    Path("taken").write_text("a file")
    assert ict(monkeypatch, "fit", "data.csv", "--out", "taken", *SHORT) == 2
    assert "taken is a file: name a folder" in capsys.readouterr().err and Path("taken").read_text() == "a file"


def test_too_few_labels_to_hold_some_out_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "few.csv", per_class=2)
    assert ict(monkeypatch, "fit", "few.csv", "--method", "ict", *SHORT) == 0
    assert "accuracy 100.0% on 6 labels held out in folds (95 % interval 61.0% to 100.0%)" in capsys.readouterr().out
    table(tmp_path / "fewer.csv", per_class=1)
    assert ict(monkeypatch, "fit", "fewer.csv", "--method", "ict", "--out", "other", *SHORT) == 0
    said = capsys.readouterr().out
    assert "not calibrated: a class has fewer than two different labeled rows" in said
    assert "no accuracy was measured" in said
    assert json.loads((tmp_path / "other/config.json").read_text())["temperature"] == 1
    assert "not calibrated" in (tmp_path / "other/README.md").read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["fit", "nowhere"], "nowhere"),
        (["fit", "data.csv", "--out", "data.csv/model"], "must not change"),
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
        with pytest.raises(UserError, match="cannot be read as a complete model"):
            load_model(tmp_path / "model")


def test_auto_ships_one_network_without_any_training_row(fitted: tuple[Path, str, Any]) -> None:
    folder, said, _ = fitted
    model, arrays = load_model(folder / "model"), load_file(folder / "model/model.safetensors")
    assert isinstance(model.network, TrainedNetwork) and said.splitlines()[1].startswith(
        ("mean", "anchored", "trees", "logistic")
    )
    assert all(240 not in t.shape and 180 not in t.shape for t in arrays.values())


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
    assert ict(monkeypatch, "fit", tmp_path / "photos", "--out", tmp_path / "model", "--backbone", "none") == 2
    assert "only one class, 'cat'" in capsys.readouterr().err
