"""Random shifts and flips of a batch of images, with the same tensor code on all devices."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ict.contract import Draws


def mirrored(n: int, rng: Draws) -> Tensor:
    """Choose which of n images to mirror, each with probability one half."""
    return rng.uniform(n) < 0.5


def shift_and_flip(
    images: Tensor, rng: Draws, *, pad: int, reflect: bool = False, flip: bool | Tensor = False
) -> Tensor:
    """Pad by `pad` pixels, crop the original size at a random position, mirror half of the images. [B, C, H, W].

    `flip` may be a result of `mirrored`: which images to mirror.
    """
    if pad == 0 and flip is False:
        return images
    n, n_channels, height, width = images.shape
    examples, channels, rows, columns = (
        torch.arange(size, device=images.device) for size in (n, n_channels, height, width)
    )
    rows, columns = rows.expand(n, height), columns.expand(n, width)
    if pad:
        rows = rows + rng.integers(2 * pad + 1, n)[:, None]
        columns = columns + rng.integers(2 * pad + 1, n)[:, None]
    if flip is not False:
        which = mirrored(n, rng) if flip is True else flip
        columns = torch.where(which[:, None], columns.flip(1), columns)
    padded = _reflect(images, pad) if reflect else F.pad(images, (pad, pad, pad, pad))
    return padded[
        examples[:, None, None, None],
        channels[None, :, None, None],
        rows[:, None, :, None],
        columns[:, None, None, :],
    ]


def _reflect(images: Tensor, pad: int) -> Tensor:
    # F.pad can reflect only floating-point images
    rows, columns = (_folded(size, pad, images.device) for size in images.shape[-2:])
    return images[:, :, rows[:, None], columns[None, :]]


def _folded(size: int, pad: int, device: torch.device) -> Tensor:
    """The indices -pad, ..., size + pad - 1, reflected at both ends into 0, ..., size - 1."""
    index = torch.arange(-pad, size + pad, device=device).abs()
    return torch.where(index < size, index, 2 * (size - 1) - index)
