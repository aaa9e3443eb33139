"""Exports a fitted network as one ONNX file with the scaling inside: from raw examples to logits and probabilities."""

import json
import math
from collections.abc import Collection
from copy import deepcopy
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ict import __version__
from ict.base.array_types import Array
from ict.base.errors import UserError
from ict.base.files import check_place, read_json, replacing
from ict.data.array_inputs import TINY, ArrayInputs
from ict.data.columns.table_inputs import TableInputs
from ict.data.user.remarks import counted
from ict.models.joined_onnx import example_inputs, joined
from ict.models.saved_model import SavedModel, load_model
from ict.models.table_onnx import OUTPUTS, check_columns, example_columns, with_columns
from ict.models.trained_network import TrainedNetwork
from ict.networks.onnx_graph import OPSET, Run, graph_of, package, runtime

EXAMPLES = "examples"  # the name of the input
Case = tuple[list[Array], Array]  # the inputs of an exported model, and the same examples as its network gets them
_SIZES = (1, 2, 7)  # of batches
TOLERANCE = 1e-5  # for a probability; for a logit, relative to the largest if that is above 1


class Deployed(nn.Module):
    """From raw examples to logits and probabilities, in one graph."""

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, inputs: ArrayInputs, temperature: float) -> None:
        super().__init__()
        self.network = deepcopy(network).cpu().float().eval()
        self.n_dims, self.channels_last, self.temperature = len(inputs.shape), inputs.channels_last, temperature
        self.blocks = inputs.block_slices if inputs.same_length else ()
        self.block_length = inputs.block_length if inputs.same_length else 0.0
        self.register_buffer("mean", torch.tensor(inputs.mean, dtype=torch.float64))
        self.register_buffer("std", torch.tensor(inputs.std, dtype=torch.float64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        # float64, as in fitting: float32 would lose the digits of a feature with a large mean
        x = ((x.double() - self.mean) / self.std).float()
        if self.blocks:
            parts = [x[:, block] for block in self.blocks]
            parts = [part * (self.block_length / part.norm(dim=1, keepdim=True).clamp(min=TINY)) for part in parts]
            x = torch.cat(parts, 1)
        if self.n_dims == 2:
            x = x.unsqueeze(1)
        if self.channels_last:
            x = x.permute(0, 3, 1, 2)
        logits = self.network(x)
        return logits, (logits / self.temperature).softmax(1)


def export_onnx(folder: Path, out: Path, allow_code: Collection[str] = (), backbone: str | None = None) -> str:
    """Write the model of a folder to `out`, after a check that it computes the same numbers. Returns a summary.

    `backbone` names the one that the model was fitted with, where the folder has no copy of it.
    """
    check_place(out)
    model = load_model(folder, allow_code)
    if not isinstance(model.network, TrainedNetwork):
        raise UserError(
            f"{folder} holds a graph over its training examples, and ONNX has no search for neighbors: "
            "fit with --method ict, or another that trains a network."
        )
    if model.table is not None:
        check_columns(model.table)
    temperature = float(read_json(folder / "config.json").get("temperature", 1.0))
    onnx = package("onnx")
    deployed = Deployed(model.network.module, model.inputs, temperature)
    proto = graph_of(deployed, examples(model.inputs, 2), EXAMPLES, OUTPUTS, {0: "batch"})
    names, cases, what = [EXAMPLES], [_alone(model, n) for n in _SIZES], _shape(model.inputs)
    if model.backbone is not None:
        embed, beside = model.backbone.open("cpu", backbone), model.backbone.beside
        proto = joined(embed.backbone.onnx(), proto, EXAMPLES, beside)
        names = [value.name for value in proto.graph.input]
        cases = [example_inputs(embed, beside, n) for n in _SIZES]
        what = f"{' and '.join(names)} for {model.backbone.name}"
    if model.table is not None:
        proto = with_columns(model.table, proto, EXAMPLES)
        names, cases = [*model.table.names], [_columns(model, model.table, n) for n in _SIZES]
        what = f"{counted(len(names), 'column', 'columns')} of a table"
    proto.doc_string = f"Exported by ict {__version__}."
    onnx.helper.set_model_props(proto, {"classes": json.dumps(model.classes), "ict": __version__})
    with replacing(out) as file:
        file.write(written := proto.SerializeToString())
        run, checker = runtime(written, *names)
        difference = check(run, model, temperature, cases)
    return (
        f"{out}: opset {OPSET}, {what} to logits and probabilities; "
        f"{checker} and torch differ by at most {difference:.0e}"
    )


def _shape(inputs: ArrayInputs) -> str:
    return f"examples {' x '.join(map(str, ('batch', *inputs.shape)))} of {examples(inputs, 1).dtype}"


def _alone(model: SavedModel, n: int) -> Case:
    x = examples(model.inputs, n)
    return [x], x


def _columns(model: SavedModel, table: TableInputs, n: int) -> Case:
    mean, std = (np.broadcast_to(value, model.inputs.shape) for value in (model.inputs.mean, model.inputs.std))
    return example_columns(table, mean, std, n)


def examples(inputs: ArrayInputs, n: int) -> Array:
    """Random examples of the kind that the model was fitted to: pixels, or features in their range."""
    rng = np.random.default_rng(0)
    if len(inputs.shape) > 1:
        return rng.integers(0, 256, (n, *inputs.shape), dtype=np.uint8)
    return (rng.normal(size=(n, *inputs.shape)) * inputs.std + inputs.mean).astype(np.float32)


def check(run: Run, model: SavedModel, temperature: float, cases: list[Case]) -> float:
    """The largest difference from the network in float64, for several batches; an error if it matters."""
    assert isinstance(model.network, TrainedNetwork)
    network = deepcopy(model.network.module).cpu().double().eval()
    largest = 0.0
    for given, x in cases:
        with torch.no_grad():
            logits = network(torch.from_numpy(model.inputs(x)).double()).numpy()
        probabilities = torch.from_numpy(logits / temperature).softmax(1).numpy()
        for found, expected in zip(run(*given), (logits, probabilities), strict=True):
            if found.shape != expected.shape:
                raise RuntimeError(
                    f"the exported model gives {found.shape} for {len(x)} examples, not {expected.shape}."
                )
            difference = float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1.0))
            if not math.isfinite(difference):  # max() would drop a NaN
                raise UserError("the model gives numbers that are not finite, so nothing was written: fit it again.")
            largest = max(largest, difference)
    if not largest <= TOLERANCE:
        raise RuntimeError(f"the exported model differs from the network by {largest:.1e}; nothing was written.")
    return largest
