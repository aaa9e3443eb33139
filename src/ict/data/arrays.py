"""A dataset from a user's own arrays, checked so that a mistake in them is an error, not a bad accuracy."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ict.base.errors import UserError
from ict.data.dataset import Dataset, Examples
from ict.data.labels import UNLABELED

ArrayLike = NDArray[Any] | Tensor


def from_arrays(
    x: ArrayLike,
    y: ArrayLike,
    *,
    valid: tuple[ArrayLike, ArrayLike] | None = None,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    classes: Sequence[str] | None = None,
) -> Dataset:
    """A dataset from images [N, C, H, W] or features [N, F] and labels 0, 1, ..., -1 where unknown.

    It shares memory with the arrays if possible.
    """
    inputs, labels = _inputs(x, "x"), _labels(y, "y")
    _same_length(inputs, labels, "x", "y")
    if (labels < UNLABELED).any():
        raise UserError(f"y has the label {labels.min()}: labels are 0, 1, ..., and -1 where unknown.")
    labeled = np.flatnonzero(labels >= 0)
    if len(labeled) == 0:
        raise UserError("y has no labeled example: give at least one row of each class a label of 0 or more.")
    names = tuple(map(str, range(labels.max() + 1))) if classes is None else tuple(classes)
    if labels.max() >= len(names):
        raise UserError(f"y has the label {labels.max()}, but classes names only {len(names)}, from label 0 on.")
    missing = np.setdiff1d(np.arange(len(names)), labels)
    if missing.size:
        raise UserError(f"class {missing[0]} of {len(names)} has no labeled example in y: label one or renumber.")
    return Dataset(
        train=_examples(inputs, labels),
        test=_examples(inputs[:0], labels[:0]) if test is None else _held_out("test", test, inputs, len(names)),
        classes=names,
        labeled_rows=torch.from_numpy(labeled),
        valid=None if valid is None else _held_out("valid", valid, inputs, len(names)),
    )


def _held_out(name: str, pair: tuple[ArrayLike, ArrayLike], train: NDArray[Any], n_classes: int) -> Examples:
    x, y = _inputs(pair[0], f"{name} x"), _labels(pair[1], f"{name} y")
    _same_length(x, y, f"{name} x", f"{name} y")
    if (x.dtype, x.shape[1:]) != (train.dtype, train.shape[1:]):
        raise UserError(
            f"{name} x holds {x.dtype} {x.shape[1:]} but x {train.dtype} {train.shape[1:]}: make them alike."
        )
    wrong = y[(y < 0) | (y >= n_classes)]
    if wrong.size:
        raise UserError(f"{name} y has the label {wrong[0]}: it must lie in 0 to {n_classes - 1}.")
    return _examples(x, y)


def _inputs(x: ArrayLike, name: str) -> NDArray[Any]:
    """uint8 unchanged, all other numbers as float32."""
    array = _numpy(x)
    if array.dtype.kind not in "buif" or array.ndim not in (2, 4) or 0 in array.shape[1:]:
        raise UserError(f"{name} is {array.dtype} {array.shape}: it must be numbers as [N, C, H, W] or [N, F].")
    if array.dtype != np.uint8:
        with np.errstate(over="ignore"):  # numbers too large for float32 become infinite, an error below
            array = array.astype(np.float32, copy=False)
        bad = ~np.isfinite(array).all(axis=tuple(range(1, array.ndim)))
        if bad.any():
            raise UserError(f"{name} has NaN or infinity in row {bad.argmax()}: replace it or leave the row out.")
    return array


def _labels(y: ArrayLike, name: str) -> NDArray[np.int64]:
    array = _numpy(y)
    if array.dtype.kind not in "ui" or array.ndim != 1:
        raise UserError(f"{name} is {array.dtype} {array.shape}: it must be whole numbers [N].")
    return array.astype(np.int64, copy=False)


def _same_length(x: NDArray[Any], y: NDArray[Any], x_name: str, y_name: str) -> None:
    if len(x) != len(y):
        raise UserError(f"{x_name} has {len(x)} rows but {y_name} has {len(y)}: make them equally long.")


def _numpy(value: ArrayLike) -> NDArray[Any]:
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return (value.float() if value.is_floating_point() else value).numpy()  # numpy has no bfloat16
    return np.asarray(value)


def _examples(x: NDArray[Any], y: NDArray[np.int64]) -> Examples:
    return Examples(_tensor(x), _tensor(y))


def _tensor(array: NDArray[Any]) -> Tensor:
    if min(array.strides) < 0:  # such as x[::-1]; torch has no negative strides
        array = array.copy()
    with warnings.catch_warnings():
        # A read-only memory map is fine: examples are never written to.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)
