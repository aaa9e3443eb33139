"""ONNX files: the same numbers as torch in another program, for every network, and what else they must say."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ict.base.errors import UserError
from ict.data.array_inputs import ArrayInputs, fit_inputs
from ict.experts.graph import GraphPropagation
from ict.models import onnx as export
from ict.models.onnx import export_onnx
from ict.models.saved_model import SavedModel, load_model, save_model
from ict.models.trained_network import TrainedNetwork
from ict.networks import NETWORKS
from tests.test_cli import ict

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
runtime = pytest.importorskip("onnxruntime")
CLASSES = ("ant", "bée", "cow, brown")
RNG = np.random.default_rng(3)


def saved(folder: Path, name: str, x: Any, **options: Any) -> SavedModel:
    """A network with weights and running statistics that are not those it starts with."""
    inputs = fit_inputs(x)
    torch.manual_seed(0)
    module = NETWORKS[name](tuple(inputs(x).shape[1:]), len(CLASSES), **options)
    with torch.no_grad():
        for _ in range(2):
            module.train()(torch.from_numpy(inputs(x)))
    network = TrainedNetwork(module.eval(), 1, {"network": {"name": name, **options}}, False)
    model = SavedModel(network, inputs, CLASSES)
    save_model(folder, model, {})
    return model


def run(path: Path, x: Any) -> Any:
    return runtime.InferenceSession(path.read_bytes()).run(["logits", "probabilities"], {"examples": x})


def pixels(*shape: int) -> Any:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


FEATURES = RNG.normal(size=(20, 5)).astype(np.float32) * [1, 10, 1e-3, 1, 0] + [0, 5, 1e-3, 1e6, 3]
NETS: list[tuple[str, dict[str, Any], Any]] = [
    ("mlp", {}, FEATURES),
    ("mlp-norm", {"width": 8}, RNG.normal(3, 2, (40, 5))),
    ("linear", {}, RNG.normal(3, 2, (40, 5))),
    ("mlp-wide", {}, pixels(9, 3, 3)),
    ("convnet", {"width": 4}, pixels(9, 10, 8, 3)),
    ("cnn13", {}, pixels(4, 12, 12, 3)),
]
SLOW: list[tuple[str, dict[str, Any], Any]] = [
    ("convnet", {"width": 32}, pixels(9, 8, 8)),
    ("cnn13", {"norm": "mean-only", "weight_norm": False}, pixels(4, 12, 12)),
    ("cnn13", {"top_norm": True}, pixels(4, 32, 32, 3)),
    ("wrn-28-2", {"depth": 10}, pixels(4, 8, 8)),
    ("wrn-28-2", {"variant": "oliver"}, pixels(4, 32, 32, 3)),
]


@pytest.mark.parametrize(
    ("name", "options", "x"), [*NETS, *(pytest.param(*net, marks=pytest.mark.slow) for net in SLOW)]
)
def test_every_network_gives_the_same_numbers(name: str, options: dict[str, Any], x: Any, tmp_path: Path) -> None:
    model = saved(tmp_path / "model", name, x, **options)
    said = export_onnx(tmp_path / "model", tmp_path / "m.onnx")
    assert "opset 18" in said and "onnxruntime" in said
    for n in (1, 3):  # the batch is free
        asked = x[:n].astype(np.float32) if x.ndim == 2 else x[:n]
        logits, probabilities = run(tmp_path / "m.onnx", asked)
        np.testing.assert_allclose(probabilities, model.predict_proba(asked), atol=1e-5)
        shifted = np.exp(logits - logits.max(1, keepdims=True))
        np.testing.assert_allclose(shifted / shifted.sum(1, keepdims=True), probabilities, atol=1e-5)


def test_all_registered_networks_are_tried() -> None:
    assert {name for name, *_ in NETS + SLOW} == set(NETWORKS)


def test_what_the_file_and_the_command_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path / "model", "convnet", pixels(9, 8, 10, 3), width=4)
    assert ict(monkeypatch, "export", tmp_path / "model", "--onnx", tmp_path / "m.onnx") == 0
    printed = capsys.readouterr()
    assert all(line.startswith("exporting;") for line in printed.err.splitlines()), "progress, on a slow machine"
    assert printed.out.count("\n") == 1 and "m.onnx" in printed.out
    proto = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(proto)
    assert [(o.domain, o.version) for o in proto.opset_import] == [("", 18)]
    (given,) = proto.graph.input
    tensor = given.type.tensor_type
    assert (given.name, tensor.elem_type) == ("examples", onnx.TensorProto.UINT8)
    assert [d.dim_param or d.dim_value for d in tensor.shape.dim] == ["batch", 8, 10, 3]
    assert [o.name for o in proto.graph.output] == ["logits", "probabilities"]
    assert json.loads({p.key: p.value for p in proto.metadata_props}["classes"]) == list(CLASSES)
    assert str(Path(export.__file__).parent).encode() not in (tmp_path / "m.onnx").read_bytes()
    assert {p.name for p in tmp_path.iterdir()} == {"model", "m.onnx"}


def test_the_temperature_is_inside_and_without_onnxruntime_the_reference_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = FEATURES.astype(np.float32)
    model = saved(tmp_path / "model", "mlp", x)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    config = json.loads((tmp_path / "model/config.json").read_text())
    (tmp_path / "model/config.json").write_text(json.dumps({**config, "temperature": 2.5}))
    assert "reference" in export_onnx(tmp_path / "model", tmp_path / "m.onnx")
    tempered = model.predict_proba(x) ** (1 / 2.5)  # softmax(z / T) is softmax(z)^(1 / T), normalised
    np.testing.assert_allclose(run(tmp_path / "m.onnx", x)[1], tempered / tempered.sum(1, keepdims=True), atol=1e-5)


@pytest.mark.parametrize("package", ["onnx", "onnxscript"])
def test_a_missing_package_is_named(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path / "model", "mlp", FEATURES)
    monkeypatch.setitem(sys.modules, package, None)
    assert ict(monkeypatch, "export", tmp_path / "model", "--onnx", tmp_path / "m.onnx") == 2
    assert "pip install 'ict-ssl[onnx]'" in capsys.readouterr().err
    assert not (tmp_path / "m.onnx").exists()


def test_a_file_that_differs_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path / "model", "mlp", FEATURES)
    (tmp_path / "m.onnx").write_text("old")
    monkeypatch.setattr(ArrayInputs, "__call__", lambda self, x: np.zeros(x.shape, np.float32) + 1)
    with pytest.raises(RuntimeError, match="differs"):
        export_onnx(tmp_path / "model", tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").read_text() == "old"
    assert {p.name for p in tmp_path.iterdir()} == {"model", "m.onnx"}


def test_a_graph_cannot_be_exported(tmp_path: Path) -> None:
    x = RNG.normal(size=(20, 2)).astype(np.float32)
    inputs = fit_inputs(x)
    graph = GraphPropagation().fit(inputs(x), np.r_[0, 1, 2, np.full(17, -1)])
    save_model(tmp_path / "model", SavedModel(graph, inputs, CLASSES), {})
    assert isinstance(load_model(tmp_path / "model").network, GraphPropagation)
    with pytest.raises(UserError, match="--method ict"):
        export_onnx(tmp_path / "model", tmp_path / "m.onnx")
