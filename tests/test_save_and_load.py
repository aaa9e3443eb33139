"""`save` and `ict.load`: the estimator comes back, commands read its folder, and a folder runs no code by itself."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from torch import nn

import ict
from ict import ICTClassifier, SemiSupervisedClassifier
from ict.base.errors import UserError
from tests import test_cli
from tests.test_classifier import blobs

QUICK: dict[str, Any] = {"steps": 40, "settings": ("anchor.trees=5",), "device": "cpu", "random_state": 0}
CORNERS = "torch:tests.test_embed:Corners"


class Small(nn.Module):
    """A network of the user's own, for vectors of six numbers."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers(x)
        return out


def wide() -> nn.Module:
    return Small(16)


def images(channels_first: bool = False) -> tuple[Any, Any]:
    """Dark and bright images in color, and the class of some."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    x = rng.integers(0, 120, (60, 8, 8, 3), dtype=np.uint8) + 120 * y[:, None, None, None].astype(np.uint8)
    return (x.transpose(0, 3, 1, 2) if channels_first else x), np.where(np.arange(60) < 20, y, -1)


def predicted(monkeypatch: pytest.MonkeyPatch, model: Path, source: Path, *more: str) -> tuple[list[str], Any]:
    """The labels and probabilities that the command writes."""
    out = model.with_suffix(".csv")
    assert test_cli.ict(monkeypatch, "predict", model, source, "-o", out, *more) == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    names = [name for name in rows[0] if name.startswith("p(")]
    return [row["label"] for row in rows], np.array([[float(row[name]) for name in names] for row in rows])


@pytest.mark.parametrize("method", ["auto", "graph", "mean-teacher"])
def test_a_loaded_estimator_predicts_the_same_bits(method: str, tmp_path: Path) -> None:
    X, y, _ = blobs()
    fitted = SemiSupervisedClassifier(method, **QUICK).fit(X, y)
    fitted.save(tmp_path / "model")
    loaded = ict.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    assert np.array_equal(loaded.predict(X), fitted.predict(X)) and loaded.classes_.dtype == fitted.classes_.dtype
    for name in ("method_", "temperature_", "remark_", "comparison_", "estimate_", "n_iter_", "n_features_in_"):
        assert getattr(loaded, name) == getattr(fitted, name), name
    assert type(loaded) is SemiSupervisedClassifier and loaded.method == method
    assert str(loaded.verdict_) == str(fitted.verdict_)
    loaded.save(tmp_path / "again")
    assert np.array_equal(ict.load(tmp_path / "again").predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["ant", "bée", "-2"]),
        np.array([3, 10, 200], np.uint8),
        np.array([-5, 10, 2**40]),
        np.array([-5.0, 10.0, 1e9]),
        np.array([0, 1, 2], np.float32),
    ],
    ids=["strings", "bytes", "integers", "floats", "small floats"],
)
def test_labels_keep_their_type(classes: Any, tmp_path: Path) -> None:
    X, y, truth = blobs()
    known = np.array([None if label < 0 else classes[label] for label in y], dtype=object)
    fitted = SemiSupervisedClassifier("graph").fit(X, known)
    fitted.save(tmp_path / "model")
    loaded = ict.load(tmp_path / "model")
    assert loaded.classes_.dtype == fitted.classes_.dtype and np.array_equal(loaded.classes_, fitted.classes_)
    assert np.mean(loaded.predict(X) == classes[truth]) > 0.9


def test_truth_values_stay_truth_values(tmp_path: Path) -> None:
    X, y, _ = blobs()
    some = y != 2
    fitted = SemiSupervisedClassifier("graph").fit(X[some], [None if label < 0 else label == 1 for label in y[some]])
    fitted.save(tmp_path / "model")
    loaded = ict.load(tmp_path / "model")
    assert loaded.classes_.tolist() == [False, True] and loaded.classes_.dtype == bool
    assert np.array_equal(loaded.predict(X), fitted.predict(X))


def test_labels_that_a_folder_cannot_hold_are_refused(tmp_path: Path) -> None:
    X, y, _ = blobs()
    days = np.where(y < 0, np.datetime64("NaT"), np.datetime64("2026-01-01") + y.astype("timedelta64[D]"))
    fitted = SemiSupervisedClassifier("graph").fit(X, days)
    with pytest.raises(UserError, match="fit to strings or numbers"):
        fitted.save(tmp_path / "model")
    assert not any(tmp_path.iterdir())


def test_the_commands_read_a_saved_estimator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, _ = blobs()
    names = np.array(["ant", "bee", "cow"])
    fitted = ICTClassifier(**QUICK).fit(X, [names[label] if label >= 0 else None for label in y])
    fitted.save(tmp_path / "model")
    assert type(ict.load(tmp_path / "model")) is ICTClassifier
    np.savez(tmp_path / "new.npz", x=X.astype(np.float32))
    labels, probs = predicted(monkeypatch, tmp_path / "model", tmp_path / "new.npz")
    assert labels == fitted.predict(X).tolist()
    np.testing.assert_allclose(probs, fitted.predict_proba(X), atol=2e-6)  # the file has six digits, and float32
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    assert test_cli.ict(monkeypatch, "export", tmp_path / "model", "--onnx", tmp_path / "model.onnx") == 0
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"))
    _, exported = session.run(None, {"examples": X.astype(np.float32)})
    np.testing.assert_allclose(exported, fitted.predict_proba(X), atol=1e-5)


def test_a_folder_of_the_command_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    X, y, _ = blobs()
    frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(6)])
    frame["color"] = np.where(X[:, 0] > X[:, 0].mean(), "red", "blue")
    frame["label"] = np.where(y < 0, "", np.array(["ant", "bee", "cow"])[y])
    frame.to_csv(tmp_path / "data.csv", index=False)
    short = ("--steps", "40", "--device", "cpu", "--set", "anchor.trees=5")
    assert test_cli.ict(monkeypatch, "fit", tmp_path / "data.csv", "--out", tmp_path / "model", *short) == 0
    loaded = ict.load(tmp_path / "model")
    labels, probs = predicted(monkeypatch, tmp_path / "model", tmp_path / "data.csv")
    more = frame.assign(note="ignored")[["note", *frame.columns[::-1]]]  # found by name
    assert loaded.predict(more).tolist() == labels and loaded.classes_.tolist() == ["ant", "bee", "cow"]
    np.testing.assert_allclose(loaded.predict_proba(more), probs, atol=2e-6)
    assert (
        loaded.estimate_ is not None
        and loaded.estimate_.n == int((y >= 0).sum())
        and loaded.method_ in loaded.comparison_
    )
    with pytest.raises(UserError, match="lacks the column color"):
        loaded.predict(frame.drop(columns="color"))


def test_tables_with_columns_of_any_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    X, y, _ = blobs()
    frame = pandas.DataFrame(X[:, :3], columns=["a", "b", "c"])
    frame["color"] = np.where(X[:, 0] > X[:, 0].mean(), "red", "blue")
    frame.loc[::7, "b"] = np.nan
    fitted = SemiSupervisedClassifier(**QUICK).fit(frame, y)
    fitted.save(tmp_path / "model")
    loaded = ict.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(frame), fitted.predict_proba(frame))
    assert loaded.table_ == fitted.table_ and list(loaded.feature_names_in_) == list(frame.columns)
    frame.to_csv(tmp_path / "new.csv", index=False)
    labels, probs = predicted(monkeypatch, tmp_path / "model", tmp_path / "new.csv")
    assert labels == [str(label) for label in fitted.predict(frame)]
    np.testing.assert_allclose(probs, fitted.predict_proba(frame), atol=2e-6)


def test_a_frame_of_numbers_keeps_the_names_of_its_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    X, y, _ = blobs()
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    fitted = SemiSupervisedClassifier("graph").fit(frame, y)
    fitted.save(tmp_path / "model")
    loaded = ict.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(frame), fitted.predict_proba(frame))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"a": "z"}))
    frame[list("fedcba")].to_csv(tmp_path / "turned.csv", index=False)
    _, probs = predicted(monkeypatch, tmp_path / "model", tmp_path / "turned.csv")
    np.testing.assert_allclose(probs, fitted.predict_proba(frame), atol=1e-4)


@pytest.mark.parametrize("first", [False, True], ids=["channels last", "channels first"])
def test_images(first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = images(first)
    fitted = SemiSupervisedClassifier("supervised", **QUICK).fit(X, y)
    fitted.save(tmp_path / "model")
    assert np.array_equal(ict.load(tmp_path / "model").predict_proba(X), fitted.predict_proba(X))
    np.save(tmp_path / "new.npy", X)
    _, probs = predicted(monkeypatch, tmp_path / "model", tmp_path / "new.npy")
    np.testing.assert_allclose(probs, fitted.predict_proba(X), atol=2e-6)
    (tmp_path / "photos").mkdir()
    for i, image in enumerate(X.transpose(0, 2, 3, 1) if first else X):
        Image.fromarray(image).save(tmp_path / f"photos/{i:02}.png")
    _, probs = predicted(monkeypatch, tmp_path / "model", tmp_path / "photos")
    np.testing.assert_allclose(probs, fitted.predict_proba(X), atol=2e-6)


def test_images_on_a_scale_of_their_own_are_no_photos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    X, y = images()
    scaled = X.astype(np.float32) / 255
    fitted = SemiSupervisedClassifier("supervised", **QUICK).fit(scaled, y)
    fitted.save(tmp_path / "model")
    np.save(tmp_path / "new.npy", scaled)
    _, probs = predicted(monkeypatch, tmp_path / "model", tmp_path / "new.npy")
    np.testing.assert_allclose(probs, fitted.predict_proba(scaled), atol=2e-6)
    (tmp_path / "photos").mkdir()
    Image.fromarray(X[0]).save(tmp_path / "photos/0.png")
    assert test_cli.ict(monkeypatch, "predict", tmp_path / "model", tmp_path / "photos") == 2
    assert "another scale than the pixels of files" in capsys.readouterr().err


def test_images_by_a_backbone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.integers(0, 120, (40, 16, 16, 3), dtype=np.uint8) + 120 * y[:, None, None, None].astype(np.uint8)
    fitted = SemiSupervisedClassifier(backbone=CORNERS, **QUICK).fit(X, np.where(np.arange(40) < 20, y, -1))
    fitted.save(tmp_path / "model")
    loaded = ict.load(tmp_path / "model")
    assert (tmp_path / "model/backbone.onnx").exists()
    np.testing.assert_allclose(loaded.predict_proba(X), fitted.predict_proba(X), atol=1e-5)  # by another runtime
    np.save(tmp_path / "new.npy", X)
    (tmp_path / "photos").mkdir()
    for i, image in enumerate(X):
        Image.fromarray(image).save(tmp_path / f"photos/{i:02}.png")
    for source in ("new.npy", "photos"):
        _, probs = predicted(monkeypatch, tmp_path / "model", tmp_path / source)
        np.testing.assert_allclose(probs, fitted.predict_proba(X), atol=1e-5)
    with pytest.raises(UserError, match="fitted without a backbone"):
        graph = SemiSupervisedClassifier("graph").fit(*blobs()[:2])
        graph.save(tmp_path / "plain")
        ict.load(tmp_path / "plain", backbone=CORNERS)


def test_texts_by_a_backbone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    words = {"fish": ["cod", "tuna", "sea", "fin"], "bird": ["crow", "sky", "wing", "nest"]}
    truth = ["fish", "bird"] * 20
    X = [" ".join(rng.choice(words[name], 4)) + " of the land" for name in truth]
    y = [name if i < 20 else None for i, name in enumerate(truth)]
    fitted = SemiSupervisedClassifier(backbone="tfidf", **QUICK).fit(X, y)
    fitted.save(tmp_path / "model")
    loaded = ict.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.predict_proba(X), fitted.predict_proba(X), atol=1e-5)
    (tmp_path / "texts").mkdir()
    for i, text in enumerate(X):
        (tmp_path / f"texts/{i:02}.txt").write_text(text)
    (tmp_path / "new.csv").write_text("said\n" + "\n".join(X) + "\n")
    for source, more in (("texts", ()), ("new.csv", ("--text-column", "said"))):
        labels, probs = predicted(monkeypatch, tmp_path / "model", tmp_path / source, *more)
        np.testing.assert_allclose(probs, fitted.predict_proba(X), atol=1e-5)
        assert labels == fitted.predict(X).tolist()


def test_a_network_of_ones_own_is_loaded_only_when_it_is_named_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    X, y, _ = blobs()
    fitted = SemiSupervisedClassifier("mean-teacher", network=Small(), **QUICK).fit(X, y)
    fitted.save(tmp_path / "model")
    name = f"{__name__}:Small"
    with pytest.raises(UserError, match=f"--allow-code {name}"):
        ict.load(tmp_path / "model")
    state = torch.get_rng_state()
    loaded = ict.load(tmp_path / "model", allow_code=[name])
    assert torch.equal(torch.get_rng_state(), state), "a network that is made anew draws weights"
    assert np.array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    np.save(tmp_path / "new.npy", X.astype(np.float32))
    assert test_cli.ict(monkeypatch, "predict", tmp_path / "model", tmp_path / "new.npy") == 2
    assert f"--allow-code {name}" in capsys.readouterr().err
    _, probs = predicted(monkeypatch, tmp_path / "model", tmp_path / "new.npy", "--allow-code", name)
    np.testing.assert_allclose(probs, fitted.predict_proba(X), atol=2e-6)


def test_a_network_with_arguments_needs_a_function_that_makes_it(tmp_path: Path) -> None:
    X, y, _ = blobs()
    fitted = SemiSupervisedClassifier("mean-teacher", network=Small(16), **QUICK).fit(X, y)
    with pytest.raises(UserError, match="other weights than the one that was fitted: write a function"):
        fitted.save(tmp_path / "model")
    nested = SemiSupervisedClassifier("mean-teacher", network=nn.Sequential(nn.Linear(6, 3)), **QUICK).fit(X, y)
    with pytest.raises(UserError, match="write a function in a module"):
        nested.save(tmp_path / "model")
    with pytest.raises(UserError, match="network of your own, and this model has none"):
        SemiSupervisedClassifier("graph").fit(X, y).save(tmp_path / "model", network=f"{__name__}:wide")
    assert not any(tmp_path.iterdir()), "nothing was written"
    fitted.save(tmp_path / "model", network=f"{__name__}:wide")
    loaded = ict.load(tmp_path / "model", allow_code=[f"{__name__}:wide"])
    assert np.array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    loaded.save(tmp_path / "again")
    again = ict.load(tmp_path / "again", allow_code=[f"{__name__}:wide"])
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))


def test_a_model_is_not_overwritten_and_a_place_that_is_none_is_refused(tmp_path: Path) -> None:
    X, y, _ = blobs()
    fitted = SemiSupervisedClassifier("graph").fit(X, y)
    fitted.save(str(tmp_path / "model"))
    before = (tmp_path / "model/config.json").read_bytes()
    with pytest.raises(UserError, match="already holds a model: name another folder"):
        fitted.save(tmp_path / "model")
    assert (tmp_path / "model/config.json").read_bytes() == before
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="is a file: name a folder"):
        fitted.save(tmp_path / "file")
    with pytest.raises(UserError, match="holds no model"):
        ict.load(tmp_path)
    with pytest.raises(ValueError, match="not fitted"):
        SemiSupervisedClassifier().save(tmp_path / "other")
    assert {path.name for path in tmp_path.iterdir()} == {"model", "file"}


def test_a_damaged_description_is_a_sentence(tmp_path: Path) -> None:
    X, y, _ = blobs()
    SemiSupervisedClassifier(**QUICK).fit(X, y).save(tmp_path / "model")
    path = tmp_path / "model/config.json"
    config = json.loads(path.read_text())
    assert config["about"]["estimate"] and config["about"]["unlabeled_rows"]
    damages: list[dict[str, Any]] = [
        {"class_type": "O"},
        {"class_type": "datetime64[D]"},
        {"about": []},
        {"about": {**config["about"], "estimate": 3}},
        {"about": {**config["about"], "unlabeled_rows": {"gain": 1}}},
        {"about": {**config["about"], "candidates": {"mean": "x"}}},
    ]
    for changes in damages:
        path.write_text(json.dumps(config | changes))
        with pytest.raises(UserError, match=r"config\.json|complete model"):
            ict.load(tmp_path / "model")


def test_the_model_card_has_the_header_that_the_hub_reads(tmp_path: Path) -> None:
    X, y, _ = blobs()
    fitted = SemiSupervisedClassifier(**QUICK).fit(X, y)
    fitted.save(tmp_path / "model")
    card = (tmp_path / "model/README.md").read_text()
    _, header, body = card.split("---\n", 2)
    content = yaml.safe_load(header)
    assert content["library_name"] == "ict-ssl" and content["pipeline_tag"] == "tabular-classification"
    assert content["license"] == "unknown" and {"ict", "semi-supervised-learning"} <= set(content["tags"])
    (result,) = content["model-index"][0]["results"]
    assert result["task"]["type"] == content["pipeline_tag"] and {"type", "name"} <= set(result["dataset"])
    (metric,) = result["metrics"]
    found = fitted.estimate_
    assert found is not None
    assert metric["type"] == "accuracy" == content["metrics"][0]
    assert metric["value"] == pytest.approx(found.value, abs=1e-4)
    assert f"95 % interval {found.low:.4f} to {found.high:.4f}, {found.n} labels held out in folds" in metric["name"]
    assert str(found) in body and "ict.load(" in body


def test_the_log_loss_is_a_loss_on_the_card(tmp_path: Path) -> None:
    X, y, _ = blobs()
    fitted = SemiSupervisedClassifier(metric="log_loss", **QUICK).fit(X, y)
    fitted.save(tmp_path / "model")
    header = (tmp_path / "model/README.md").read_text().split("---\n")[1]
    (metric,) = yaml.safe_load(header)["model-index"][0]["results"][0]["metrics"]
    found = fitted.estimate_
    assert found is not None
    assert metric["value"] == pytest.approx(-found.value, abs=1e-4) and metric["value"] > 0
    assert f"{-found.high:.4f} to {-found.low:.4f}" in metric["name"]


def test_images_and_texts_have_tasks_of_their_own(tmp_path: Path) -> None:
    X, y = images()
    SemiSupervisedClassifier("graph").fit(X, y).save(tmp_path / "images")
    texts = ["a cod in the sea", "a crow in the sky", "the sea", "the sky"] * 3
    known = ["fish", "bird", None, None] * 3
    pytest.importorskip("onnx")
    SemiSupervisedClassifier("graph", backbone="tfidf").fit(texts, known).save(tmp_path / "texts")
    for name, task in (("images", "image-classification"), ("texts", "text-classification")):
        header = yaml.safe_load((tmp_path / name / "README.md").read_text().split("---\n")[1])
        assert header["pipeline_tag"] == task and "model-index" not in header, "nothing was measured"


def test_another_process_loads_it(tmp_path: Path) -> None:
    X, y, _ = blobs()
    fitted = SemiSupervisedClassifier(**QUICK).fit(X, y)
    fitted.save(tmp_path / "model")
    np.save(tmp_path / "x.npy", X)
    program = (
        "import sys, numpy as np, ict; print(ict.load(sys.argv[1]).predict_proba(np.load(sys.argv[2])).tobytes().hex())"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "model"), str(tmp_path / "x.npy")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert bytes.fromhex(done.stdout.strip()) == fitted.predict_proba(X).tobytes()
