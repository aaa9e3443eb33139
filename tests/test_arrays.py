"""A user's own arrays: what is kept, what is shared, what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ict.base.errors import UserError
from ict.data.arrays import from_arrays

X: NDArray[Any] = np.arange(12, dtype=np.float32).reshape(6, 2)
Y: NDArray[Any] = np.array([0, -1, 1, -1, 2, 0])


def test_rows_with_a_label_are_the_labeled_rows() -> None:
    data = from_arrays(X, Y)
    assert data.labeled_rows is not None
    assert data.labeled_rows.tolist() == [0, 2, 4, 5]
    assert data.labeled_rows.dtype == torch.int64
    assert data.train.x.tolist() == X.tolist()
    assert data.train.y.tolist() == Y.tolist()
    assert data.train.y.dtype == torch.int64
    assert data.classes == ("0", "1", "2")
    assert data.valid is None
    assert (data.test.x.shape, data.test.y.shape) == ((0, 2), (0,))
    assert (data.test.x.dtype, data.test.y.dtype) == (torch.float32, torch.int64)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("uint8", torch.uint8),
        ("float16", torch.float32),
        ("float32", torch.float32),
        ("float64", torch.float32),
        (">f4", torch.float32),
        ("bool", torch.float32),
        ("int8", torch.float32),
        ("uint16", torch.float32),
        ("int64", torch.float32),
    ],
)
def test_types_of_inputs(given: str, kept: torch.dtype) -> None:
    x = np.array([[0, 1], [1, 0], [1, 1]]).astype(given)
    found = from_arrays(x, np.arange(3)).train.x
    assert found.dtype == kept
    assert found.tolist() == [[0, 1], [1, 0], [1, 1]]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float64, torch.int32])
def test_tensors(dtype: torch.dtype) -> None:
    x = torch.tensor([[3, 4], [5, 6]], dtype=dtype)
    data = from_arrays(x, torch.tensor([1, 0], dtype=torch.int32), test=(x, torch.tensor([0, 1])))
    assert data.train.x.tolist() == [[3, 4], [5, 6]]
    assert data.train.x.dtype == (torch.uint8 if dtype == torch.uint8 else torch.float32)
    assert data.train.y.dtype == torch.int64
    assert data.test.x.tolist() == [[3, 4], [5, 6]]


def test_a_tensor_with_a_gradient_is_detached() -> None:
    assert not from_arrays(torch.zeros(2, 2, requires_grad=True), torch.tensor([0, 1])).train.x.requires_grad


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_memory_is_shared(dtype: str) -> None:
    x, y = np.zeros((3, 1, 4, 4), dtype=dtype), np.arange(3)
    tensor = torch.zeros(3, 1, 4, 4, dtype=torch.uint8)
    data = from_arrays(x, y, test=(x, y), valid=(x, y))
    assert data.train.x.data_ptr() == x.ctypes.data == data.test.x.data_ptr()
    assert data.valid is not None
    assert data.valid.x.data_ptr() == x.ctypes.data
    assert data.train.y.data_ptr() == y.ctypes.data
    assert from_arrays(tensor, y).train.x.data_ptr() == tensor.data_ptr()


def test_a_memory_map_for_reading_is_neither_copied_nor_warned_about(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert from_arrays(x, Y).train.x.data_ptr() == x.ctypes.data


def test_reversed_rows_are_fine() -> None:
    data = from_arrays(X[::-1], Y[::-1])
    assert data.train.x.tolist() == X[::-1].tolist()
    assert data.train.y.tolist() == Y[::-1].tolist()


def test_names_of_classes_and_held_out_examples() -> None:
    data = from_arrays(X, Y, valid=(X[:2], Y[[0, 0]]), test=(X[:3], Y[[4, 4, 4]]), classes=["a", "b", "c"])
    assert data.classes == ("a", "b", "c")
    assert data.valid is not None
    assert (data.valid.y.tolist(), data.test.y.tolist()) == ([0, 0], [2, 2, 2])


def spoiled(value: float) -> NDArray[Any]:
    x = X.astype(np.float64)
    x[3, 1] = value
    return x


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": X[:5]}, "x has 5 rows but y has 6"),
        ({"y": Y - 1}, "y has the label -2"),
        ({"y": np.full(6, -1)}, "y has no labeled example"),
        ({"x": X[:0], "y": Y[:0]}, "y has no labeled example"),
        ({"y": np.array([0, -1, 2, -1, 2, 0])}, "class 1 of 3 has no labeled example"),
        ({"classes": ["a", "b", "c", "d"]}, "class 3 of 4 has no labeled example"),
        ({"classes": ["a", "b"]}, "y has the label 2, but classes names only 2"),
        ({"x": spoiled(np.nan)}, "x has NaN or infinity in row 3"),
        ({"x": spoiled(-np.inf)}, "x has NaN or infinity in row 3"),
        ({"x": spoiled(1e300)}, "x has NaN or infinity in row 3"),  # more than float32 holds
        ({"x": X.reshape(6, 1, 2)}, r"x is float32 \(6, 1, 2\)"),
        ({"x": X.astype(str)}, "x is <U"),
        ({"x": X[:, :0]}, r"x is float32 \(6, 0\)"),
        ({"y": Y.astype(float)}, "y is float64"),
        ({"y": Y[:, None]}, r"y is int64 \(6, 1\)"),
        ({"test": (X[:, :1], Y)}, r"test x holds float32 \(1,\) but x float32 \(2,\)"),
        ({"test": (X.astype(np.uint8), Y)}, r"test x holds uint8 \(2,\)"),
        ({"test": (X, Y[:2])}, "test x has 6 rows but test y has 2"),
        ({"test": (X, Y)}, "test y has the label -1: it must lie in 0 to 2"),
        ({"test": (X, np.arange(6))}, "test y has the label 3"),
        ({"test": (spoiled(np.nan), Y)}, "test x has NaN"),
        ({"valid": (X[:, :1], Y)}, r"valid x holds float32 \(1,\)"),
        ({"valid": (X, Y)}, "valid y has the label -1"),
    ],
)
def test_mistakes_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        from_arrays(**{"x": X, "y": Y, **arguments})
