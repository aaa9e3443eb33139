"""Networks of the timm library: `timm:NAME`, which timm downloads, or `timm:NAME@FILE` with weights from a file."""

import importlib
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ict.backbones.preparation import Pixels
from ict.backbones.torch_backbone import TorchBackbone, state_digest
from ict.base.errors import UserError
from ict.base.reading import cause, check_file


def open_network(spec: str, device: torch.device) -> TorchBackbone:
    model_name, _, file = spec.partition("@")
    name = f"timm:{spec}"
    try:
        timm = importlib.import_module("timm")
    except Exception as problem:  # it breaks in many ways where its own dependencies do not fit each other
        raise UserError(
            f"backbone {name} needs the package timm ({problem}): run `pip install timm torchvision`."
        ) from None
    try:
        network = timm.create_model(model_name, pretrained=not file, num_classes=0)
        if file:
            _load(network, _weights(Path(file)), file)
        config = timm.data.resolve_model_data_config(network)
    except UserError:
        raise
    except Exception as problem:  # a name it does not know, no connection, other weights
        raise UserError(f"backbone {name} cannot be opened ({cause(problem)}): check its name and its file.") from None
    size = min(config["input_size"][1:])
    values = {"size": size, "scale": 255, "mean": config["mean"], "std": config["std"]}
    licence = str((getattr(network, "pretrained_cfg", None) or {}).get("license") or "not stated by timm")
    preparation = Pixels.from_dict(values, f"timm's settings of {model_name}")
    return TorchBackbone(name, f"{model_name} {state_digest(network)}", licence, preparation, network, device)


def _load(network: nn.Module, weights: dict[str, Tensor], file: str) -> None:
    """Weights of the classifier, which was left out, are ignored; any that lack would be random."""
    if lacks := network.load_state_dict(weights, strict=False).missing_keys:
        raise UserError(f"{file} lacks {', '.join(lacks[:3])}: give weights that timm saved of this network.")


def _weights(path: Path) -> dict[str, Tensor]:
    """Safetensors, or a state dict that holds tensors alone: nothing is unpickled."""
    check_file(path)
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as problem:  # damaged files make both libraries raise nearly anything
        raise UserError(f"{path} holds no weights that can be read ({cause(problem)}): give safetensors.") from None
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise UserError(f"{path} is no state dict: give safetensors, or a file of tensors by name.")
    return found
