"""Label spreading over a graph: against dense linear algebra, on shapes it must follow, and on awkward input."""

import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import make_blobs, make_moons

from ict.base.errors import UserError
from ict.experts.graph import GraphPropagation

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def few(truth: Ints, per_class: int, seed: int) -> Ints:
    """Labels of `per_class` rows of every class, -1 elsewhere."""
    rng = np.random.default_rng(seed)
    y = np.full(len(truth), -1)
    for c in np.unique(truth):
        y[rng.choice(np.flatnonzero(truth == c), per_class, replace=False)] = c
    return y


def blobs(n: int = 120, seed: int = 0) -> tuple[Floats, Ints]:
    x, truth = make_blobs(n, centers=[[0, 0], [4, 0], [0, 4]], random_state=seed)[:2]
    return x, few(truth, 3, seed)


def dense_weights(x: Floats, k: int) -> Floats:
    """The graph row by row: mutual k nearest, the two nearest in any case, self-tuning Gaussian weights."""
    n = len(x)
    far = np.array([[np.linalg.norm(a - b) for b in x] for a in x])
    order = [sorted((j for j in range(n) if j != i), key=lambda j, i=i: far[i, j])[:k] for i in range(n)]  # type: ignore[misc]
    scale = [far[i, order[i][-1]] for i in range(n)]
    w = np.zeros((n, n))
    for i in range(n):
        for j in order[i]:
            if i in order[j] or j in order[i][:2]:
                w[i, j] = w[j, i] = max(np.exp(-4 * far[i, j] ** 2 / (scale[i] * scale[j])), 1e-6)
    return w


def dense_spread(w: Floats, seeds: Floats, alpha: float) -> Floats:
    degree = w.sum(axis=1)
    s = w / np.sqrt(np.outer(degree, degree))
    f = (1 - alpha) * np.linalg.solve(np.eye(len(w)) - alpha * s, seeds)
    return np.asarray(f / f.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("alpha", [0.5, 0.9, 0.998])
def test_one_pass_is_the_fixed_point(alpha: float) -> None:
    x, y = blobs()
    y[np.flatnonzero(y == 2)[1:]] = -1  # unequal counts
    seeds = np.zeros((len(y), 3))
    seeds[y >= 0, y[y >= 0]] = 1
    graph = GraphPropagation(alpha=alpha, class_balance=False, guess=0).fit(x, y)
    assert graph.transduction.reached.all()
    np.testing.assert_allclose(graph.transduction.probs, dense_spread(dense_weights(x, 10), seeds, alpha), atol=2e-7)


def test_both_passes_balanced() -> None:
    x, y = blobs()
    y[np.flatnonzero(y == 2)[1:]] = -1
    count = np.bincount(y[y >= 0])
    seeds = np.zeros((len(y), 3))
    for i in np.flatnonzero(y >= 0):
        seeds[i, y[i]] = count.sum() / 3 / count[y[i]]
    w = dense_weights(x, 10)
    p = dense_spread(w, seeds, 0.998)
    for _ in range(20):
        p = p / p.sum(axis=0)
        p = p / p.sum(axis=1, keepdims=True)
    margin = np.array([sorted(row)[-1] - sorted(row)[-2] for row in p])
    for i in np.flatnonzero(y < 0):
        seeds[i, p[i].argmax()] = 0.02 * min(1.0, margin[i] / (0.2 * margin[y < 0].mean()))
    expected = dense_spread(w, seeds, 0.9)
    np.testing.assert_allclose(GraphPropagation().fit(x, y).transduction.probs, expected, atol=2e-6)


def test_moons_are_followed() -> None:
    right = []
    for seed in range(5):
        x, truth = make_moons(1000, noise=0.1, random_state=seed)
        graph = GraphPropagation().fit(x[:700], few(truth[:700], 3, seed))
        right.append((graph.predict_proba(x[700:]).argmax(axis=1) == truth[700:]).mean())
    assert np.mean(right) >= 0.95


def test_unequal_label_counts_do_not_drown_a_class() -> None:
    x, truth = make_blobs(600, centers=[[0, 0], [3, 0]], random_state=0)[:2]
    y = few(truth, 20, 0)
    y[np.flatnonzero(y == 1)[2:]] = -1

    def right(balance: bool) -> float:
        probs = GraphPropagation(class_balance=balance).fit(x, y).transduction.probs
        return float((probs.argmax(axis=1) == truth).mean())

    assert right(True) >= 0.9
    assert right(False) < 0.8


def test_rows_sum_to_one_and_training_rows_keep_their_answer() -> None:
    x, y = blobs(400)
    graph = GraphPropagation().fit(x, y)
    probs, again = graph.transduction.probs, graph.predict_proba(x)
    for rows in (probs, again):
        assert rows.dtype == np.float32 and rows.min() >= 0
        np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-6)
    assert (probs.argmax(axis=1) == again.argmax(axis=1)).mean() > 0.97


def test_new_rows_take_a_weighted_mean_of_their_neighbors() -> None:
    x, y = blobs()
    graph = GraphPropagation(n_neighbors=7).fit(x, y)
    scale = [sorted(np.linalg.norm(x - row, axis=1))[7] for row in x]  # the first is the row itself
    new = np.random.default_rng(1).uniform(0, 4, size=(20, 2))
    for row, found in zip(new, graph.predict_proba(new), strict=True):
        far = np.linalg.norm(x - row, axis=1)
        near = far.argsort()[:7]
        weight = np.array([np.exp(-(far[j] ** 2) / (far[near[-1]] * scale[j])) for j in near])
        np.testing.assert_allclose(found, weight @ graph.transduction.probs[near] / weight.sum(), atol=2e-5)


