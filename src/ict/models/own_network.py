"""A user's own network in a model's folder: the import path of what makes it, which is tried before it is written.

The path is imported to load the folder only if the caller names it again.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ict.base.errors import UserError
from ict.base.reading import cause
from ict.networks import NETWORKS


def own_network(module: nn.Module, path: str | None = None) -> dict[str, Any]:
    """The description of a network whose weights are saved. `path`: "module:function" that makes it, else its class."""
    name = path or f"{type(module).__module__}:{type(module).__qualname__}"
    advice = "write a function in a module that returns such a network, and give its name, network='module:function'."
    try:
        made = make_own(name, NETWORKS.resolve(name))
    except Exception as problem:
        raise UserError(f"{name}() does not make the network again ({cause(problem)}): {advice}") from None
    if _shapes(made) != _shapes(module):
        raise UserError(f"{name}() makes a network with other weights than the one that was fitted: {advice}")
    return {"name": name, "arguments": []}


def make_own(name: str, make: Callable[..., Any]) -> nn.Module:
    """A new network; the random state stays as it is."""
    with torch.random.fork_rng(devices=[]):
        made = make()
    if not isinstance(made, nn.Module):
        raise UserError(f"{name} makes no network, but {type(made).__name__}: name what makes a torch module.")
    return made


def _shapes(module: nn.Module) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in module.state_dict().items()}
