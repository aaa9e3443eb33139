"""Converts torch networks to ONNX, for which onnxruntime is much faster. Conversions take seconds and are cached."""

import hashlib
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torch import nn

from ict import __version__
from ict.backbones.preparation import Pixels, Preparation
from ict.base.errors import UserError
from ict.base.files import write_atomic
from ict.base.reading import cause
from ict.data.user.array_cache import cache_folder
from ict.networks.onnx_graph import graph_of, package, runtime

INPUT, OUTPUT = "prepared", "features"
PREPARATION, LICENCE = "ict.preparation", "ict.licence"  # keys of a model's metadata
_TOLERANCE = 1e-3  # of a feature, in units of the largest where that is above 1
RUNTIME = "onnxruntime"  # onnx alone would run such networks too, but much too slowly
_DIGEST = hashlib.sha256().digest_size


def check_packages() -> None:
    """A UserError if a package is missing that a conversion needs."""
    for name in ("onnx", "onnxscript", RUNTIME):
        package(name)


def convert(network: nn.Module, preparation: Preparation, licence: str) -> bytes:
    """A network that takes prepared items, as a model that names its preparation."""
    check_packages()
    axes = {0: "batch"} | ({1: "length"} if not isinstance(preparation, Pixels) else {})
    try:
        proto = graph_of(network, preparation.example, INPUT, [OUTPUT], axes)
    except UserError:
        raise
    except Exception as problem:  # torch's exporter raises nearly anything for a network that it does not understand
        raise UserError(f"this backbone cannot be converted to ONNX ({cause(problem)}): use it as it is.") from None
    model = described(proto, preparation, licence)
    with torch.no_grad():
        wanted = network(torch.from_numpy(preparation.example)).numpy()
    difference = np.abs(runtime(model, INPUT)[0](preparation.example)[0] - wanted).max()
    if not difference <= _TOLERANCE * max(np.abs(wanted).max(), 1.0):
        raise UserError(f"this backbone gives other features as ONNX (by {difference:.1e}): use it as it is.")
    return model


def described(proto: Any, preparation: Preparation, licence: str) -> bytes:
    """A model's bytes with its preparation and its licence in the metadata."""
    proto.doc_string = f"A backbone, converted by ict {__version__}."
    package("onnx").helper.set_model_props(proto, {PREPARATION: preparation.to_json(), LICENCE: licence})
    written: bytes = proto.SerializeToString()
    return written


def once(digest: str, make: Callable[[], bytes]) -> bytes:
    """The result of `make` for the weights with this hash, from the cache if it is there and intact."""
    folder = cache_folder()
    if folder is None:
        return make()
    key = hashlib.sha256("\n".join([digest, __version__, version("torch"), version("onnxscript")]).encode()).hexdigest()
    path = folder / "backbones" / key
    try:
        content = path.read_bytes()
        if hashlib.sha256(content[_DIGEST:]).digest() == content[:_DIGEST]:
            return content[_DIGEST:]
    except OSError:
        pass
    made = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, hashlib.sha256(made).digest() + made)
    except OSError:
        pass  # without a cache the conversion is only repeated next time
    return made
