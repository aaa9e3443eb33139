"""CNN-13, the network of the paper's first two tables.

A stage ends with the batch norm of a block's third convolution, before its LeakyReLU: a tap between two
blocks sees normalised values of both signs.
"""

from torch import nn
from torch.nn.utils import parametrizations

from ict.networks.staged import GlobalMean, Staged, drop, image_channels

_SLOPE = 0.1


class CNN13(Staged):
    """Three blocks of three convolutions; the last block narrows to 128 features."""

    def __init__(
        self, shape: tuple[int, ...], n_classes: int, *, weight_norm: bool = True, dropout: float = 0.0
    ) -> None:
        channels = image_channels("cnn13", shape, smallest=12)  # so that 3x3 reaches the unpadded convolution
        super().__init__(
            nn.Sequential(*_wide(channels, 128)),
            nn.Sequential(*_pool(dropout), *_wide(128, 256)),
            nn.Sequential(*_pool(dropout), *_narrowing()),
            nn.Sequential(nn.LeakyReLU(_SLOPE), GlobalMean()),
            nn.Linear(128, n_classes),
        )
        if weight_norm:
            for layer in [m for m in self.modules() if isinstance(m, nn.Conv2d | nn.Linear)]:
                parametrizations.weight_norm(layer)


def _wide(n_in: int, n: int) -> tuple[nn.Module, ...]:
    return (
        *_conv(n_in, n, 3, padding=1),
        nn.LeakyReLU(_SLOPE),
        *_conv(n, n, 3, padding=1),
        nn.LeakyReLU(_SLOPE),
        *_conv(n, n, 3, padding=1),
    )


def _narrowing() -> tuple[nn.Module, ...]:
    return (
        *_conv(256, 512, 3),
        nn.LeakyReLU(_SLOPE),
        *_conv(512, 256, 1),
        nn.LeakyReLU(_SLOPE),
        *_conv(256, 128, 1),
    )


def _conv(n_in: int, n_out: int, kernel: int, padding: int = 0) -> tuple[nn.Module, ...]:
    return nn.Conv2d(n_in, n_out, kernel, padding=padding), nn.BatchNorm2d(n_out)


def _pool(dropout: float) -> tuple[nn.Module, ...]:
    return nn.LeakyReLU(_SLOPE), nn.MaxPool2d(2), drop(dropout)
