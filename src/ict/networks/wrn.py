"""Wide residual networks with pre-activation blocks, in two variants that differ in many details.

"authors" is the network in the paper's code; "oliver" is the one of Oliver et al.'s comparison.
"""

from math import sqrt
from typing import Literal, NamedTuple

from torch import Tensor, nn
from torch.nn import Conv2d

from ict.base.errors import UserError
from ict.base.fields import at_most, check, positive
from ict.networks.batch_norm import BatchNorm2d
from ict.networks.staged import GlobalMean, Staged, drop, image_channels

Variant = Literal["authors", "oliver"]


class Style(NamedTuple):
    """The differences between the variants, apart from the initial weights."""

    bias: bool  # of the convolutions
    slope: float  # of LeakyReLU
    momentum: float  # of batch norm, in PyTorch's convention
    final_momentum: float  # of the last batch norm
    stride_first: bool  # a block's stride is on its first 3x3 convolution, else on its second
    activate_shortcut: bool  # the first group's shortcut convolution gets the activated input, not the raw one


STYLES: dict[Variant, Style] = {
    "authors": Style(True, 0.01, 0.1, 0.9, stride_first=False, activate_shortcut=False),
    "oliver": Style(False, 0.1, 0.001, 0.001, stride_first=True, activate_shortcut=True),
}


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut, which is a 1x1 convolution if the shape changes."""

    def __init__(self, n_in: int, n_out: int, stride: int, dropout: float, style: Style) -> None:
        super().__init__()
        reshapes = n_in != n_out or stride != 1
        first, second = (stride, 1) if style.stride_first else (1, stride)
        self.activate = nn.Sequential(*_activation(n_in, style.momentum, style.slope))
        self.residual = nn.Sequential(
            _conv(n_in, n_out, 3, first, style.bias),
            drop(dropout),
            *_activation(n_out, style.momentum, style.slope),
            _conv(n_out, n_out, 3, second, style.bias),
        )
        self.shortcut = _conv(n_in, n_out, 1, stride, style.bias) if reshapes else nn.Identity()
        self.activate_shortcut = reshapes and style.activate_shortcut

    def forward(self, x: Tensor) -> Tensor:
        h = self.activate(x)
        total: Tensor = self.residual(h) + self.shortcut(h if self.activate_shortcut else x)
        return total


class WideResNet(Staged):
    """Stages: stem and first group; second group; third group; activation and mean; linear layer."""

    def __init__(
        self,
        shape: tuple[int, ...],
        n_classes: int,
        *,
        variant: Variant = "authors",
        depth: int = 28,
        width: int = 2,
        dropout: float = 0.0,
    ) -> None:
        channels = image_channels("wrn-28-2", shape)
        positive(width=width)
        at_most(1_000, width=width, depth=depth)
        blocks, rest = divmod(depth - 4, 6)
        if rest or blocks < 1:
            raise UserError(f"depth is {depth}: it must be 6 n + 4 with n of at least 1, such as 28.")
        style = STYLES[check(variant, Variant, "variant")]
        later = style._replace(activate_shortcut=False)

        def group(n_in: int, n_out: int, stride: int, style: Style) -> list[Block]:
            rest = (Block(n_out, n_out, 1, dropout, style) for _ in range(blocks - 1))
            return [Block(n_in, n_out, stride, dropout, style), *rest]

        super().__init__(
            nn.Sequential(_conv(channels, 16, 3, 1, style.bias), *group(16, 16 * width, 1, style)),
            nn.Sequential(*group(16 * width, 32 * width, 2, later)),
            nn.Sequential(*group(32 * width, 64 * width, 2, later)),
            nn.Sequential(*_activation(64 * width, style.final_momentum, style.slope), GlobalMean()),
            nn.Linear(64 * width, n_classes),
        )
        if variant == "oliver":
            self.apply(_initialise)


def _conv(n_in: int, n_out: int, kernel: int, stride: int, bias: bool) -> Conv2d:
    return Conv2d(n_in, n_out, kernel, stride, padding=kernel // 2, bias=bias)


def _activation(n: int, momentum: float, slope: float) -> tuple[nn.Module, ...]:
    return BatchNorm2d(n, momentum=momentum), nn.LeakyReLU(slope)


def _initialise(module: nn.Module) -> None:
    """Oliver et al.'s initial weights: He by fan-out for convolutions, Glorot for the linear layer."""
    if isinstance(module, nn.Conv2d):
        fan_out = module.weight[:, 0].numel()
        nn.init.normal_(module.weight, std=sqrt(2 / fan_out))
    elif isinstance(module, nn.Linear):
        nn.init.xavier_normal_(module.weight)
        nn.init.zeros_(module.bias)
