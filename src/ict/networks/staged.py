"""Networks as a chain of stages, and small layers that they share."""

from torch import Tensor, nn

from ict.base.errors import UserError
from ict.contract import Tap


class Staged(nn.Module):
    """Stages run in order. Before stage i a tap gets its input, for i = 0 the network's, and may replace it.

    No stage changes its input in place, so a tap may keep it.
    """

    def __init__(self, *stages: nn.Module) -> None:
        super().__init__()
        self.stages = nn.ModuleList(stages)

    def forward(self, x: Tensor, tap: Tap | None = None) -> Tensor:
        for i, stage in enumerate(self.stages):
            if tap is not None:
                x = tap(i, x)
            x = stage(x)
        return x

    @property
    def n_stages(self) -> int:
        return len(self.stages)

    def features(self, x: Tensor) -> Tensor:
        """The input of the last stage: head(features(x)) is forward(x), bit for bit."""
        for stage in list(self.stages)[:-1]:
            x = stage(x)
        return x

    def head(self, h: Tensor) -> Tensor:
        """The last stage alone: features to logits."""
        logits: Tensor = self.stages[-1](h)
        return logits


class GlobalMean(nn.Module):
    """[B, C, H, W] to [B, C]. Not AdaptiveAvgPool2d, which has no deterministic backward on CUDA."""

    def forward(self, x: Tensor) -> Tensor:
        if x.is_cuda:
            return x.mean((2, 3))
        # The same bits in float32. The gradient of `mean` is not in the layout of x, which slows the layer before it.
        return x.sum((2, 3)) / (x.shape[2] * x.shape[3])


def drop(p: float) -> nn.Dropout:
    """A dropout layer; at p = 0 it changes nothing and draws nothing."""
    if not 0 <= p < 1:
        raise UserError(f"dropout is {p}: it must be at least 0 and below 1.")
    return nn.Dropout(p)


def image_channels(network: str, shape: tuple[int, ...], smallest: int = 1) -> int:
    """The number of channels of images [C, H, W]; a UserError for other inputs or sides below `smallest`."""
    if len(shape) != 3:
        raise UserError(f"{network} takes images [C, H, W], not inputs of shape {list(shape)}: use mlp-wide.")
    channels, *size = shape
    if min(size) < smallest:
        height, width = size
        raise UserError(
            f"{network} takes images of at least {smallest}x{smallest}, not {height}x{width}: use mlp-wide."
        )
    return channels
