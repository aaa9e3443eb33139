"""What to label next: uncertain, spread out, alike for a seed, and not too slow for many examples."""

import numpy as np
import pytest

from ict.fit.label_next import MOST, Suggestion, reason, suggest


def three_groups(n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features in three far-off places; in the first group every example is uncertain, elsewhere one in ten."""
    rng = np.random.default_rng(0)
    group = np.arange(n) % 3
    features = rng.normal(size=(n, 5)) + 50 * np.eye(5)[group]
    top = np.where((group == 0) | (np.arange(n) % 10 == 0), rng.uniform(0.5, 0.55, n), rng.uniform(0.9, 1, n))
    return np.stack([top, 1 - top], axis=1), features, group


def test_a_turn_takes_the_least_certain_of_each_cluster() -> None:
    probs, features, _ = three_groups()
    found = suggest(probs, lambda rows: features[rows], 0)
    assert len(found) == MOST and len({s.row for s in found}) == MOST
    clusters = [s.cluster for s in found]
    n_clusters = max(clusters)
    assert sorted(clusters[:n_clusters]) == list(range(1, n_clusters + 1)), "each cluster once before any twice"
    assert list(dict.fromkeys(clusters)) == sorted(set(clusters)), "numbered as they appear"
    for cluster in set(clusters):
        certain = [s.probability for s in found if s.cluster == cluster]
        assert certain == sorted(certain), "the least certain of a cluster first"
    assert [s.probability for s in found[:n_clusters]] == sorted(s.probability for s in found[:n_clusters])


def test_suggestions_are_uncertain_and_come_from_everywhere() -> None:
    probs, features, group = three_groups()
    found = suggest(probs, lambda rows: features[rows], 0)
    rows = np.array([s.row for s in found])
    assert set(group[rows[:20]]) == {0, 1, 2}
    assert probs[rows].max(1).mean() < probs.max(1).mean() - 0.1
    for s in found:
        assert s.probability == probs[s.row].max() and s.guess == probs[s.row].argmax() and s.second == 1 - s.guess


def test_only_the_least_certain_are_candidates() -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), size=20_000)
    ordered = np.sort(probs, axis=1)
    least = set(np.argsort(ordered[:, 2] - ordered[:, 1])[: 10 * MOST].tolist())
    asked = []

    def features(rows: np.ndarray) -> np.ndarray:
        asked.append(len(rows))
        return rng.normal(size=(len(rows), 4))

    assert {s.row for s in suggest(probs, features, 0)} <= least and asked == [10 * MOST]


def test_the_same_seed_gives_the_same_and_odd_cases_work() -> None:
    probs, features, _ = three_groups()
    first, again = (suggest(probs, lambda rows: features[rows], 7) for _ in range(2))
    assert first == again
    assert suggest(np.empty((0, 2)), lambda rows: features[rows], 0) == []
    one = suggest(np.array([[0.2, 0.8]]), lambda rows: features[rows], 0)
    assert [(s.row, s.guess, s.cluster, s.alike) for s in one] == [(0, 1, 1, 1)]
    same = suggest(np.tile([1.0, 0.0], (50, 1)), lambda rows: np.zeros((len(rows), 3)), 0)
    assert len(same) == 50 and {s.cluster for s in same} == {1}, "copies of one example, all of them certain"


@pytest.mark.parametrize(
    ("probability", "alike", "says"),
    [(0.5, 5, "torn between cat (50%) and dog (40%); 4 more like it"), (0.95, 1, "fairly sure of cat (95%)")],
)
def test_reasons_are_words(probability: float, alike: int, says: str) -> None:
    second = 0.4 if probability == 0.5 else 0.05
    assert reason(Suggestion(0, 0, probability, 1, second, 1, alike), ("cat", "dog")).startswith(says)
