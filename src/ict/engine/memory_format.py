"""Channels last on a CPU: convolutions and batch norm are about 1.3 times as fast with this memory layout."""

import torch
from torch import Tensor, nn

from ict.networks.staged import Staged


def channels_last(x: Tensor) -> Tensor:
    """Images or a convolution's weights in channels-last layout, even with one channel, which torch would not change.

    With a single channel both layouts have the same memory and differ only in strides; a convolution uses these to
    choose the layout of its output.
    """
    return torch.empty_like(x, memory_format=torch.channels_last).copy_(x) if x.dim() == 4 else x


def lay_out(network: nn.Module) -> nn.Module:
    """The network with its convolutions on a CPU in channels-last layout, if it supports that.

    The fast step on a GPU has its own layout.
    """
    if takes_any_layout(network):
        for module in network.modules():
            if isinstance(module, nn.Conv2d):
                for parameter in module.parameters(recurse=False):
                    if parameter.device.type == "cpu":
                        parameter.data = channels_last(parameter.data)
    return network


def takes_any_layout(network: nn.Module) -> bool:
    """Whether a network supports any layout, as ours do. Another's forward may call `view`, which needs the default."""
    return isinstance(network, Staged)
