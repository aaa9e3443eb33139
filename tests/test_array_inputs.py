"""Users' arrays to inputs: the same numbers in one piece and in many."""

from typing import Any

import numpy as np
import pytest

from ict.data import array_inputs
from ict.data.array_inputs import fit_inputs

RNG = np.random.default_rng(0)
ARRAYS: dict[str, Any] = {
    "gray": RNG.integers(0, 256, (50, 6, 5), dtype=np.uint8),
    "color": RNG.integers(0, 256, (50, 6, 5, 3), dtype=np.uint8),
    "features": RNG.normal(size=(50, 4)).astype(np.float32) * [1, 10, 0, 1000],
    "one range": RNG.integers(0, 17, (50, 12)).astype(np.float64),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_one_chunk_is_numpys_mean_and_deviation_and_many_are_close(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = ARRAYS[name]
    axis = 0 if name == "features" else None
    whole = fit_inputs(x)
    values = x.astype(np.float64)
    std = np.atleast_1d(values.std(axis))
    assert whole.mean == np.atleast_1d(values.mean(axis)).tolist()
    assert whole.std == np.where(std > 0, std, 1.0).tolist()
    scaled = whole(x)
    expected = ((values - whole.mean) / whole.std).astype(np.float32)
    expected = np.moveaxis(expected, 3, 1) if name == "color" else expected
    assert scaled.flags.c_contiguous
    assert np.array_equal(scaled, expected[:, None] if name == "gray" else expected)
    monkeypatch.setattr(array_inputs, "_CHUNK", 7 * x[0].size)
    assert np.array_equal(whole(x), scaled)
    many = fit_inputs(x)
    np.testing.assert_allclose(many.mean, whole.mean, rtol=1e-13)
    np.testing.assert_allclose(many.std, whole.std, rtol=1e-13)


def test_a_unit_stands_for_a_deviation() -> None:
    x = np.array([[1, 0, 0], [3, 0, 0], [5, 1, 0], [7, 0, 0]], np.float64)
    inputs = fit_inputs(x, (0.0, 2.0, 1.0))
    expected = [[-3 / 5**0.5, -0.125, 0], [-1 / 5**0.5, -0.125, 0], [1 / 5**0.5, 0.375, 0], [3 / 5**0.5, -0.125, 0]]
    np.testing.assert_allclose(inputs(x), expected, rtol=1e-6)
    words = np.eye(12)[RNG.integers(0, 12, 60)]  # without units, they would have one range
    np.testing.assert_allclose(fit_inputs(words, (1.0,) * 12)(words), words - words.mean(0), atol=1e-6)
    assert fit_inputs(x, (0.0,) * 3) == fit_inputs(x)


def test_no_float64_copy_of_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counted(np.ndarray[Any, Any]):
        largest = 0

        def astype(self, *args: Any, **options: Any) -> Any:
            Counted.largest = max(Counted.largest, self.size)
            return super().astype(*args, **options)

    monkeypatch.setattr(array_inputs, "_CHUNK", 100)
    x = ARRAYS["gray"].view(Counted)
    fit_inputs(x)
    assert 0 < Counted.largest <= 100
