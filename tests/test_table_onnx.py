"""A table's model as ONNX: each column an input, with the answers of this package in onnxruntime."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ict.base.errors import UserError
from ict.models.onnx import export_onnx
from ict.models.saved_model import load_model
from tests.test_cli import ict
from tests.test_table_files import QUICK, labeled
from tests.test_user_data import save_table

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
runtime = pytest.importorskip("onnxruntime")
pandas = pytest.importorskip("pandas")


def fitted(folder: Path, monkeypatch: pytest.MonkeyPatch, frame: Any, *options: str) -> Path:
    monkeypatch.chdir(folder)
    save_table(folder / "t.csv", frame)
    assert ict(monkeypatch, "fit", "t.csv", *QUICK, *options) == 0
    return folder / "model"


def test_every_column_is_an_input_and_the_answers_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = labeled().assign(size=["small", "large"] * 60, price=np.arange(120) / 7)
    model = load_model(fitted(tmp_path, monkeypatch, frame, "--columns", "when=ignore"))
    said = export_onnx(tmp_path / "model", tmp_path / "m.onnx")
    assert "5 columns of a table" in said and "onnxruntime" in said
    session = runtime.InferenceSession((tmp_path / "m.onnx").read_bytes())
    assert {one.name: (one.type, one.shape) for one in session.get_inputs()} == {
        "age": ("tensor(float)", ["batch", 1]),
        "job": ("tensor(string)", ["batch", 1]),
        "member": ("tensor(float)", ["batch", 1]),
        "size": ("tensor(string)", ["batch", 1]),
        "price": ("tensor(float)", ["batch", 1]),
    }
    new = pandas.DataFrame(
        {
            "age": [30.0, np.nan, 81, 40],
            "job": ["cook", None, "astronaut", "judge"],
            "member": [True, False, None, True],
            "size": ["small", "large", "", "huge"],
            "price": [1.5, 2.5, np.nan, 1e4],
        }
    )
    assert model.table is not None
    expected = model.predict_proba(model.table(new))
    given = {}
    for one in session.get_inputs():
        words = one.type == "tensor(string)"
        cells = new[one.name].fillna("").to_numpy(object) if words else new[one.name].astype(float).to_numpy(np.float32)
        given[one.name] = cells[:, None]
    np.testing.assert_allclose(session.run(["probabilities"], given)[0], expected, atol=1e-5)
    one = {name: cells[1:2] for name, cells in given.items()}
    np.testing.assert_allclose(session.run(["probabilities"], one)[0], expected[1:2], atol=1e-5)
    proto = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(proto)
    assert {o.domain for o in proto.opset_import} == {"", "ai.onnx.ml"}
    assert json.loads({p.key: p.value for p in proto.metadata_props}["classes"]) == ["old", "young"]


def test_names_of_columns_that_the_graph_uses_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = labeled()[["age", "job", "label"]].rename(columns={"age": "examples", "job": "val_0"})
    fitted(tmp_path, monkeypatch, frame)
    assert "2 columns" in export_onnx(tmp_path / "model", tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("rename", "words"),
    [
        ({}, "the column 'when' holds some: fit again with --columns when=ignore"),
        ({"when": "logits"}, "ONNX has no dates"),
    ],
)
def test_dates_are_refused_in_a_sentence(
    rename: dict[str, str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted(tmp_path, monkeypatch, labeled().rename(columns=rename))
    with pytest.raises(UserError, match=words):
        export_onnx(tmp_path / "model", tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


def test_a_column_named_like_an_output_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted(tmp_path, monkeypatch, labeled()[["age", "job", "label"]].rename(columns={"age": "logits"}))
    with pytest.raises(UserError, match="'logits' has the name of an output: rename it"):
        export_onnx(tmp_path / "model", tmp_path / "m.onnx")
