"""A backbone in an ONNX file, run by onnxruntime: on a CPU several times faster than torch."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ict.backbones.backbone import Features, embed_in_batches
from ict.backbones.conversion import INPUT, LICENCE, OUTPUT, PREPARATION, RUNTIME, described
from ict.backbones.preparation import Pixels, Preparation, PreparedItems, from_json, from_values
from ict.base.array_types import Array
from ict.base.errors import UserError
from ict.base.files import read_json
from ict.base.reading import bytes_of, cause
from ict.networks.onnx_graph import OPSET, Run, package, runtime

LARGEST = 2**31 - 1  # bytes of an ONNX file, which protobuf cannot exceed
_BATCH = 16  # a larger one only takes more memory
_FLOAT, _UINT8, _INT64 = 1, 2, 7  # ONNX's names of types


@dataclass
class OnnxBackbone:
    """A model whose input is prepared items and whose output is features."""

    name: str
    digest: str
    licence: str
    preparation: Preparation
    model: bytes = field(repr=False)
    batch: int | None = None  # the only size that the model takes, if it is fixed
    _run: Run | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self._runner()  # to refuse a file that cannot be run before any work is done

    def prepare(self, item: Any) -> Array:
        return self.preparation.prepare(item)

    def embed(self, rows: PreparedItems) -> Features:
        return embed_in_batches(self._embed, rows, self.preparation, self.batch or _BATCH, self.name)

    def onnx(self) -> bytes:
        onnx = package("onnx")
        proto = onnx.load_model_from_string(self.model)
        if self.batch:
            raise UserError(
                f"backbone {self.name} takes only batches of {self.batch}: export it with a dynamic batch size."
            )
        version = _opset(proto)
        if version == OPSET:
            return described(proto, self.preparation, self.licence)
        try:
            return described(onnx.version_converter.convert_version(proto, OPSET), self.preparation, self.licence)
        except Exception as problem:  # onnx's exceptions have no common class
            raise UserError(
                f"backbone {self.name} has opset {version}, which cannot be converted to {OPSET} ({cause(problem)}): "
                f"export it with opset {OPSET}."
            ) from None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_run": None}  # a session cannot be pickled

    def _runner(self) -> Run:
        if self._run is None:
            package(RUNTIME)
            try:
                self._run = runtime(self.model, INPUT)[0]
            except UserError:
                raise
            except Exception as problem:  # onnxruntime's exceptions have none either
                raise _unusable(self.name, problem) from None
        return self._run

    def _embed(self, batch: Array) -> Array:
        n = len(batch)
        if self.batch and n < self.batch:
            batch = np.concatenate([batch, np.zeros((self.batch - n, *batch.shape[1:]), batch.dtype)])
        try:
            return self._runner()(batch)[0][:n]
        except Exception as problem:
            raise _unusable(self.name, problem) from None


def open_file(path: Path, device: torch.device) -> OnnxBackbone:  # noqa: ARG001
    """The backbone in a file, with its preprocessing from the file's metadata or from JSON beside it."""
    return from_bytes(content_of(path), f"onnx:{path}", path)


def content_of(path: Path) -> bytes:
    """The bytes of a backbone's file."""
    return bytes_of(path, "a backbone", LARGEST, "name an ONNX file")


def from_bytes(content: bytes, name: str, path: Path) -> OnnxBackbone:
    onnx = package("onnx")
    try:
        proto = onnx.load_model_from_string(content)
        if not proto.graph.node:
            raise ValueError("it has no operations")
    except Exception as problem:  # protobuf's exception is not part of any interface
        raise UserError(
            f"the backbone {path} is no ONNX file or damaged ({cause(problem)}): download it again."
        ) from None
    tensors = (part for part in _parts(proto) if isinstance(part, onnx.TensorProto))
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in tensors):
        raise UserError(f"the backbone {path} keeps its weights in other files: save it as one file.")
    metadata = {entry.key: entry.value for entry in proto.metadata_props}
    preparation, output = _preparation(path, metadata)
    batch = _check_input(proto, preparation, path)
    model = content
    if proto.graph.input[0].name != INPUT or proto.graph.output[0].name != OUTPUT:
        model = _completed(proto, preparation, _output(proto, output, path), metadata.get(LICENCE, ""))
    licence = metadata.get(LICENCE) or "not stated in the file"
    return OnnxBackbone(name, hashlib.sha256(content).hexdigest(), licence, preparation, model, batch)


def _parts(message: Any) -> Iterator[Any]:
    """A protobuf message and all inside it, such as the tensors of nodes and of the graphs in them."""
    yield message
    for field_, value in message.ListFields():
        if field_.message_type is not None:
            for part in [value] if hasattr(value, "ListFields") else value:
                yield from _parts(part)


