"""What stands for a missing label in arrays, and that other labels keep their type."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ict.data.labels import encode


def makers() -> dict[str, Callable[[list[Any]], Any]]:
    found: dict[str, Callable[[list[Any]], Any]] = {
        "list": list,
        "objects": lambda values: np.array(values, dtype=object),
        "numpy": np.array,
    }
    try:
        pandas, pyarrow = importlib.import_module("pandas"), importlib.import_module("pyarrow")
    except ImportError:
        return found
    return found | {
        "pandas": pandas.Series,
        "pandas, nullable": lambda values: pandas.Series(values).convert_dtypes(),
        "arrow": pyarrow.array,
        "arrow, chunked": lambda values: pyarrow.chunked_array([pyarrow.array(values)]),
    }


@pytest.mark.parametrize("make", makers().values(), ids=makers())
@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([2, None, 1, 2], [1, 2]),
        ([True, None, False, True], [False, True]),
        (["b", None, "a", "b"], ["a", "b"]),
        (["b", "", "a", "b"], ["a", "b"]),
        ([2.5, float("nan"), 1.0, 2.5], [1.0, 2.5]),
    ],
)
def test_a_missing_label_changes_no_other(make: Callable[[list[Any]], Any], y: list[Any], classes: list[Any]) -> None:
    known = encode(make(y), 4)
    assert known.labels.tolist() == [1, -1, 0, 1]
    assert known.classes.tolist() == classes
    assert [type(value) for value in known.classes.tolist()] == [type(value) for value in classes]


def test_minus_one_beside_truth_values_and_whole_floats_without_gaps() -> None:
    known = encode([True, -1, False], 3)
    assert (known.labels.tolist(), known.classes.dtype.kind) == ([1, -1, 0], "b")
    assert encode(np.array([2.0, -1.0, 1.0]), 3).classes.dtype.kind == "f", "they were floats before"
