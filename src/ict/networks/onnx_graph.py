"""Exports a network as an ONNX graph, and runs such a graph."""

import importlib
import logging
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import numpy as np
import torch
from torch import nn

from ict.base.array_types import Array
from ict.base.errors import UserError

OPSET = 18
Run = Callable[..., list[Array]]  # the inputs to all outputs


def graph_of(network: nn.Module, example: Array, inputs: str, outputs: Sequence[str], dynamic: dict[int, str]) -> Any:
    """An ONNX model of a network in evaluation mode; `dynamic` names the axes of its input that may vary."""
    package("onnxscript")  # torch needs it for the export
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)  # hides warnings about packages that our networks do not need
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                network,
                (torch.from_numpy(example),),
                dynamo=True,
                opset_version=OPSET,
                input_names=[inputs],
                output_names=list(outputs),
                dynamic_shapes=({axis: torch.export.Dim(name) for axis, name in dynamic.items()},),
                verbose=False,
            )
    finally:
        logger.setLevel(level)
    assert program is not None
    proto = program.model_proto
    for node in proto.graph.node:
        node.ClearField("metadata_props")  # source positions in our files
    return proto


def runtime(model: bytes, *inputs: str) -> tuple[Run, str]:
    """A function that runs an ONNX model, and the runtime's name: onnxruntime, else onnx's slow reference evaluator."""
    try:
        onnxruntime = importlib.import_module("onnxruntime")
    except ImportError:
        session = importlib.import_module("onnx.reference").ReferenceEvaluator(
            package("onnx").load_model_from_string(model)
        )
        return lambda *x: session.run(None, dict(zip(inputs, x, strict=True))), "onnx's reference evaluator"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # hides warnings about graphs that run correctly
    available = onnxruntime.get_available_providers()
    providers = [name for name in ("CUDAExecutionProvider", "CPUExecutionProvider") if name in available]
    session = onnxruntime.InferenceSession(model, options, providers=providers)
    return lambda *x: [np.asarray(y) for y in session.run(None, dict(zip(inputs, x, strict=True)))], "onnxruntime"


def package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UserError(f"this needs the package {name}: run `pip install 'ict-ssl[onnx]'`.") from None
