"""Turns users' arrays into network inputs with one layout and one scale. Plain data, so that it can be saved."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ict.base.array_types import Array
from ict.base.errors import UserError

_FEW = (1, 2, 3, 4)  # channels
TINY = 1e-12  # length below which an example is not scaled, so that it stays in the center
_EMBEDDED = 100  # the fewest features that may be those of a pretrained network
_SPREAD = 30.0  # largest ratio between deviations of features on one scale
_CHUNK = 2**24  # numbers converted to float64 at a time: memory may not hold all examples in that form


class BadExample(UserError):
    """An example from which nothing can be computed, and its row."""

    def __init__(self, row: int, name: str = "") -> None:
        what = name or f"example {row} of X"
        super().__init__(f"{what} has a value that is not finite or far too large: fix it or leave it out.")
        self.row = row


def check_finite(numbers: Array, start: int = 0) -> None:
    """A BadExample for the first row with a number that is not finite. `start`: the number of the first row."""
    finite = np.isfinite(numbers).reshape(len(numbers), -1).all(1)
    if not finite.all():
        raise BadExample(start + int(np.argmin(finite)))


@contextmanager
def by_name(names: Sequence[str]) -> Iterator[None]:
    """Call a bad example by its name instead of its row."""
    try:
        yield
    except BadExample as bad:
        raise BadExample(bad.row, names[bad.row]) from None


@dataclass(frozen=True)
class ArrayInputs:
    """Converts examples of one shape to float32 [n, features] or [n, c, h, w] with zero mean and unit deviation.

    Features of a pretrained network are centered instead, and every example is scaled to the same length.
    """

    shape: tuple[int, ...]  # of one example in the user's array
    channels_last: bool
    mean: list[float]  # one number, or one per feature
    std: list[float]
    same_length: bool = False
    blocks: tuple[int, ...] = ()  # numbers of features in each block that is scaled to one length; none: a single block

    def __post_init__(self) -> None:
        mean, std = np.asarray(self.mean, np.float64), np.asarray(self.std, np.float64)
        if not (np.isfinite(mean).all() and np.isfinite(std).all() and (std > 0).all()):
            raise UserError(
                "a mean or deviation of the inputs is not finite: the features may be too large for float64."
            )

    def __call__(self, x: Array) -> Array:
        if x.shape[1:] != self.shape:
            raise ValueError(f"X has examples of the shape {x.shape[1:]}, but the model was fitted to {self.shape}.")
        x = channels_first(x, self.channels_last)
        mean, std = (np.array(v) if len(v) > 1 else v[0] for v in (self.mean, self.std))
        scaled = np.empty(x.shape, np.float32)
        for rows in _slices(x):
            with np.errstate(over="ignore"):
                scaled[rows] = (x[rows] - mean) / std
            check_finite(scaled[rows], rows.start)
            if self.same_length:
                for block in self.block_slices:
                    part = scaled[rows, block]
                    with np.errstate(over="ignore"):
                        lengths = np.linalg.norm(part, axis=1, keepdims=True)
                    check_finite(lengths, rows.start)
                    part *= self.block_length / np.maximum(lengths, TINY)
        return scaled

    @property
    def shape_in_files(self) -> tuple[int, ...]:
        """The shape of an example as readers of files give it: images are [h, w] if gray, else [h, w, c]."""
        if len(self.shape) < 3:
            return self.shape
        *sides, channels = self.shape if self.channels_last else (*self.shape[1:], self.shape[0])
        return tuple(sides) if channels == 1 else (*sides, channels)

    def from_files(self, x: Array) -> Array:
        """Examples of that shape in the layout of the user's array."""
        if len(self.shape) < 3:
            return x
        x = x[..., None] if x.ndim == 3 else x
        return x if self.channels_last else np.moveaxis(x, 3, 1)

    @property
    def length(self) -> float:
        """The length that examples are scaled to, at which a feature's deviation is about 1."""
        return float(np.sqrt(self.shape[0]))

    @property
    def block_slices(self) -> tuple[slice, ...]:
        """The slice of each block's features."""
        ends = np.cumsum(self.blocks or self.shape[:1]).tolist()
        return tuple(slice(start, end) for start, end in zip([0, *ends], ends, strict=False))

    @property
    def block_length(self) -> float:
        """The length of an example's features in each block, the same for all, so that blocks weigh the same."""
        return self.length / float(np.sqrt(max(len(self.blocks), 1)))


