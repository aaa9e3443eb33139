"""Principal axes of features and spreading over a wide graph of them: against dense linear algebra."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ict.experts.experts import Experts
from ict.experts.principal import principal_axes, spread_labels, spread_predictions, wide_neighbors

Floats = NDArray[np.float64]


def features(n: int = 150, classes: int = 3, noise: float = 1.0, seed: int = 0) -> tuple[Any, Any]:
    """Classes differ along a few axes of 200, the rest is noise; centered and of one length, as backbones' are."""
    draws = np.random.default_rng(seed)
    truth = np.arange(n) % classes
    near = draws.normal(size=(classes, 8))[truth] * 2 + draws.normal(size=(n, 8))
    x = np.linalg.qr(draws.normal(size=(200, 8)))[0] @ near.T * 3 + noise * draws.normal(size=(200, n))
    x = x.T - x.T.mean(0)
    return (x / np.linalg.norm(x, axis=1, keepdims=True) * np.sqrt(200)).astype(np.float32), truth


def dense_graph(rows: Floats, k: int = 30) -> Floats:
    """Every row and its k nearest, joined in both directions, with self-tuning Gaussian weights; normalized."""
    far = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    order = np.argsort(far + np.diag(np.full(len(rows), np.inf)), axis=1)[:, :k]
    scale = far[np.arange(len(rows)), order[:, -1]]
    w = np.zeros_like(far)
    for i, near in enumerate(order):
        for j in near:
            w[i, j] = w[j, i] = np.exp(-(far[i, j] ** 2) / (scale[i] * scale[j]))
    return np.asarray(w / np.sqrt(np.outer(w.sum(1), w.sum(1))))


def axes_by_svd(x: Any, n_axes: int) -> Floats:
    left, size, _ = np.linalg.svd(x.astype(np.float64) - x.mean(0, dtype=np.float64), full_matrices=False)
    return np.asarray(left[:, :n_axes] * size[:n_axes])


def test_principal_axes_are_those_of_the_svd_up_to_their_signs() -> None:
    x, _ = features()
    axes, expected = principal_axes(x, 8, 0), axes_by_svd(x, 8)
    np.testing.assert_allclose(np.abs(axes), np.abs(expected), atol=2e-2)


def test_rows_with_the_same_values_stay_the_same_and_few_columns_stay_as_they_are() -> None:
    x, _ = features(40)
    twice = principal_axes(np.concatenate([x, x[::-1]]), 8, 0)
    np.testing.assert_array_equal(twice[:40], twice[40:][::-1])
    np.testing.assert_array_equal(principal_axes(x[:, :5], 8, 0), x[:, :5])
    assert principal_axes(x[[0, 1, 0, 1]], 8, 0).shape == (4, 2)


def test_neighbors_are_found_along_the_principal_axes_of_rows_of_one_length() -> None:
    x, _ = features()
    neighbors = wide_neighbors(x)
    np.testing.assert_allclose(np.linalg.norm(neighbors.rows, axis=1), np.sqrt(32))
    expected = axes_by_svd(x, 32)
    expected *= np.sqrt(32) / np.linalg.norm(expected, axis=1, keepdims=True)
    angles, exact = neighbors.rows @ neighbors.rows.T, expected @ expected.T
    assert np.corrcoef(angles.ravel(), exact.ravel())[0, 1] > 0.99  # randomized axes of noise are not exact
    assert neighbors.far.shape == (150, 30)


def test_labels_spread_as_dense_algebra_says_and_classes_weigh_the_same() -> None:
    x, truth = features()
    labels = np.where(np.arange(len(truth)) < 12, truth, -1)
    labels[[0, 3, 6]] = -1  # one label of the first class, four of the others
    neighbors = wide_neighbors(x)
    seeds = np.zeros((len(truth), 3))
    for i in np.flatnonzero(labels >= 0):
        seeds[i, labels[i]] = 1 / (labels == labels[i]).sum()
    spread = np.linalg.solve(np.eye(len(truth)) - 0.99 * dense_graph(neighbors.rows), seeds)
    spread /= spread.sum(0)
    expected = spread / spread.sum(1, keepdims=True)
    np.testing.assert_allclose(spread_labels(neighbors, labels, 3), expected, atol=1e-6)


def test_predictions_spread_as_dense_algebra_says() -> None:
    x, _ = features()
    probs = np.random.default_rng(1).dirichlet(np.ones(3), len(x))
    neighbors = wide_neighbors(x)
    spread = np.linalg.solve(np.eye(len(x)) - 0.8 * dense_graph(neighbors.rows), probs)
    expected = spread / spread.sum(1, keepdims=True)
    np.testing.assert_allclose(spread_predictions(neighbors, probs), expected, atol=1e-6)


@pytest.mark.parametrize("per_class", [1, 4])
def test_experts_on_noisy_features_beat_logistic_regression(per_class: int) -> None:
    gains = []
    for seed in range(5):
        x, truth = features(600, 4, noise=3.0, seed=seed)
        labels = np.where(np.arange(len(truth)) < 4 * per_class, truth, -1)
        opinion = Experts(kind="features").fit(x, labels, 4, seed)
        new = labels < 0
        right = {name: (probs.argmax(1) == truth)[new].mean() for name, probs in opinion.probs.items()}
        gains.append((opinion.mean.argmax(1) == truth)[new].mean() - right["logistic"])
    assert np.mean(gains) > 0.05


def test_without_neighbors_for_too_many_rows_logistic_regression_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ict.experts.experts.GRAPH_LIMIT", 100)
    x, truth = features()
    opinion = Experts(kind="features").fit(x, np.where(np.arange(150) < 12, truth, -1), 3, 0)
    assert opinion.weights == {"logistic": 1.0}
