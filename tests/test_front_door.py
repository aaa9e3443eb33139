"""Fitting on a backbone's features, from files and from Python: models, predictions, exports, and what is refused."""

import csv
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ict import ICTClassifier
from ict.backbones import open_backbone
from ict.base.errors import UserError
from ict.models.saved_model import load_model
from tests.test_cli import ict
from tests.test_embed import NAME, Corners

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
SHORT = ("--set", "train.steps=30", "--steps", "30")
WORDS = {
    "fish": ["cod", "tuna", "sea", "fin", "scale"],
    "bird": ["crow", "sky", "wing", "nest", "song"],
}


def photos(folder: Path, *, gray: bool = False, n: int = 8, seed: int = 0) -> Path:
    """Dark and bright images, and unlabeled ones of both."""
    rng = np.random.default_rng(seed)
    for i in range(3 * n):
        bright = i % 2
        name = f"{('dark', 'light')[bright] if i < 2 * n else 'unlabeled'}/{i}.png"
        pixels = rng.integers(130 * bright, 130 * bright + 120, (16, 16) if gray else (16, 16, 3), dtype=np.uint8)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / name)
    return folder


def texts(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    for name, words in WORDS.items():
        for i in range(12):
            path = folder / (name if i < 8 else "unlabeled") / f"{name}{i}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(" ".join(rng.choice(words, 4)) + " of the land")
    return folder


def fit(monkeypatch: pytest.MonkeyPatch, source: Path, out: Path, backbone: str, *more: str) -> dict[str, Any]:
    assert ict(monkeypatch, "fit", source, "--out", out, "--backbone", backbone, *SHORT, *more) == 0
    config: dict[str, Any] = json.loads((out / "config.json").read_text())
    return config


def predictions(monkeypatch: pytest.MonkeyPatch, model: Path, source: Path, *more: str) -> dict[str, tuple[str, float]]:
    out = model.with_suffix(".csv")
    assert ict(monkeypatch, "predict", model, source, "-o", out, *more) == 0
    with out.open() as file:
        return {row["example"]: (row["label"], float(row["probability"])) for row in csv.DictReader(file)}


def test_photos_from_files_to_onnx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    source = photos(tmp_path / "in")
    config = fit(monkeypatch, source, tmp_path / "model", NAME)
    said = capsys.readouterr().out
    assert f"features by {NAME}" in said and "anchored, " in said
    assert config["about"]["method"] == "anchored" and config["backbone"]["name"] == NAME
    assert "data:image/jpeg" in (tmp_path / "model/report.html").read_text()  # pictures, though no pixels are held
    found = predictions(monkeypatch, tmp_path / "model", source)  # by the copy: the name is code, which no file runs
    right = [label == name.partition("/")[0] for name, (label, _) in found.items() if "unlabeled" not in name]
    assert len(found) == 24 and np.mean(right) > 0.9

    assert ict(monkeypatch, "export", tmp_path / "model", "--onnx", tmp_path / "m.onnx") == 0
    assert "onnxruntime and torch differ" in capsys.readouterr().out
    backbone = open_backbone(NAME, "cpu")
    names = sorted(path.relative_to(source).as_posix() for path in source.rglob("*.png"))
    rows = np.stack([backbone.prepare(np.asarray(Image.open(source / name))) for name in names])
    probabilities = runtime.InferenceSession(tmp_path / "m.onnx").run(["probabilities"], {"prepared": rows})[0]
    np.testing.assert_allclose(probabilities.max(1), [found[name][1] for name in names], atol=1e-4)


def test_small_gray_photos_have_their_pixels_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = photos(tmp_path / "in", gray=True)
    config = fit(monkeypatch, source, tmp_path / "model", NAME)
    assert config["backbone"]["beside"] == [16, 16] and config["inputs"]["blocks"] == [12, 256]
    found = predictions(monkeypatch, tmp_path / "model", source)
    assert ict(monkeypatch, "export", tmp_path / "model", "--onnx", tmp_path / "m.onnx") == 0
    backbone = open_backbone(NAME, "cpu")
    pixels = {name: np.asarray(Image.open(source / name)) for name in found}
    rows = np.stack([backbone.prepare(image) for image in pixels.values()])
    given = {"prepared": rows, "pixels": np.stack(list(pixels.values()))}
    probabilities = runtime.InferenceSession(tmp_path / "m.onnx").run(["probabilities"], given)[0]
    np.testing.assert_allclose(probabilities.max(1), [p for _, p in found.values()], atol=1e-4)


def test_networks_of_pixels_are_compared_where_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """The backbone sees corners alone, which are noise; the class is in the middle."""
    source, rng = photos(tmp_path / "in"), np.random.default_rng(1)
    for path in source.rglob("*.png"):
        pixels = np.asarray(Image.open(path)).copy()
        pixels[[0, 0, -1, -1], [0, -1, 0, -1]] = rng.integers(0, 256, (4, 3))
        Image.fromarray(pixels).save(path)
    words = ("fit", source, "--out", tmp_path / "model", "--backbone", NAME, *SHORT, "--json")
    assert ict(monkeypatch, *words, "--pixels", "--size", "8") == 0
    result = json.loads(capsys.readouterr().out)
    assert {"ict", "supervised", "anchored"} <= result["candidates"].keys()
    assert result["method"] in ("ict", "supervised")
    config = json.loads((tmp_path / "model/config.json").read_text())
    assert "backbone" not in config and not (tmp_path / "model/backbone.onnx").exists()
    assert config["inputs"]["shape"] == [8, 8, 3]
    found = predictions(monkeypatch, tmp_path / "model", source)
    right = [label == name.partition("/")[0] for name, (label, _) in found.items() if "unlabeled" not in name]
    assert np.mean(right) > 0.9


def test_each_block_has_the_same_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit(monkeypatch, photos(tmp_path / "in", gray=True), tmp_path / "model", NAME)
    inputs = load_model(tmp_path / "model").inputs
    x = np.random.default_rng(1).normal(size=(5, 268)).astype(np.float32)
    scaled = inputs(x)
    for block in (scaled[:, :12], scaled[:, 12:]):
        np.testing.assert_allclose(np.linalg.norm(block, axis=1), np.sqrt(268 / 2), rtol=1e-5)
    centred = x[:, :12] - np.array(inputs.mean)[:12]
    np.testing.assert_allclose(
        scaled[:, :12] / np.sqrt(134), centred / np.linalg.norm(centred, axis=1, keepdims=True), atol=1e-5
    )


def test_texts_from_files_to_onnx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    source = texts(tmp_path / "in")
    config = fit(monkeypatch, source, tmp_path / "model", "tfidf")
    assert config["backbone"]["name"] == "tfidf" and "pixels" not in capsys.readouterr().out
    found = predictions(monkeypatch, tmp_path / "model", source)
    assert all(label in name for name, (label, _) in found.items())
    assert ict(monkeypatch, "export", tmp_path / "model", "--onnx", tmp_path / "m.onnx") == 0
    used = load_model(tmp_path / "model").backbone
    assert used is not None
    backbone = used.open("cpu").backbone
    rows = backbone.preparation.batch([backbone.prepare((source / name).read_text()) for name in found])
    probabilities = runtime.InferenceSession(tmp_path / "m.onnx").run(["probabilities"], {"prepared": rows})[0]
    np.testing.assert_allclose(probabilities.max(1), [p for _, p in found.values()], atol=1e-4)


def test_a_model_refuses_another_backbone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    source = photos(tmp_path / "in")
    fit(monkeypatch, source, tmp_path / "model", NAME, "--no-backbone")
    assert not (tmp_path / "model/backbone.onnx").exists()
    words = ("predict", tmp_path / "model", source, "-o", tmp_path / "p.csv")
    assert ict(monkeypatch, *words) == 2
    assert "names code, which no file may do" in capsys.readouterr().err
    assert ict(monkeypatch, *words, "--backbone", NAME) == 0
    monkeypatch.setattr(Corners, "preprocessing", {**Corners.preprocessing, "std": [0.5, 0.5, 0.5]})
    assert ict(monkeypatch, *words, "--backbone", NAME) == 2
    assert "was fitted to features of" in capsys.readouterr().err


def test_a_backbone_that_was_moved_is_named_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, file = photos(tmp_path / "in"), tmp_path / "corners.onnx"
    file.write_bytes(open_backbone(NAME, "cpu").onnx())
    fit(monkeypatch, source, tmp_path / "model", f"onnx:{file}", "--no-backbone")
    before = predictions(monkeypatch, tmp_path / "model", source)
    moved = file.rename(tmp_path / "moved.onnx")
    assert ict(monkeypatch, "predict", tmp_path / "model", source, "-o", tmp_path / "p.csv") == 2
    assert "or name the backbone by --backbone" in capsys.readouterr().err
    assert predictions(monkeypatch, tmp_path / "model", source, "--backbone", f"onnx:{moved}") == before


def test_texts_are_not_fitted_to_a_model_that_cannot_predict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("fit", texts(tmp_path / "in"), "--out", tmp_path / "model", "--backbone", "tfidf", *SHORT)
    assert ict(monkeypatch, *words, "--no-backbone") == 2
    assert "is fitted to your texts" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert ict(monkeypatch, *words) == 2
    assert "needs the package onnxscript" in capsys.readouterr().err and not (tmp_path / "model").exists()


def test_a_damaged_copy_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    source = photos(tmp_path / "in")
    fit(monkeypatch, source, tmp_path / "model", NAME)
    path, words = tmp_path / "model/backbone.onnx", ("predict", tmp_path / "model", source, "-o", tmp_path / "p.csv")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert ict(monkeypatch, *words) == 2
    assert "is not the backbone that the model was fitted with" in capsys.readouterr().err
    path.unlink()
    assert ict(monkeypatch, *words) == 2
    assert "is missing" in capsys.readouterr().err
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 12), np.float32))
    assert ict(monkeypatch, "predict", tmp_path / "model", tmp_path / "x.npz", "-o", tmp_path / "p.csv") == 2
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--backbone", NAME, "--size", "16"], "--size 16 is for training on pixels"),
        (["--backbone", "minilm2"], "unknown backbone"),
        (["--backbone", NAME, "--pixels", "--method", "ict"], "--pixels adds candidates for --method auto"),
        (["--text-column", "x"], "needs a table"),
    ],
)
def test_mistakes(words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    assert ict(monkeypatch, "fit", photos(tmp_path / "in"), "--out", tmp_path / "model", *words) == 2
    assert said in capsys.readouterr().err and not (tmp_path / "model").exists()


def test_the_classifier_takes_images_and_strings() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 120, (30, 20, 20, 3), dtype=np.uint8)
    images[1::2] += 130
    truth = np.tile([0, 1], 15)
    y = np.where(np.arange(30) < 10, truth, -1)
    model = ICTClassifier(backbone=NAME, random_state=0, steps=30).fit(images, y)
    assert (model.predict(images) == truth).mean() > 0.9 and model.method_ == "anchored"
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(images), model.predict_proba(images))
    with pytest.raises(UserError, match="strings or images as uint8"):
        model.predict(np.zeros((2, 12)))
    sentences = [" ".join(rng.choice(WORDS[("fish", "bird")[i % 2]], 4)) for i in range(30)]
    model = ICTClassifier(backbone="tfidf", random_state=0, steps=30).fit(sentences, y)
    assert (model.predict(sentences) == truth).mean() > 0.9
    column = pytest.importorskip("pandas").Series(sentences, index=range(100, 130))
    np.testing.assert_array_equal(model.predict(column), model.predict(sentences))
    again = ICTClassifier(backbone="tfidf", random_state=0, steps=30).fit(column, y)
    np.testing.assert_array_equal(again.predict_proba(sentences), model.predict_proba(sentences))
    for wrong, said in ((images, "holds no strings"), ([], "holds no strings"), ("a fish", "X is one string")):
        with pytest.raises(UserError, match=said):
            model.predict(wrong)


@pytest.mark.parametrize(
    ("backbone", "x", "said"),
    [
        ("tfidf", ["a fish", None, "a bird", 3], r"X\[1\] is None and no string"),
        ("tfidf", [None, "a fish", "a bird", "a fish"], r"X\[0\] is None and no string"),
        (NAME, [np.zeros((side, 8, 3), np.uint8) for side in (8, 9, 8, 8)], "images of different shapes"),
        (NAME, np.zeros((4, 8, 8, 3)), "strings or images as uint8"),
        ("none", ["a fish"] * 4, "backbone is 'none'"),
        (3, ["a fish"] * 4, "backbone is 3"),
    ],
)
def test_what_the_classifier_refuses(backbone: Any, x: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        ICTClassifier(backbone=backbone, steps=3).fit(x, [0, 1, 0, 1])
