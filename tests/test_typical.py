"""The first examples to label: one of every cluster, the densest of each, and none near a label."""

import numpy as np
from scipy.spatial.distance import cdist

from ict.fit.typical import typical

SIZES = (60, 30, 20, 10)


def heaps() -> tuple[np.ndarray, np.ndarray]:
    """Four far-off heaps of different sizes, and which one each row is in."""
    rng = np.random.default_rng(0)
    heap = rng.permutation(np.repeat(np.arange(4), SIZES))
    return rng.standard_t(2, size=(len(heap), 3)) * 0.1 + 100 * np.eye(4)[heap][:, :3], heap


def test_every_heap_comes_once_before_any_twice_the_largest_first() -> None:
    features, heap = heaps()
    found = typical(features, 4, 0)
    assert [heap[one.row] for one in found] == [0, 1, 2, 3]
    assert [(one.cluster, one.alike) for one in found] == list(zip((1, 2, 3, 4), SIZES, strict=True))


def test_the_densest_member_stands_for_its_heap() -> None:
    features, heap = heaps()
    for one in typical(features, 4, 0):
        rows = np.flatnonzero(heap == heap[one.row])
        nearest = np.sort(cdist(features[rows], features[rows]), axis=1)[:, 1:21].mean(1)  # without itself
        assert one.row == rows[nearest.argmin()]


def test_what_lies_near_a_label_comes_last_and_labels_are_never_asked_again() -> None:
    features, heap = heaps()
    labeled = np.flatnonzero(heap == 0)[:1]
    found = typical(features, 3, 0, labeled)
    assert [heap[one.row] for one in found] == [1, 2, 3]
    every = typical(features, len(heap), 0, labeled)
    assert sorted(one.row for one in every) == sorted(set(range(len(heap))) - set(labeled.tolist()))


def test_same_seed_same_rows_and_odd_cases_work() -> None:
    features, heap = heaps()
    assert typical(features, 20, 3) == typical(features, 20, 3)
    assert len({one.row for one in typical(features, 50, 3)}) == 50
    assert typical(features, 0, 0) == [] and typical(features, 5, 0, np.arange(len(heap))) == []
    assert len(typical(np.zeros((6, 2)), 4, 0)) == 4, "copies of one example"
    assert [one.row for one in typical(np.ones((1, 2)), 4, 0)] == [0]
