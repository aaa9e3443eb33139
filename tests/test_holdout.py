"""Which labels are kept from training, and the numbers made of guesses for them."""

import numpy as np
import pytest

from ict.fit.holdout import by_class, hold_out, score


def labels_of(per_class: int, n_classes: int, unlabeled: int = 50) -> np.ndarray:
    labels = np.repeat(np.arange(n_classes), per_class)
    return np.random.default_rng(0).permutation(np.concatenate([labels, np.full(unlabeled, -1)]))


@pytest.mark.parametrize(
    ("per_class", "n_classes", "n_valid", "n_test"),
    [(4, 10, 0, 0), (5, 10, 0, 10), (40, 10, 0, 80), (50, 10, 50, 100), (19, 50, 0, 190), (250, 2, 50, 100)],
)
def test_parts_are_as_large_as_the_labels_allow_and_share_nothing(
    per_class: int, n_classes: int, n_valid: int, n_test: int
) -> None:
    labels = labels_of(per_class, n_classes)
    valid, test = hold_out(labels, seed=3)
    assert (len(valid), len(test)) == (n_valid, n_test)
    assert not set(valid) & set(test), "no row twice"
    assert (labels[valid] >= 0).all() and (labels[test] >= 0).all()
    for part in (valid, test):
        counts = np.bincount(labels[part], minlength=n_classes)
        assert len(part) == 0 or counts.max() - counts.min() <= 1
    assert all(map(np.array_equal, (valid, test), hold_out(labels, seed=3)))
    assert n_test == 0 or not np.array_equal(test, hold_out(labels, seed=4)[1])


def test_a_score_is_wilsons_interval() -> None:
    found = score(np.eye(2)[[0, 0, 1, 1, 1, 1, 1, 1, 1, 1]], np.array([0, 1, 1, 1, 1, 1, 1, 1, 1, 1]))
    p, n, z = 0.9, 10, 1.959964
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert (found.right, found.n, found.accuracy) == (9, 10, 0.9)
    assert found.interval == pytest.approx((middle - reach, middle + reach), abs=1e-6)
    assert str(found) == "9 of 10 held-out labels right: 90.0% (95 % interval 59.6% to 98.2%)"


def test_classes_by_hand() -> None:
    probs = np.eye(3)[[0, 0, 1, 0]]  # guesses; the truth has one 0, two 1 and a 2, which is never guessed
    found = by_class(probs, np.array([0, 1, 1, 2]))
    assert found.confusion.tolist() == [[1, 0, 0], [1, 1, 0], [1, 0, 0]]
    np.testing.assert_allclose(found.precision, [1 / 3, 1, 0])
    np.testing.assert_allclose(found.recall, [1, 0.5, 0])
    np.testing.assert_allclose(found.f1, [0.5, 2 / 3, 0])
