"""Numbers that are not finite are refused where they come in: weights, files of a model, inputs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from ict import SemiSupervisedClassifier
from ict.base.errors import UserError
from ict.data.array_inputs import ArrayInputs, fit_features, fit_inputs
from ict.data.user.records import UserData
from ict.fit.outputs import predicted
from ict.fit.predict import predict_files
from ict.models.onnx import export_onnx
from ict.models.saved_model import SavedModel, load_model, save_model
from ict.models.trained_network import TrainedNetwork
from ict.networks import NETWORKS
from tests.test_classifier import blobs

X = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)


def a_model(folder: Path, seed: int = 0, classes: tuple[str, ...] = ("ant", "bee", "cow")) -> Path:
    inputs = fit_inputs(X)
    torch.manual_seed(seed)
    module = NETWORKS["mlp"]((4,), 3).eval()
    network = TrainedNetwork(module, 0, {"network": {"name": "mlp"}}, False)
    save_model(folder, SavedModel(network, inputs, classes), {})
    return folder


def as_first_format(folder: Path) -> None:
    """Without digests, as release 0.1.0 wrote it."""
    config = json.loads((folder / "config.json").read_text())
    del config["sha256"]
    (folder / "config.json").write_text(json.dumps(config | {"format": 1}))


def put_nan(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    next(iter(tensors.values())).view(-1)[0] = torch.nan
    save_file(tensors, folder / "model.safetensors")


@pytest.mark.parametrize("format", [1, 2])
def test_weights_that_are_not_finite_are_refused(format: int, tmp_path: Path) -> None:
    folder = a_model(tmp_path / "model")
    if format == 1:
        as_first_format(folder)
    assert load_model(folder).predict_proba(X).shape == (30, 3)
    put_nan(folder)
    for use in (load_model, lambda model: export_onnx(model, tmp_path / "m.onnx")):
        with pytest.raises(UserError, match="cannot be read as a complete model"):
            use(folder)
    assert not (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "labels.json"])
def test_files_of_two_models_do_not_make_one(name: str, tmp_path: Path) -> None:
    ours = a_model(tmp_path / "ours")
    theirs = a_model(tmp_path / "theirs", seed=1, classes=("cow", "ant", "bee"))
    (theirs / name).replace(ours / name)
    with pytest.raises(UserError, match=r"do not match the hashes in config\.json"):
        load_model(ours)


@pytest.mark.parametrize(
    ("claim", "says"),
    [({"width": 100_000, "depth": 3}, "not those of its network"), ({"depth": 1_000_000}, "network.depth|depth is")],
)
def test_a_network_of_any_claimed_size_costs_no_memory(claim: dict[str, int], says: str, tmp_path: Path) -> None:
    """40 GB here, or a million layers."""
    folder = a_model(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"network": {"name": "mlp"} | claim}))
    with pytest.raises(UserError, match=says):
        load_model(folder)


def test_an_export_that_is_not_finite_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx")
    folder = a_model(tmp_path / "model")
    model = load_model(folder)
    assert isinstance(model.network, TrainedNetwork)
    with torch.no_grad():
        next(model.network.module.parameters()).view(-1)[0] = torch.nan
    monkeypatch.setattr("ict.models.onnx.load_model", lambda *_: model)
    with pytest.raises(UserError, match="not finite"):
        export_onnx(folder, tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize("scale", [{"mean": [float("nan")]}, {"std": [0.0]}, {"std": [float("inf")]}, {"mean": ["a"]}])
def test_a_scale_that_is_not_finite_is_refused(scale: dict[str, Any], tmp_path: Path) -> None:
    folder = a_model(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"inputs": config["inputs"] | scale}))
    with pytest.raises(UserError, match="model"):
        load_model(folder)


@pytest.mark.parametrize("method", ["supervised", "graph"])
def test_inputs_too_large_for_the_network_are_refused(method: str) -> None:
    features, y, _ = blobs()
    model = SemiSupervisedClassifier(method, steps=20, device="cpu", random_state=0).fit(features, y)
    with pytest.raises(UserError, match="example 0 of X"):
        model.predict_proba(features * 1e300)
    huge = 3e38 * np.asarray(model.inputs_.std) * np.ones_like(features)  # fits into float32, but its sums do not
    if method == "graph":  # which computes with float64
        assert np.isfinite(model.predict_proba(huge)).all()
    else:
        with pytest.raises(UserError, match="example 0 of X"):
            model.predict_proba(huge)
    with pytest.raises(UserError, match="not finite"):
        SemiSupervisedClassifier(method, steps=20, device="cpu").fit(features * 1e300, y)
    assert np.isfinite(model.predict_proba(features * 1e30)).all()


def test_features_whose_length_overflows_are_refused_and_not_taken_for_the_center() -> None:
    inputs = fit_features(np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32))
    assert np.isfinite(inputs(np.full((3, 4), 1e18, np.float32))).all()
    with pytest.raises(UserError, match="example 1 of X"):
        inputs(np.array([[1.0] * 4, [1e25] * 4], np.float32))


def test_an_example_of_a_file_is_called_by_its_name(tmp_path: Path) -> None:
    folder = a_model(tmp_path / "model")
    new = X.copy()
    new[17] = 3e38
    np.save(tmp_path / "new.npy", new)
    with pytest.raises(UserError, match=r"^row 18 has a value .* far too large"):
        predict_files(folder, tmp_path / "new.npy", tmp_path / "p.csv", skip_bad=False)
    assert not (tmp_path / "p.csv").exists()
    data = UserData(new, np.full(30, None), tuple(f"item {i}" for i in range(30)), ())
    with pytest.raises(UserError, match=r"^item 17 has a value"):
        predicted(load_model(folder), data, np.arange(10, 30))


@pytest.mark.parametrize("temperature", [1e-320, 0, -1, 1e9, float("nan"), "x"])
def test_a_temperature_that_makes_no_probabilities_is_refused(temperature: Any, tmp_path: Path) -> None:
    folder = a_model(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"temperature": temperature}))
    with pytest.raises(UserError, match="cannot be read as a complete model"):
        load_model(folder)


def test_the_first_bad_example_is_named() -> None:
    x = np.zeros((5, 2))
    x[3, 1] = np.nan
    with pytest.raises(UserError, match="example 3 "):
        ArrayInputs((2,), False, [0.0], [1.0])(x)