def fit_features(x: Array, n_beside: int = 0) -> ArrayInputs:
    """The scaling of a backbone's features, followed by `n_beside` pixels with the same weight."""
    blocks = (x.shape[1] - n_beside, n_beside) if n_beside else ()
    return ArrayInputs(tuple(x.shape[1:]), False, _moments(x, 0)[0].tolist(), [1.0], True, blocks)


def fit_inputs(x: Array, units: Sequence[float] = ()) -> ArrayInputs:
    """Fit the scaling: one mean and deviation if the features share a range, as pixels do, else one per feature.

    Features of a pretrained network have a scaling of their own. `units`: for each feature what to take for its
    deviation, 0 where the rows say it.
    """
    if x.ndim not in (2, 3, 4):
        raise UserError(f"X has the shape {x.shape}: it must be [n, features] or images [n, h, w(, c)].")
    if _embedded(x):
        return fit_features(x)
    fixed = np.asarray(units, np.float64)
    axis = None if not fixed.any() and (x.ndim > 2 or _one_range(x)) else 0
    with np.errstate(over="ignore", invalid="ignore"):
        mean, std = map(np.atleast_1d, _moments(x, axis))
    if fixed.any():
        std = np.where(fixed > 0, fixed, std)
    std = np.where(std > 0, std, 1.0)  # a constant feature stays at zero
    return ArrayInputs(tuple(x.shape[1:]), has_channels_last(x.shape), mean.tolist(), std.tolist())


def has_same_length(inputs: Array) -> bool:
    """Whether scaled inputs are features of a pretrained network, all of one length."""
    if inputs.ndim != 2 or inputs.shape[1] < _EMBEDDED:
        return False
    if len(np.unique(inputs[:1])) <= inputs.shape[1] // 2:  # such as a table of categories, one of each in every row
        return False
    lengths = np.linalg.norm(inputs.astype(np.float64), axis=1)
    lengths = lengths[lengths > 0]  # an example in the center stays there
    return bool(len(lengths)) and bool(lengths.max() - lengths.min() < 1e-3 * lengths.max())


def channels_first(x: Array, channels_last: bool | None = None) -> Array:
    """Images [n, h, w] or [n, h, w, c] as [n, c, h, w]. `channels_last` None: decided from the shape."""
    if x.ndim == 3:
        return x[:, None]
    last = has_channels_last(x.shape) if channels_last is None else channels_last
    return np.moveaxis(x, 3, 1) if last else x


def has_channels_last(shape: tuple[int, ...]) -> bool:
    """Whether an array of this shape holds images [n, h, w, c]. If both axes could be channels, they come first."""
    return len(shape) == 4 and shape[3] in _FEW and shape[1] not in _FEW


def _moments(x: Array, axis: int | None) -> tuple[Array, Array]:
    """Mean and deviation of everything or per feature. For arrays of one chunk, the same bits as NumPy's."""
    count = x.size if axis is None else len(x)
    mean = sum(x[rows].astype(np.float64).sum(axis) for rows in _slices(x)) / count
    squares = sum(np.square(x[rows].astype(np.float64) - mean).sum(axis) for rows in _slices(x))
    return mean, np.sqrt(squares / count)


def _slices(x: Array) -> Iterator[slice]:
    step = max(_CHUNK // max(x[:1].size, 1), 1)
    return (slice(start, start + step) for start in range(0, len(x), step))


def _one_range(x: Array) -> bool:
    """Whether the features seem to share a scale: most have the same smallest value, and similar largest ones."""
    low, high = x.min(0).astype(np.float64), x.max(0).astype(np.float64)
    varied = high > low
    if varied.sum() < 8:
        return False
    low, high = low[varied], high[varied]
    return bool(np.mean(low == np.median(low)) > 0.5 and np.median(high - low) > 0.5 * (high - low).max())


def _embedded(x: Array) -> bool:
    """Whether the features look like those of a pretrained network: many, with fractions, on one scale."""
    if x.ndim != 2 or x.shape[1] < _EMBEDDED or x.dtype.kind != "f" or len(x) < 2:
        return False
    some = x[:: max(len(x) // 1000, 1)].astype(np.float64)
    with np.errstate(over="ignore"):
        varied = np.ptp(some, axis=0) > 0
    if varied.mean() < 0.5:
        return False
    some = some[:, varied]
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = np.quantile(some.std(axis=0), [0.05, 0.95])
    return bool(np.median((some != np.round(some)).mean(axis=0)) > 0.2 and high < _SPREAD * low)