def _preparation(path: Path, metadata: dict[str, str]) -> tuple[Preparation, str | None]:
    """How items are prepared, and the name of the output with the features where it is given."""
    if PREPARATION in metadata:
        return from_json(metadata[PREPARATION], f"the metadata of {path}"), metadata.get("ict.output")
    names = (f"{path.name}.json", f"{path.stem}.json", "preprocessor_config.json")
    for beside in (path.with_name(name) for name in names):
        if beside.is_file():
            return from_values(read_json(beside), str(beside)), None
    raise UserError(
        f"{path} does not say how its input is prepared: write {path.name}.json beside it, such as "
        '{"size": 224, "scale": 255, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}.'
    )


def _check_input(proto: Any, preparation: Preparation, path: Path) -> int | None:
    """Return the fixed size of the model's batches, if any; a UserError if it cannot take prepared items."""
    weights = {tensor.name for tensor in proto.graph.initializer}
    inputs = [value for value in proto.graph.input if value.name not in weights]
    if len(inputs) != 1:
        raise UserError(f"the backbone {path} has {len(inputs)} inputs: give a file with one.")
    kind = inputs[0].type.tensor_type
    dims = [dim.dim_value or None for dim in kind.shape.dim]
    if isinstance(preparation, Pixels):
        side = preparation.size
        last = kind.elem_type == _UINT8 or preparation.channels_last
        wanted: list[int | None] = [side, side, 3] if last else [3, side, side]
        types: tuple[int, ...] = (_FLOAT, _UINT8)
        what = "float32 or uint8"
    else:
        wanted, types, what = [None], (_INT64,), "int64"
    fits = len(dims) == 1 + len(wanted) and all(
        has is None or want is None or has == want for has, want in zip(dims[1:], wanted, strict=False)
    )
    if not fits or kind.elem_type not in types:
        shape = ["batch", *("length" if side is None else side for side in wanted)]
        raise UserError(
            f"the backbone {path} has an input of the shape {dims}, but its preprocessing gives "
            f"{' x '.join(map(str, shape))} of {what}: make the two agree."
        )
    return dims[0]


def _output(proto: Any, wanted: str | None, path: Path) -> str:
    names = [value.name for value in proto.graph.output]
    rows = [value.name for value in proto.graph.output if len(value.type.tensor_type.shape.dim) == 2]
    if wanted is not None and wanted not in names:
        raise UserError(f"the backbone {path} has no output '{wanted}': choose from {', '.join(names)}.")
    found = wanted or (rows or names)[0]
    return str(found)


def _completed(proto: Any, preparation: Preparation, output: str, licence: str) -> bytes:
    """The model with the scaling of pixels before it and our names for its input and its features."""
    onnx = package("onnx")
    helper, graph = onnx.helper, proto.graph
    weights = {tensor.name for tensor in graph.initializer}
    given = next(value for value in graph.input if value.name not in weights)
    kind, name = given.type.tensor_type.elem_type, given.name
    batch = given.type.tensor_type.shape.dim[0].dim_value or "batch"
    shape = [batch, *(preparation.example.shape[1:] if isinstance(preparation, Pixels) else ["length"])]
    before = [helper.make_node("Identity", [INPUT], [name])]
    if isinstance(preparation, Pixels) and kind == _FLOAT:
        for key in ("mean", "std"):
            value = np.array(getattr(preparation, key), np.float32) * np.float32(preparation.scale)
            graph.initializer.append(onnx.numpy_helper.from_array(value, f"ict_{key}"))
        order = [0, 1, 2, 3] if preparation.channels_last else [0, 3, 1, 2]
        before = [
            helper.make_node("Cast", [INPUT], ["ict_float"], to=_FLOAT),
            helper.make_node("Sub", ["ict_float", "ict_mean"], ["ict_centred"]),
            helper.make_node("Div", ["ict_centred", "ict_std"], ["ict_scaled"]),
            helper.make_node("Transpose", ["ict_scaled"], [name], perm=order),
        ]
        kind = _UINT8
    nodes = [*before, *graph.node, helper.make_node("Identity", [output], [OUTPUT])]
    for field_name in ("node", "input", "output"):
        graph.ClearField(field_name)
    graph.node.extend(nodes)
    graph.input.append(helper.make_tensor_value_info(INPUT, kind, shape))
    graph.output.append(helper.make_tensor_value_info(OUTPUT, _FLOAT, [batch, None]))
    return described(proto, preparation, licence)


def _opset(proto: Any) -> int:
    return next((int(entry.version) for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), 0)


def _unusable(name: str, problem: Exception) -> UserError:
    return UserError(f"backbone {name} cannot be run ({cause(problem)}): check the file.")
