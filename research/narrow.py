"""CNN-13 an eighth as wide and in bfloat16, to compare settings on a CPU: a variant of research/tune.py that sets
network=narrow:Narrow trains it. What is better here need not be better at full width.
"""

import torch
from torch import Tensor, nn

from ict.networks.batch_norm import BatchNorm2d
from ict.networks.staged import GlobalMean


class Narrow(nn.Module):
    """The layers of CNN-13 without weight norm, their channels divided by `divisor`."""

    def __init__(self, shape: tuple[int, ...], n_classes: int, *, divisor: int = 8) -> None:
        super().__init__()
        n, wide, wider = (channels // divisor for channels in (128, 256, 512))
        self.layers = nn.Sequential(
            *(*_conv(shape[0], n, 3, 1), *_conv(n, n, 3, 1), *_conv(n, n, 3, 1), nn.MaxPool2d(2)),
            *(*_conv(n, wide, 3, 1), *_conv(wide, wide, 3, 1), *_conv(wide, wide, 3, 1), nn.MaxPool2d(2)),
            *(*_conv(wide, wider, 3), *_conv(wider, wide, 1), *_conv(wide, n, 1), GlobalMean()),
            nn.Linear(n, n_classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            logits: Tensor = self.layers(x.contiguous(memory_format=torch.channels_last))
        return logits.float()


def _conv(n_in: int, n_out: int, kernel: int, padding: int = 0) -> tuple[nn.Module, ...]:
    return nn.Conv2d(n_in, n_out, kernel, padding=padding), BatchNorm2d(n_out), nn.LeakyReLU(0.1)
