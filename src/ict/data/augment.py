"""Random shifts and flips of a batch of images, in pixel space: the same tensor code on any device."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ict.contract import Draws


def shift_and_flip(images: Tensor, rng: Draws, *, pad: int, reflect: bool = False, flip: bool = False) -> Tensor:
    """Pad by `pad` pixels, cut out the original size at a random place, mirror half of the images. [B, C, H, W]."""
    if pad == 0 and not flip:
        return images
    n, n_channels, height, width = images.shape
    examples, channels, rows, columns = (
        torch.arange(size, device=images.device) for size in (n, n_channels, height, width)
    )
    rows, columns = rows.expand(n, height), columns.expand(n, width)
    if pad:
        rows = rows + rng.integers(2 * pad + 1, n)[:, None]
        columns = columns + rng.integers(2 * pad + 1, n)[:, None]
    if flip:
        columns = torch.where(rng.uniform(n)[:, None] < 0.5, columns.flip(1), columns)
    padded = _reflect(images, pad) if reflect else F.pad(images, (pad, pad, pad, pad))
    return padded[
        examples[:, None, None, None],
        channels[None, :, None, None],
        rows[:, None, :, None],
        columns[:, None, None, :],
    ]


def _reflect(images: Tensor, pad: int) -> Tensor:
    # F.pad reflects floating-point images only
    rows, columns = (_mirrored(size, pad, images.device) for size in images.shape[-2:])
    return images[:, :, rows[:, None], columns[None, :]]


def _mirrored(size: int, pad: int, device: torch.device) -> Tensor:
    """-pad, ..., size + pad - 1 folded back into 0, ..., size - 1 at both ends."""
    index = torch.arange(-pad, size + pad, device=device).abs()
    return torch.where(index < size, index, 2 * (size - 1) - index)
