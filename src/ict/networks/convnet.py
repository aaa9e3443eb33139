"""A small convolutional network for tiny images, from 4x4 up to about 32x32."""

from torch import nn
from torch.nn import Conv2d

from ict.base.fields import at_most, positive
from ict.networks.batch_norm import BatchNorm2d
from ict.networks.staged import GlobalMean, Staged, drop, image_channels

_SLOPE = 0.1


class ConvNet(Staged):
    """Two pairs of convolutions with pooling between them. Stages end before the activation, as in CNN-13."""

    def __init__(self, shape: tuple[int, ...], n_classes: int, *, width: int = 32, dropout: float = 0.0) -> None:
        channels = image_channels("convnet", shape, smallest=4)
        positive(width=width)
        at_most(10_000, width=width)
        super().__init__(
            nn.Sequential(*_pair(channels, width)),
            nn.Sequential(nn.LeakyReLU(_SLOPE), nn.MaxPool2d(2), drop(dropout), *_pair(width, 2 * width)),
            nn.Sequential(nn.LeakyReLU(_SLOPE), GlobalMean()),
            nn.Linear(2 * width, n_classes),
        )


def _pair(n_in: int, n_out: int) -> tuple[nn.Module, ...]:
    return *_conv(n_in, n_out), nn.LeakyReLU(_SLOPE), *_conv(n_out, n_out)


def _conv(n_in: int, n_out: int) -> tuple[nn.Module, ...]:
    # No bias: batch norm would cancel it.
    return Conv2d(n_in, n_out, 3, padding=1, bias=False), BatchNorm2d(n_out)