def test_order_of_rows_does_not_matter_even_on_a_grid() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 12, size=(300, 2)).astype(float)  # ties everywhere, and the same row many times
    y = np.full(300, -1)
    y[:6] = [0, 0, 1, 1, 2, 2]
    turn = rng.permutation(300)
    one, two = GraphPropagation().fit(x, y).transduction, GraphPropagation().fit(x[turn], y[turn]).transduction
    np.testing.assert_allclose(one.probs[turn], two.probs, atol=1e-6)
    np.testing.assert_array_equal(one.reached[turn], two.reached)


def test_duplicates_get_one_answer() -> None:
    x, y = blobs()
    once = GraphPropagation().fit(x, y).transduction.probs
    many = GraphPropagation().fit(np.repeat(x, 30, axis=0), np.repeat(y, 30)).transduction.probs
    np.testing.assert_array_equal(many[::30], many[29::30])
    assert (many[::30].argmax(axis=1) == once.argmax(axis=1)).mean() > 0.95
    same = GraphPropagation(class_balance=False).fit(np.ones((50, 3)), np.r_[0, 1, 1, -np.ones(47, dtype=np.int64)])
    assert same.transduction.reached.all()
    np.testing.assert_allclose(same.transduction.probs, [[1 / 3, 2 / 3]] * 50, atol=1e-6)


def test_a_cluster_without_label_takes_the_nearest_answer() -> None:
    x, truth = make_blobs(150, centers=[[130, 0], [30, 0], [0, 0]], cluster_std=0.5, random_state=0)[:2]
    y = few(np.minimum(truth, 1), 3, 0)
    y[truth == 2] = -1
    y[np.flatnonzero(truth == 1)[0]] = 1
    found = GraphPropagation().fit(x, y).transduction
    np.testing.assert_array_equal(found.reached, truth != 2)
    assert (found.probs.argmax(axis=1) == np.minimum(truth, 1)).all()
    np.testing.assert_allclose(found.probs.sum(axis=1), 1, atol=1e-6)


def test_rows_far_along_a_chain_keep_the_class_of_their_end() -> None:
    chain = np.arange(3000.0)  # so long that the far end's answer is below rounding
    x = np.r_[np.c_[chain, 0 * chain], np.c_[chain, 0 * chain + 500]]
    y = np.full(6000, -1)
    y[0], y[-1] = 0, 1
    found = GraphPropagation(guess=0).fit(x, y).transduction
    assert found.reached.all()
    np.testing.assert_array_equal(found.probs.argmax(axis=1), np.repeat([0, 1], 3000))


@pytest.mark.filterwarnings("error")
def test_small_and_odd_input() -> None:
    one = GraphPropagation().fit(np.zeros((1, 2)), np.array([0]))
    assert one.transduction.probs.tolist() == [[1.0]] and one.predict_proba(np.ones((2, 2))).tolist() == [[1.0], [1.0]]
    three = GraphPropagation().fit(np.array([[0.0], [0.1], [5.0]]), np.array([0, -1, 1]))  # fewer rows than neighbors
    assert three.transduction.probs.argmax(axis=1).tolist() == [0, 0, 1]
    x, y = blobs()
    y[y == 1] = -1  # a class without labels
    probs = GraphPropagation().fit(x, y).transduction.probs
    assert probs.shape == (120, 3) and (probs[:, 1] == 0).all()
    truth = make_blobs(120, centers=[[0, 0], [4, 0], [0, 4]], random_state=0)[1]
    every = GraphPropagation().fit(x, truth).transduction.probs
    assert (every.argmax(axis=1) == truth).mean() > 0.97
    images = GraphPropagation().fit(x.reshape(120, 1, 2, 1), y)
    np.testing.assert_array_equal(images.transduction.probs, probs)
    assert images.predict_proba(np.zeros((0, 2))).shape == (0, 3)


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        (np.zeros((3, 2)), [-1, -1, -1], "no labeled row"),
        (np.zeros((3, 2)), [0, 1], "one class, or -1"),
        (np.zeros((3, 2)), [0.0, 1.0, np.nan], "whole numbers"),
        (np.zeros((3, 2)), [0, -2, 1], "whole numbers"),
        (np.full((3, 2), np.nan), [0, 1, -1], "not finite"),
        (np.zeros(3), [0, 1, -1], "shape"),
        (np.zeros((3, 0)), [0, 1, -1], "no features"),
        (np.zeros((0, 2)), [], "0 rows"),
    ],
)
def test_mistakes_are_named(x: Floats, y: list[float], says: str) -> None:
    with pytest.raises(UserError, match=says):
        GraphPropagation().fit(x, np.asarray(y))


def test_mistakes_in_settings_and_use_are_named() -> None:
    for settings in ({"n_neighbors": 0}, {"alpha": 1.0}, {"second_alpha": -0.1}, {"guess": 2.0}):
        with pytest.raises(UserError, match=next(iter(settings))):
            GraphPropagation(**settings)
    with pytest.raises(UserError, match="fit first"):
        GraphPropagation().predict_proba(np.zeros((1, 2)))
    with pytest.raises(UserError, match="3 features, not 2"):
        GraphPropagation().fit(*blobs()).predict_proba(np.zeros((1, 3)))


def test_nothing_is_rows_by_rows() -> None:
    x, truth = make_blobs(4000, centers=4, n_features=20, random_state=0)[:2]
    y = few(truth, 5, 0)
    tracemalloc.start()
    GraphPropagation().fit(x, y).predict_proba(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4000 * 4000 * 4 / 4  # a quarter of one float32 matrix of rows by rows
