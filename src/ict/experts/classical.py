"""scikit-learn models that learn only from the labeled rows: logistic regression, extra trees, random forest."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ict.base.array_types import Array

Predictor = Callable[[Array], Array]
"""From inputs [n, features] to class probabilities [n, classes]."""

_TABLE = 1.0  # C for standardized tables
_UNIT = 3.0  # C for features of length 1: with few labels a larger one follows chance, most of all on texts


def logistic(inputs: Array, labels: Array, seed: int, *, features: bool) -> Predictor:
    del seed  # it draws nothing
    return _checked(_logistic(inputs, labels, features).predict_proba)


def logistic_layer(inputs: Array, labels: Array, *, features: bool) -> tuple[Array, Array]:
    """The weights [classes, features] and biases [classes] of a layer whose softmax is `logistic`."""
    if (labels == labels[0]).all():  # scikit-learn refuses a single class
        return np.zeros((1, inputs.shape[1])), np.zeros(1)
    fitted = _logistic(inputs, labels, features)
    weights, biases = fitted.coef_, fitted.intercept_
    if len(weights) == 1:  # of two classes scikit-learn keeps the difference alone
        weights, biases = np.concatenate([0 * weights, weights]), np.concatenate([0 * biases, biases])
    return weights, biases


def _logistic(inputs: Array, labels: Array, features: bool) -> Any:
    from sklearn.linear_model import LogisticRegression

    c = _UNIT / inputs.shape[1] if features else _TABLE  # they have the length sqrt(f)
    return _fitted(LogisticRegression(C=c, max_iter=1000), inputs, labels)


def trees(inputs: Array, labels: Array, seed: int, *, n_trees: int) -> Predictor:
    """Extremely randomized trees."""
    from sklearn.ensemble import ExtraTreesClassifier

    return _checked(_fitted(ExtraTreesClassifier(n_trees, random_state=seed), inputs, labels).predict_proba)


def forest(inputs: Array, labels: Array, seed: int, *, n_trees: int) -> Predictor:
    from sklearn.ensemble import RandomForestClassifier

    return _checked(_fitted(RandomForestClassifier(n_trees, random_state=seed), inputs, labels).predict_proba)


def _fitted(model: Any, inputs: Array, labels: Array) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes")  # one label a class is no regression
        return model.fit(inputs, labels)


def _checked(predict: Callable[[Array], Any]) -> Predictor:
    return lambda inputs: np.asarray(predict(inputs), dtype=np.float64)
