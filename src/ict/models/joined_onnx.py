"""A backbone and the network fitted to its features as one ONNX model: from prepared items to probabilities."""

from math import prod
from typing import Any

import numpy as np

from ict.backbones.conversion import OUTPUT
from ict.backbones.embedder import Embedder
from ict.base.array_types import Array
from ict.networks.onnx_graph import package

PIXELS = "pixels"  # the input of those that stand beside the features
_FLOAT, _UINT8 = 1, 2  # ONNX's names of types


def joined(backbone: bytes, student: Any, student_input: str, beside: tuple[int, ...]) -> Any:
    """The model of both; prepared items go in and, where pixels stand beside the features, those too."""
    onnx = package("onnx")
    # its names begin with a word of their own, or they could be the student's
    first = onnx.compose.add_prefix(
        onnx.load_model_from_string(backbone), "backbone/", rename_inputs=False, rename_outputs=False
    )
    first.ir_version = student.ir_version = max(first.ir_version, student.ir_version)
    made = OUTPUT
    if beside:
        made = _add_pixels(onnx, first, beside)
    return onnx.compose.merge_models(first, student, io_map=[(made, student_input)])


def example_inputs(embed: Embedder, beside: tuple[int, ...], n: int) -> tuple[list[Array], Array]:
    """`n` items as the joined model gets them, and as the student gets them."""
    preparation = embed.backbone.preparation
    rows = np.resize(preparation.example, (n, *preparation.example.shape[1:]))
    features = embed.backbone.embed(rows)
    if not beside:
        return [rows], features
    pixels = np.random.default_rng(n).integers(0, 256, (n, *beside), dtype=np.uint8)
    return [rows, pixels], np.concatenate([features, pixels.reshape(n, prod(beside)).astype(np.float32)], axis=1)


def _add_pixels(onnx: Any, model: Any, beside: tuple[int, ...]) -> str:
    """Pixels as another input, flat behind the features; the name of the output with both."""
    helper, graph = onnx.helper, model.graph
    graph.input.append(helper.make_tensor_value_info(PIXELS, _UINT8, ["batch", *beside]))
    graph.node.append(helper.make_node("Cast", [PIXELS], ["pixels/float"], to=_FLOAT))
    graph.node.append(helper.make_node("Flatten", ["pixels/float"], ["pixels/flat"], axis=1))
    graph.node.append(helper.make_node("Concat", [OUTPUT, "pixels/flat"], ["pixels/behind"], axis=1))
    graph.ClearField("output")
    graph.output.append(helper.make_tensor_value_info("pixels/behind", _FLOAT, ["batch", None]))
    return "pixels/behind"
