"""A network from the caller's own code: `torch:module:factory`, which only a command line or Python may name."""

import torch
from torch import nn

from ict.backbones import BACKBONES
from ict.backbones.preparation import Pixels
from ict.backbones.torch_backbone import TorchBackbone, state_digest
from ict.base.errors import UserError
from ict.base.reading import cause
from ict.base.registry import is_outside


def open_factory(spec: str, device: torch.device) -> TorchBackbone:
    """`factory()` returns a module whose attribute `preprocessing` is a dict of size, scale, mean and std."""
    name = f"torch:{spec}"
    if not is_outside(spec):
        raise UserError(f"backbone {name} names no function: write torch:module:factory.")
    factory = BACKBONES.resolve(spec)
    try:
        network = factory()
    except Exception as problem:
        raise UserError(f"backbone {name} cannot be made ({cause(problem)}): repair {spec}.") from problem
    if not isinstance(network, nn.Module):
        raise UserError(f"backbone {name} returns {type(network).__name__}: it must return a torch.nn.Module.")
    values = getattr(network, "preprocessing", None)
    if not isinstance(values, dict):
        raise UserError(
            f"backbone {name} does not say how its input is prepared: give the module an attribute preprocessing, "
            'such as {"size": 224, "scale": 255, "mean": [...], "std": [...]}.'
        )
    preparation = Pixels.from_dict(values, f"preprocessing of {name}")
    return TorchBackbone(
        name, f"{type(network).__qualname__} {state_digest(network)}", "your own", preparation, network, device
    )
