"""Labels as people write them: numbers or texts, with -1, None or NaN where a label is unknown."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ict.base.errors import UserError

UNLABELED = -1


class Encoded(NamedTuple):
    labels: NDArray[np.int64]  # indices into classes, -1 where unknown
    classes: NDArray[Any]  # sorted


def encode(y: Any, n: int) -> Encoded:
    """Labels of n examples."""
    array = np.asarray(y.detach().cpu() if hasattr(y, "detach") else y)
    if array.ndim == 2 and array.shape[1] == 1:
        from sklearn.utils.validation import column_or_1d

        array = column_or_1d(array, warn=True)
    if array.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {array.shape} instead.")
    if len(array) != n:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: X has {n}, y has {len(array)}.")
    if array.dtype.kind == "f" and np.isinf(array).any():
        raise ValueError("Input y contains infinity or a value too large for dtype('float64').")
    known = ~is_unlabeled(array)
    if not known.any():
        raise UserError("y has no label: give at least one example of each class a label other than -1, None or NaN.")
    classes, indices = np.unique(_uniform(array[known]), return_inverse=True)
    labels = np.full(n, UNLABELED, dtype=np.int64)
    labels[known] = indices
    return Encoded(labels, classes)


def is_unlabeled(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Which labels are -1, None, NaN or another library's missing value."""
    if array.dtype.kind == "f":
        return np.asarray(np.isnan(array) | (array == UNLABELED))
    if array.dtype.kind in "US":  # NumPy turns -1 among texts into a text
        return np.asarray(array == np.array(str(UNLABELED)).astype(array.dtype))
    if array.dtype.kind == "O":
        return np.array([v is None or _is_missing(v) or _is_minus_one(v) for v in array], dtype=np.bool_)
    return np.asarray(array == UNLABELED)


def _is_missing(value: object) -> bool:
    try:
        return bool(value != value)
    except TypeError:  # a missing value that cannot say whether it differs from itself
        return True


def _is_minus_one(value: object) -> bool:
    return isinstance(value, int | float | np.number | str) and str(value) in ("-1", "-1.0")


def _uniform(values: NDArray[Any]) -> NDArray[Any]:
    """Objects of one kind as an array of that kind, which NumPy can sort."""
    if values.dtype.kind != "O":
        return values
    kinds = {type(v) for v in values}
    if any(issubclass(kind, str) for kind in kinds) and len(kinds) > 1:
        raise UserError("y mixes texts and numbers as labels: use one or the other.")
    return np.array(values.tolist())
