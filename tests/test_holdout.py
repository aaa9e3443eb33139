"""Which labels are kept from training, and the numbers made of guesses for them."""

import numpy as np
import pytest

from ict.base.errors import UserError
from ict.fit.holdout import by_class, hold_out, score


def labels_of(per_class: int, n_classes: int, unlabeled: int = 50) -> np.ndarray:
    labels = np.repeat(np.arange(n_classes), per_class)
    return np.random.default_rng(0).permutation(np.concatenate([labels, np.full(unlabeled, -1)]))


@pytest.mark.parametrize(("per_class", "share", "n_test"), [(4, 0.0, 0), (5, 0.2, 10), (40, 0.2, 80), (40, 0.1, 40)])
def test_a_share_of_every_class_is_held_out(per_class: int, share: float, n_test: int) -> None:
    labels = labels_of(per_class, 10)
    test = hold_out(labels, share, seed=3)
    assert len(test) == n_test and (labels[test] >= 0).all() and len(set(test)) == n_test
    counts = np.bincount(labels[test], minlength=10)
    assert n_test == 0 or counts.max() - counts.min() <= 1
    assert np.array_equal(test, hold_out(labels, share, seed=3))
    assert n_test == 0 or not np.array_equal(test, hold_out(labels, share, seed=4))


def test_whole_groups_are_held_out() -> None:
    labels = labels_of(20, 3)
    groups = np.arange(len(labels)) // 2
    test = set(hold_out(labels, 0.2, 0, groups).tolist())
    for row in test:
        other = row ^ 1
        assert labels[other] < 0 or other in test


@pytest.mark.parametrize(("share", "says"), [(0.7, "up to 0.5"), (-0.1, "above 0"), (0.1, "10 different labeled")])
def test_a_share_that_cannot_be_is_named(share: float, says: str) -> None:
    with pytest.raises(UserError, match=says):
        hold_out(labels_of(5, 2), share, 0)


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
