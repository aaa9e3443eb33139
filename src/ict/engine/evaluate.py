"""The error of a network, and its confidence in its predictions."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ict.base.rng import Rng
from ict.data.dataset import Examples
from ict.engine.input_transform import InputTransform


@torch.no_grad()
def error(
    network: nn.Module,
    examples: Examples,
    transform: InputTransform,
    batch: int,
    rng: Rng | None = None,
    run: Callable[[Tensor], Tensor] | None = None,
) -> float:
    """The fraction of `examples` that the network, in eval mode, classifies wrongly. Its mode is restored.

    `run`, if given, is called instead of the network.
    """
    device = next(network.parameters()).device
    wrong = torch.zeros((), dtype=torch.int64, device=device)
    with eval_mode(network):
        for x, y in zip(examples.x.split(batch), examples.y.split(batch), strict=True):
            wrong += ((run or network)(transform(x.to(device), rng)).argmax(1) != y.to(device)).sum()
    return wrong.item() / len(examples)


@torch.no_grad()
def confidence(network: nn.Module, inputs: Tensor, transform: InputTransform, batch: int) -> float:
    """The mean over `inputs` of the largest class probability of the network in eval mode."""
    device = next(network.parameters()).device
    total = torch.zeros((), dtype=torch.float64, device=device)
    with eval_mode(network):
        for x in inputs.split(batch):
            total += network(transform(x.to(device))).softmax(1).amax(1).double().sum()
    return total.item() / len(inputs)


@contextmanager
def eval_mode(network: nn.Module) -> Iterator[None]:
    """Inside, the network is in eval mode; each of its modules is in its own mode again afterwards."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
