"""Users' labels: the only module that knows the spellings of an unknown label and the names of label columns."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ict.base.errors import UserError

UNLABELED = -1  # where a class is unknown, in every array of labels
UNLABELED_TEXTS = frozenset({"", "nan", "-1", "-1.0"})  # the same as a string, stripped and in lower case
UNLABELED_FOLDER = "unlabeled"  # beside the folders of the classes, in any case
_WHOLE = re.compile(r"-?\d+\.0", re.ASCII)
LABEL_COLUMNS = ("label", "class", "target", "y")  # in any case; the first of these that a table has


class Encoded(NamedTuple):
    labels: NDArray[np.int64]  # indices into classes, -1 where unknown
    classes: NDArray[Any]  # sorted


def encode(y: Any, n: int) -> Encoded:
    """Encode the labels of n examples as class indices."""
    array = _as_array(y.detach().cpu() if hasattr(y, "detach") else y)
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
    if array.dtype.kind == "f" and np.isnan(array).any():
        array = _integers_again(array, known)
    classes, indices = np.unique(_uniform(array[known]), return_inverse=True)
    labels = np.full(n, UNLABELED, dtype=np.int64)
    labels[known] = indices
    return Encoded(labels, classes)


def is_unlabeled(array: NDArray[Any]) -> NDArray[np.bool_]:
    """A mask of the labels that are -1, None, NaN or another library's missing value."""
    if array.dtype.kind == "f":
        return np.asarray(np.isnan(array) | (array == UNLABELED))
    if array.dtype.kind in "US":  # NumPy converts -1 and NaN among strings to strings
        values, places = np.unique(array, return_inverse=True)
        return np.array([is_unlabeled_text(v) for v in values.tolist()], dtype=np.bool_)[places]
    if array.dtype.kind == "O":
        return np.array([v is None or _is_missing(v) or _says_unlabeled(v) for v in array], dtype=np.bool_)
    return np.asarray(array == UNLABELED)


def is_unlabeled_text(text: str | bytes) -> bool:
    """Whether a string stands for an unknown label."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return text.strip().casefold() in UNLABELED_TEXTS


def whole_numbers(labels: NDArray[np.object_]) -> NDArray[np.object_]:
    """Labels as strings, None where unknown; 1 and 2 where all were written as 1.0 and 2.0, as beside missing ones."""
    known = [label for label in labels if label is not None]
    if not known or not all(_WHOLE.fullmatch(label) for label in known):
        return labels
    return np.array([None if label is None else label.removesuffix(".0") for label in labels], dtype=object)


def is_label_column(name: str) -> bool:
    """Whether a column of this name holds labels, unless the user names another."""
    return name.strip().casefold() in LABEL_COLUMNS


def find_label_column(names: Sequence[str]) -> str | None:
    """The label column among these names, the first in the order of LABEL_COLUMNS."""
    by_name = {name.strip().casefold(): name for name in reversed(names)}
    return next((by_name[name] for name in LABEL_COLUMNS if name in by_name), None)


def _is_missing(value: object) -> bool:
    try:
        return bool(value != value)
    except TypeError:  # a missing value, such as pandas.NA, whose comparison has no truth value
        return True


def _says_unlabeled(value: object) -> bool:
    if isinstance(value, str):
        return is_unlabeled_text(value)
    return isinstance(value, int | float | np.number) and value == UNLABELED


def _as_array(y: Any) -> NDArray[Any]:
    """Labels as an array. NumPy would make numbers of truth values where a label beside them is -1 or NaN."""
    if isinstance(y, list | tuple) and any(isinstance(value, bool | np.bool_) for value in y):
        array = np.empty(len(y), dtype=object)
        array[:] = y
        return array
    return np.asarray(y)


def _integers_again(array: NDArray[Any], known: NDArray[np.bool_]) -> NDArray[Any]:
    """A missing label beside integers makes floats of them in NumPy and pandas."""
    labels = array[known]
    if (labels == np.round(labels)).all() and (abs(labels) < 2**53).all():
        return np.where(known, array, UNLABELED).astype(np.int64)
    return array


def _uniform(values: NDArray[Any]) -> NDArray[Any]:
    """Objects of one type as an array of that type, which NumPy can sort."""
    if values.dtype.kind != "O":
        return values
    kinds = {type(v) for v in values}
    if any(issubclass(kind, str) for kind in kinds) and len(kinds) > 1:
        raise UserError("y mixes strings and numbers as labels: use one or the other.")
    return np.array(values.tolist())
