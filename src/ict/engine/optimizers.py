"""The optimizers that a recipe can name: torch's own, kept from loading torch's compiler.

Torch marks some methods of an optimizer as not to be compiled, and loads the whole compiler to say so: half of the time
from a command to its first update. The same methods without the mark do the same work.
"""

from inspect import unwrap
from typing import Any

import torch
from torch import nn

from ict.settings import Optimizer


def _unmarked(optimizer: type[torch.optim.Optimizer]) -> dict[str, Any]:
    plain: dict[str, Any] = {
        name: unwrap(getattr(optimizer, name))
        for name in ("add_param_group", "zero_grad", "state_dict", "load_state_dict", "step")
    }
    return plain | {"step": torch.no_grad()(plain["step"])}


SGD: type[torch.optim.SGD] = type("SGD", (torch.optim.SGD,), _unmarked(torch.optim.SGD))
Adam: type[torch.optim.Adam] = type("Adam", (torch.optim.Adam,), _unmarked(torch.optim.Adam))


def make_optimizer(network: nn.Module, settings: Optimizer) -> torch.optim.Optimizer:
    parameters = [p for p in network.parameters() if p.requires_grad]
    if settings.name == "adam":
        betas = (settings.momentum, settings.beta2)
        return Adam(parameters, settings.lr, betas, weight_decay=settings.weight_decay)
    return SGD(
        parameters,
        settings.lr,
        momentum=settings.momentum,
        nesterov=settings.nesterov,
        weight_decay=settings.weight_decay,
    )
