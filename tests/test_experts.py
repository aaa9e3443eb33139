"""Experts: their weights against a general optimizer, what folds may see, and what the prior is made of."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_digits, make_blobs
from sklearn.linear_model import LogisticRegression

from ict.base.errors import UserError
from ict.experts.experts import MEMBERS, Experts, Kind, Opinion
from ict.experts.graph import GraphPropagation
from ict.experts.mixture import mixture_weights
from ict.experts.neighbors import find_neighbors
from ict.experts.temperature import tempered

SMALL = 5  # trees


def table(per_class: int = 4, n: int = 150, classes: int = 3) -> tuple[Any, Any, Any]:
    X, truth = make_blobs(n, centers=classes, n_features=4, cluster_std=2.5, random_state=1)
    X = ((X - X.mean(0)) / X.std(0)).astype(np.float32)
    labels = np.full(n, -1)
    for label in range(classes):
        labels[np.flatnonzero(truth == label)[:per_class]] = label
    return X, labels, truth


def fit(kind: Kind = "table", per_class: int = 4) -> Opinion:
    X, labels, _ = table(per_class)
    return Experts(kind=kind, trees=SMALL).fit(X, labels, 3, 0)


@pytest.mark.parametrize("count", [0.5, 1.0, 3.0])
def test_weights_are_those_of_a_general_optimizer(count: float) -> None:
    likelihoods = np.random.default_rng(0).beta(2, 1, size=(30, 3)) * [0.9, 0.6, 1.0]

    def loss(z: Any) -> float:
        pi = np.exp(z) / np.exp(z).sum()
        return -float(np.log(likelihoods @ pi).sum() + count * np.log(pi).sum())

    best = minimize(loss, np.zeros(3), tol=1e-12).x
    np.testing.assert_allclose(mixture_weights(likelihoods, count), np.exp(best) / np.exp(best).sum(), atol=1e-4)


def test_without_rows_or_differences_experts_weigh_the_same() -> None:
    np.testing.assert_allclose(mixture_weights(np.zeros((0, 4))), 0.25)
    np.testing.assert_allclose(mixture_weights(np.full((9, 4), 0.3)), 0.25)


def test_without_folds_no_weights_are_fitted_and_experts_say_the_same() -> None:
    X, labels, _ = table()
    plain, weighed = (Experts(trees=SMALL).fit(X, labels, 3, 0, n_folds=n) for n in (0, 5))
    assert plain.folds == () and set(plain.weights.values()) == {1 / 4} and set(plain.temperatures.values()) == {1.0}
    assert len(weighed.folds) == 4 and len(set(weighed.weights.values())) > 1
    for name, probs in weighed.probs.items():
        np.testing.assert_allclose(tempered(plain.probs[name], weighed.temperatures[name]), probs)


def test_one_excluded_label_does_not_rule_an_expert_out() -> None:
    right, wrong_once = np.full(40, 0.5), np.r_[np.full(39, 0.9), 0.0]
    assert mixture_weights(np.stack([right, wrong_once], 1))[1] > 0.7


@pytest.mark.parametrize("kind", list(MEMBERS))
def test_the_prior_is_the_weighted_mean_and_known_rows_have_their_labels(kind: Kind) -> None:
    _, labels, _ = table()
    opinion = fit(kind)
    assert tuple(opinion.weights) == MEMBERS[kind] and sum(opinion.weights.values()) == pytest.approx(1)
    mean = np.sum([opinion.weights[name] * opinion.probs[name] for name in MEMBERS[kind]], axis=0)
    unknown = labels < 0
    np.testing.assert_allclose(opinion.prior[unknown], mean[unknown], atol=1e-6)
    np.testing.assert_array_equal(opinion.prior[~unknown], np.eye(3)[labels[~unknown]])
    np.testing.assert_allclose(opinion.prior.sum(1), 1, atol=1e-6)


def test_an_expert_is_fitted_to_all_labels_and_then_tempered() -> None:
    X, labels, _ = table()
    opinion = fit()
    alone = LogisticRegression().fit(X[labels >= 0], labels[labels >= 0]).predict_proba(X)
    np.testing.assert_allclose(opinion.probs["logistic"], tempered(alone, opinion.temperatures["logistic"]), atol=1e-6)


def test_no_fold_sees_the_labels_that_it_holds_out() -> None:
    """Held-out labels, changed within their fold, leave what the experts said of that fold as it was."""
    X, labels, _ = table(per_class=5)
    opinion = fit(per_class=5)
    assert len(opinion.folds) == 5 and sorted(np.concatenate(opinion.folds)) == np.flatnonzero(labels >= 0).tolist()
    start = 0
    for rows in opinion.folds:
        hidden = labels.copy()
        hidden[rows] = -1
        graph = GraphPropagation().fit(X, hidden).transduction.probs[rows]
        logistic = LogisticRegression().fit(X[hidden >= 0], hidden[hidden >= 0]).predict_proba(X[rows])
        np.testing.assert_allclose(opinion.held_out["graph"][start : start + len(rows)], graph, atol=1e-6)
        np.testing.assert_allclose(opinion.held_out["logistic"][start : start + len(rows)], logistic, atol=1e-6)
        start += len(rows)


def test_one_label_in_every_class_leaves_no_folds() -> None:
    assert list(fit("table", per_class=1).weights.values()) == [0.25] * 4
    features = fit("features", per_class=1)
    assert list(features.weights.values()) == [0.25] * 4 and features.folds == () and not features.held_out


def test_a_class_with_one_label_trains_in_every_fold_and_is_held_out_in_none() -> None:
    X, labels, truth = table()
    labels[np.flatnonzero(labels == 2)[1:]] = -1
    opinion = Experts(trees=SMALL).fit(X, labels, 3, 0)
    held_out = labels[np.concatenate(opinion.folds)]
    assert set(held_out) == {0, 1} and opinion.held_out["forest"].shape == (8, 3)
    assert (opinion.prior.argmax(1) == truth).mean() > 0.8


def test_an_expert_that_guesses_nothing_is_not_believed() -> None:
    """Two rings: a straight line is blind to them."""
    draws = np.random.default_rng(0)
    angle, radius = draws.uniform(0, 2 * np.pi, 400), np.repeat([1.0, 2.0], 200)
    X = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).astype(np.float32)
    truth = np.repeat([0, 1], 200)
    labels = np.where(np.arange(400) % 20 == 0, truth, -1)
    opinion = Experts(trees=SMALL).fit(X, labels, 2, 0)
    assert opinion.weights["graph"] > 0.5 > 0.2 > opinion.weights["logistic"]


def test_neighbors_that_were_searched_before_change_nothing() -> None:
    X, labels, _ = table()
    experts = Experts(trees=SMALL)
    expected = experts.fit(X, labels, 3, 0)
    again = experts.fit(X, labels, 3, 0, experts.neighbors(X))
    np.testing.assert_array_equal(again.prior, expected.prior)
    with pytest.raises(UserError, match="other rows"):
        GraphPropagation().fit(X[1:], labels[1:], find_neighbors(X))


def test_the_mean_of_experts_beats_each_of_them_on_digits() -> None:
    X, truth = load_digits(return_X_y=True)
    X = ((X - X.mean()) / X.std()).astype(np.float32)
    labels = np.where(np.arange(len(X)) < 100, truth, -1)
    opinion = Experts(trees=20).fit(X, labels, 10, 0)
    unknown = labels < 0

    def accuracy(probs: Any) -> float:
        return float((probs.argmax(1) == truth)[unknown].mean())

    assert accuracy(opinion.mean) > max(accuracy(opinion.probs[name]) for name in ("logistic", "trees", "forest"))
    rows = np.concatenate(opinion.folds)
    assert opinion.held_out_mean.shape == (100, 10) and (opinion.held_out_mean.argmax(1) == truth[rows]).mean() > 0.7


def test_a_class_without_a_label_and_no_trees_are_mistakes() -> None:
    X, labels, _ = table()
    with pytest.raises(UserError, match="each of the 4 classes"):
        Experts(trees=SMALL).fit(X, labels, 4, 0)
    with pytest.raises(UserError, match="trees is 0"):
        Experts(trees=0)


@pytest.mark.parametrize("n_folds", [0, 5])
def test_logistic_regression_of_features_is_that_of_rows_of_length_1(n_folds: int) -> None:
    X, labels, _ = table()
    unit = np.random.default_rng(0).normal(size=(len(X), 40)) + X.repeat(10, 1)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    opinion = Experts(kind="features").fit((unit * np.sqrt(40)).astype(np.float32), labels, 3, 0, n_folds=n_folds)
    reference = LogisticRegression(C=3, tol=1e-8).fit(unit[labels >= 0], labels[labels >= 0]).predict_proba(unit)
    temperature = opinion.temperatures["logistic"]
    assert temperature < 0.8  # such a small C leaves the probabilities too even
    np.testing.assert_allclose(tempered(opinion.probs["logistic"], 1 / temperature), reference, atol=1e-3)
