"""Folds of partly labeled data: who is held out, who always trains, and what cannot be split."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from ict.base.errors import UserError
from ict.experts.folds import LabeledKFold, comparing_folds, hidden_folds


def partly(counts: dict[Any, int], unlabeled: int, missing: Any = -1, dtype: Any = None) -> Any:
    y = [c for c, n in counts.items() for _ in range(n)] + [missing] * unlabeled
    order = np.random.default_rng(0).permutation(len(y))
    return np.array([y[i] for i in order], dtype=dtype)


@pytest.mark.parametrize(
    ("y", "missing"),
    [
        (partly({0: 11, 1: 25}, 40), lambda v: v == -1),
        (partly({0.0: 11, 1.0: 25}, 40, np.nan), np.isnan),
        (partly({"cat": 11, "dog": 25}, 40, None, object), lambda v: v is None),
        (partly({"cat": 11, "dog": 25}, 40, -1, object), lambda v: v == -1),
        (partly({"cat": 11, "dog": 25}, 40, float("nan"), object), lambda v: v != v),
    ],
)
def test_unlabeled_rows_always_train_and_labeled_rows_are_tested_once(y: Any, missing: Any) -> None:
    unlabeled = {i for i, v in enumerate(y) if missing(v)}
    assert len(unlabeled) == 40
    tested: list[int] = []
    folds = list(LabeledKFold(5, random_state=0).split(np.zeros((len(y), 2)), y))
    assert len(folds) == 5
    for train, test in folds:
        assert unlabeled <= set(train.tolist())
        assert not set(train.tolist()) & set(test.tolist())
        assert len(train) + len(test) == len(y)
        rare = min(set(y[test].tolist()), key=y.tolist().count)
        assert 2 <= y[test].tolist().count(rare) <= 3  # 11 over 5 folds
        tested += test.tolist()
    assert sorted(tested) == sorted(set(range(len(y))) - unlabeled)


def test_seed_and_shuffle() -> None:
    y = partly({0: 20, 1: 20}, 10)

    def tests(**settings: Any) -> list[list[int]]:
        return [test.tolist() for _, test in LabeledKFold(4, **settings).split(y, y)]

    assert tests(random_state=1) == tests(random_state=1) != tests(random_state=2)
    assert tests(shuffle=False) == tests(shuffle=False, random_state=3)


def test_works_in_scikit_learn_where_every_row_is_labeled() -> None:
    x = np.r_[np.zeros((20, 1)), np.ones((20, 1))]
    y = np.repeat([0, 1], 20)
    assert cross_val_score(LogisticRegression(), x, y, cv=LabeledKFold(4, random_state=0)).tolist() == [1.0] * 4
    assert LabeledKFold(7).get_n_splits(x, y, None) == 7


def test_too_few_labels_are_named_not_worked_around() -> None:
    x = np.zeros((33, 1))
    with pytest.raises(UserError, match=r"5 folds .* '1' has 3: at most 3 folds"):
        list(LabeledKFold(5).split(x, partly({0: 10, 1: 3}, 20)))
    with pytest.raises(UserError, match="has 1: label more"):
        list(LabeledKFold(5).split(x, partly({0: 10, 1: 1}, 22)))
    with pytest.raises(UserError, match="no labeled row"):
        list(LabeledKFold(5).split(x, partly({}, 33)))
    with pytest.raises(UserError, match="33 rows"):
        list(LabeledKFold(5).split(x, partly({0: 10}, 3)))
    with pytest.raises(UserError, match="n_splits"):
        LabeledKFold(1)


@pytest.mark.parametrize(("fewest", "folds"), [(1, 0), (2, 2), (3, 3), (4, 4), (5, 5), (6, 3), (20, 3)])
def test_methods_are_compared_on_three_folds_or_one_for_each_of_few_labels(fewest: int, folds: int) -> None:
    assert comparing_folds(partly({0: 30, 1: fewest}, 40)) == folds


@pytest.mark.parametrize("per_class", [2, 3, 4, 5, 6])
def test_folds_of_few_labels_leave_every_class_as_many(per_class: int) -> None:
    y = partly({0: per_class, 1: per_class, 2: per_class}, 40)
    left = [np.bincount(hidden[hidden >= 0]) for hidden, _ in hidden_folds(y, comparing_folds(y), 0)]
    assert all(len(set(counts.tolist())) == 1 for counts in left)
