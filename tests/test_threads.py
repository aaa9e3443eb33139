"""Fits and predictions in threads give the bits of the same work one after the other."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from ict import SemiSupervisedClassifier

N_FITS = 4


IMAGES, LABELS = load_digits(return_X_y=True)
IMAGES = IMAGES.reshape(-1, 8, 8)


def fit(seed: int) -> SemiSupervisedClassifier:
    """A network with dropout, which draws from torch's global generator."""
    y = np.where(np.arange(200) < 40, LABELS[:200], -1)
    settings = ("network.dropout=0.3", "network.width=4")
    model = SemiSupervisedClassifier("mean-teacher", steps=15, device="cpu", random_state=seed, settings=settings)
    return model.fit(IMAGES[:200], y)


def fitted(seed: int) -> NDArray[Any]:
    return fit(seed).predict_proba(IMAGES[:50])


def test_fits_in_four_threads_equal_fits_in_sequence() -> None:
    expected = [fitted(seed) for seed in range(N_FITS)]
    with ThreadPoolExecutor(N_FITS) as threads:
        found = list(threads.map(fitted, range(N_FITS)))
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(expected[0], expected[1])


def test_predictions_in_threads_while_another_fits_change_neither() -> None:
    model, expected = fit(0), fitted(1)
    alone, training = model.predict_proba(IMAGES), Event()
    threads, state = torch.get_num_threads(), torch.get_rng_state()

    def predict(_: int) -> list[bool]:
        same = []
        while training.is_set():
            same.append(np.array_equal(model.predict_proba(IMAGES), alone))
        return same

    with ThreadPoolExecutor(2) as pool:
        training.set()
        answers = [pool.submit(predict, i) for i in range(2)]
        try:
            found = fitted(1)
        finally:
            training.clear()
    np.testing.assert_array_equal(found, expected)
    same = [equal for answer in answers for equal in answer.result()]
    assert len(same) > 2 and all(same)
    assert torch.get_num_threads() == threads and torch.equal(torch.get_rng_state(), state)
