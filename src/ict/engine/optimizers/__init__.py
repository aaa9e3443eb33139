"""The optimizers that a recipe can name; `Optimizer` in `engine/settings.py` lists the names and their options.

May import `base` and `engine.settings`.
"""

import torch
from torch import nn

from ict.engine.optimizers.muon import Muon
from ict.engine.optimizers.torch_optimizers import SGD, Adam
from ict.engine.settings import Optimizer


def make_optimizer(network: nn.Module, settings: Optimizer) -> torch.optim.Optimizer:
    parameters = [p for p in network.parameters() if p.requires_grad]
    if settings.name in ("adam", "adamw"):
        betas, apart = (settings.momentum, settings.beta2), settings.name == "adamw"
        decay = settings.weight_decay
        return Adam(parameters, settings.lr, betas, weight_decay=decay, decoupled_weight_decay=apart)
    options = {name: getattr(settings, name) for name in ("momentum", "nesterov", "weight_decay")}
    if settings.name == "muon":
        return Muon(parameters, settings.lr, ratio=settings.turn / settings.lr, **options)
    return SGD(parameters, settings.lr, **options)
