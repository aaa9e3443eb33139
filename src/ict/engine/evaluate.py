"""The share of wrong predictions."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ict.data.dataset import Examples
from ict.engine.view import View
from ict.rng import Rng


@torch.no_grad()
def error(
    network: nn.Module,
    examples: Examples,
    view: View,
    batch: int,
    rng: Rng | None = None,
    run: Callable[[Tensor], Tensor] | None = None,
) -> float:
    """The fraction of `examples` that the network, in eval mode, gets wrong; its mode is left as it was.

    `run` is another way to run it.
    """
    modes = [(module, module.training) for module in network.modules()]
    device = next(network.parameters()).device
    network.eval()
    wrong = torch.zeros((), dtype=torch.int64, device=device)
    for x, y in zip(examples.x.split(batch), examples.y.split(batch), strict=True):
        wrong += ((run or network)(view(x.to(device), rng)).argmax(1) != y.to(device)).sum()
    for module, training in modes:
        module.training = training
    return wrong.item() / len(examples)
