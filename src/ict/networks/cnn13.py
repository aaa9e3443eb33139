"""CNN-13, the network of the paper's first two tables.

A stage ends with the batch norm of a block's third convolution, before its LeakyReLU. So a tap between two blocks
gets normalized values of both signs.
"""

from collections.abc import Callable
from typing import Literal

from torch import nn
from torch.nn import Conv2d
from torch.nn.utils import parametrizations

from ict.base.errors import UserError
from ict.base.fields import check, positive, share
from ict.networks.batch_norm import BatchNorm1d, BatchNorm2d, MeanOnlyBatchNorm
from ict.networks.staged import GlobalMean, Staged, drop, image_channels

_SLOPE = 0.1

Norm = Literal["batch", "mean-only"]
Layers = tuple[nn.Module, ...]
Conv = Callable[..., Layers]
"""conv(n_in, n_out, kernel, padding=0) returns a convolution and its norm."""


class CNN13(Staged):
    """Three blocks of three convolutions; the last block narrows to 128 features.

    norm="mean-only" is Laine & Aila's network: it subtracts the mean after every convolution and the linear layer, and
    does not divide by the deviation. `top_norm` puts batch norm on the logits, as Miyato et al. do for SVHN.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        n_classes: int,
        *,
        weight_norm: bool = True,
        dropout: float = 0.0,
        norm: Norm = "batch",
        norm_momentum: float = 0.1,  # the new batch's weight in a running statistic
        top_norm: bool = False,
    ) -> None:
        channels = image_channels("cnn13", shape, smallest=12)  # so that the unpadded convolution gets at least 3x3
        mean_only = check(norm, Norm, "norm") == "mean-only"
        momentum = check(norm_momentum, float, "norm_momentum")
        positive(norm_momentum=momentum)
        share(norm_momentum=momentum)
        if check(top_norm, bool, "top_norm") and mean_only:
            raise UserError(
                "top_norm is true: it needs norm=batch, since norm=mean-only already has a norm on the logits."
            )

        def conv(n_in: int, n_out: int, kernel: int, padding: int = 0) -> Layers:
            if mean_only:  # the norm cancels any bias, but Adam would let its rounding noise drift
                layer = Conv2d(n_in, n_out, kernel, padding=padding, bias=False)
                return layer, MeanOnlyBatchNorm(n_out, momentum)
            return Conv2d(n_in, n_out, kernel, padding=padding), BatchNorm2d(n_out, momentum=momentum)

        def last(n_in: int) -> nn.Module:
            linear = nn.Linear(n_in, n_classes, bias=not mean_only)
            if mean_only:
                return nn.Sequential(linear, MeanOnlyBatchNorm(n_classes, momentum))
            return nn.Sequential(linear, BatchNorm1d(n_classes, momentum=momentum)) if top_norm else linear

        super().__init__(
            nn.Sequential(*_wide(conv, channels, 128)),
            nn.Sequential(*_pool(dropout), *_wide(conv, 128, 256)),
            nn.Sequential(*_pool(dropout), *_narrowing(conv)),
            nn.Sequential(nn.LeakyReLU(_SLOPE), GlobalMean()),
            last(128),
        )
        layers = [m for m in self.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
        if mean_only:  # no layer rescales, so the initial weights must keep the deviation: torch's shrink it to 1e-5
            for layer in layers:
                nn.init.kaiming_normal_(layer.weight, a=_SLOPE)
        if weight_norm:
            for layer in layers:
                parametrizations.weight_norm(layer)


def _wide(conv: Conv, n_in: int, n: int) -> Layers:
    return (
        *conv(n_in, n, 3, padding=1),
        nn.LeakyReLU(_SLOPE),
        *conv(n, n, 3, padding=1),
        nn.LeakyReLU(_SLOPE),
        *conv(n, n, 3, padding=1),
    )


def _narrowing(conv: Conv) -> Layers:
    return (
        *conv(256, 512, 3),
        nn.LeakyReLU(_SLOPE),
        *conv(512, 256, 1),
        nn.LeakyReLU(_SLOPE),
        *conv(256, 128, 1),
    )


def _pool(dropout: float) -> Layers:
    return nn.LeakyReLU(_SLOPE), nn.MaxPool2d(2), drop(dropout)
