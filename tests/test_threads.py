"""Fits in threads give the bits of fits one after the other."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from ict import SemiSupervisedClassifier

N_FITS = 4


def fitted(seed: int) -> NDArray[Any]:
    """Probabilities by a network with dropout, which draws from torch's global generator."""
    digits = load_digits()
    y = np.where(np.arange(200) < 40, digits.target[:200], -1)
    settings = ("network.dropout=0.3", "network.width=4")
    model = SemiSupervisedClassifier("mean-teacher", steps=15, device="cpu", random_state=seed, settings=settings).fit(
        digits.images[:200], y
    )
    return model.predict_proba(digits.images[:50])


def test_fits_in_four_threads_equal_fits_in_sequence() -> None:
    expected = [fitted(seed) for seed in range(N_FITS)]
    with ThreadPoolExecutor(N_FITS) as threads:
        found = list(threads.map(fitted, range(N_FITS)))
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(expected[0], expected[1])
