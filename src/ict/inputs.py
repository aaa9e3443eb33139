"""From arrays as users have them to what a network gets: one layout, one scale; as data, so that it can be saved."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ict.errors import UserError

Array = NDArray[Any]
_FEW = (1, 2, 3, 4)  # channels


@dataclass(frozen=True)
class ArrayInputs:
    """Examples of one shape to float32 [n, features] or [n, c, h, w] with zero mean and unit deviation."""

    shape: tuple[int, ...]  # of one example, as users have it
    channels_last: bool
    mean: list[float]  # one number, or one for each feature
    std: list[float]

    def __call__(self, x: Array) -> Array:
        if x.shape[1:] != self.shape:
            raise ValueError(f"X has examples of the shape {x.shape[1:]}, but fit saw {self.shape}.")
        x = channels_first(x, self.channels_last)
        mean, std = (np.array(v) if len(v) > 1 else v[0] for v in (self.mean, self.std))
        return np.ascontiguousarray(((x - mean) / std).astype(np.float32))


def fit_inputs(x: Array) -> ArrayInputs:
    """By one number where features share a range, as pixels do, else for each feature."""
    if x.ndim not in (2, 3, 4):
        raise UserError(f"X has the shape {x.shape}: it must be [n, features] or images [n, h, w(, c)].")
    values = x.astype(np.float64)
    shared = x.ndim > 2 or _one_range(values)
    mean, std = (
        np.atleast_1d(v) for v in ((values.mean(), values.std()) if shared else (values.mean(0), values.std(0)))
    )
    std = np.where(std > 0, std, 1.0)  # a constant feature stays at zero
    return ArrayInputs(tuple(x.shape[1:]), _channels_last(x), mean.tolist(), std.tolist())


def channels_first(x: Array, channels_last: bool | None = None) -> Array:
    """Gray images [n, h, w] and images [n, h, w, c] as [n, c, h, w]; where c stands is found out unless told."""
    if x.ndim == 3:
        return x[:, None]
    last = _channels_last(x) if channels_last is None else channels_last
    return np.moveaxis(x, 3, 1) if last else x


def _channels_last(x: Array) -> bool:
    return x.ndim == 4 and x.shape[3] in _FEW and x.shape[1] not in _FEW


def _one_range(x: Array) -> bool:
    """Whether the features look like values on one scale: the same smallest value for most, similar largest ones."""
    low, high = x.min(0), x.max(0)
    varied = high > low
    if varied.sum() < 8:
        return False
    low, high = low[varied], high[varied]
    return bool(np.mean(low == np.median(low)) > 0.5 and np.median(high - low) > 0.5 * (high - low).max())
