"""How a network uses a CPU's memory: channels last, which makes convolutions faster, and with fewer new tensors."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ict.networks.staged import Staged


def channels_last(x: Tensor) -> Tensor:
    """Images or a convolution's weights in channels-last layout, even with one channel, which torch would not change.

    With a single channel both layouts have the same memory and differ only in strides; a convolution uses these to
    choose the layout of its output.
    """
    return torch.empty_like(x, memory_format=torch.channels_last).copy_(x) if x.dim() == 4 else x


def lay_out(network: nn.Module) -> nn.Module:
    """The network with its convolutions on a CPU in channels-last layout, if it supports that.

    An activation after a batch norm overwrites the norm's output, which nothing else reads: that changes no bits. The
    fast step on a GPU has its own layout.
    """
    if takes_any_layout(network) and all(parameter.device.type == "cpu" for parameter in network.parameters()):
        for module in network.modules():
            if isinstance(module, nn.Conv2d):
                for parameter in module.parameters(recurse=False):
                    parameter.data = channels_last(parameter.data)
            elif isinstance(module, nn.Sequential):
                for norm, activation in pairwise(module):
                    if isinstance(norm, _BatchNorm) and isinstance(activation, nn.LeakyReLU | nn.ReLU):
                        activation.inplace = True
    return network


def takes_any_layout(network: nn.Module) -> bool:
    """Whether a network supports any layout, as ours do. Another's forward may call `view`, which needs the default."""
    return isinstance(network, Staged)
