"""Cross-validation for partly labeled data: only labeled rows are held out; unlabeled rows are always in training."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.utils import check_random_state

from ict.base.array_types import Rows
from ict.base.errors import UserError
from ict.data.labels import UNLABELED, is_unlabeled

_FOLDS = 3  # by which methods are compared
_FEW = 5  # labels of a class: so many folds at most
_ATTEMPTS = 10  # divisions of groups, of which the first that leaves every class in training is taken


class LabeledKFold:
    """A scikit-learn splitter. An unlabeled row has -1 in y, or None or NaN in arrays of floats or objects.

    Every labeled row is in one test fold. The folds are stratified by class. Rows of one group share a fold.
    """

    def __init__(self, n_splits: int = 5, shuffle: bool = True, random_state: Any = None) -> None:
        if isinstance(n_splits, bool) or not isinstance(n_splits, int | np.integer) or n_splits < 2:
            raise UserError(f"n_splits is {n_splits!r}: set a whole number of at least 2.")
        self.n_splits = int(n_splits)
        self.shuffle = shuffle
        self.random_state = random_state

    def split(self, X: Any, y: ArrayLike, groups: Any = None) -> Iterator[tuple[Rows, Rows]]:
        """Yields for each fold the training rows and the labeled test rows. `groups` has one entry for every row."""
        labels = np.asarray(y)
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if labels.shape != (n,):
            raise UserError(f"X has {n} rows and y the shape {labels.shape}: give one label, or -1, for every row.")
        labeled = np.flatnonzero(~is_unlabeled(labels))
        if not len(labeled):
            raise UserError("y has no labeled row: label at least two of every class.")
        classes, index = np.unique(np.array([str(v) for v in labels[labeled]]), return_inverse=True)
        group = np.arange(len(labeled)) if groups is None else _numbered(groups, n)[labeled]
        count = groups_of_classes(index, group)
        if count.min() < self.n_splits:
            scarce, most = classes[count.argmin()], int(count.min())
            advice = f"at most {most} folds are possible" if most > 1 else "label more of it"
            what = "labels" if len(set(group.tolist())) == len(group) else "labeled groups"
            raise UserError(
                f"{self.n_splits} folds need as many {what} per class, but '{scarce}' has {most}: {advice}."
            )
        every = np.arange(n)
        for test in self._tests(index, group):
            held_out = labeled[test]
            yield np.setdiff1d(every, held_out, assume_unique=True), held_out

    def _tests(self, index: Rows, group: Rows) -> list[Rows]:
        seed = self.random_state if self.shuffle else None
        if len(np.unique(group)) == len(group):
            plain = StratifiedKFold(self.n_splits, shuffle=self.shuffle, random_state=seed)
            return [test for _, test in plain.split(index, index)]
        for attempt in check_random_state(seed).randint(2**31, size=_ATTEMPTS):
            grouped = StratifiedGroupKFold(self.n_splits, shuffle=True, random_state=int(attempt))
            folds = list(grouped.split(index, index, group))
            if all(len(test) and len(np.unique(index[train])) > index.max() for train, test in folds):
                return [test for _, test in folds]
        raise UserError(
            f"the groups do not divide into {self.n_splits} folds that leave labels of every class to train on: "
            "label more groups."
        )

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        del X, y, groups
        return self.n_splits


def _numbered(groups: Sequence[Any] | NDArray[Any], n: int) -> Rows:
    if len(groups) != n:
        raise UserError(f"there are {len(groups)} groups for {n} rows: give one for every row.")
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(str(group), len(numbers)) for group in groups], np.intp)


def fold_groups(rows: NDArray[Any], labels: NDArray[np.int64], groups: Any = None) -> Rows:
    """A number for every row, the same for labeled rows that are identical or in one group, also through others."""
    labeled = np.flatnonzero(labels >= 0)
    first: dict[bytes, np.intp] = {}
    twins = [first.setdefault(blake2b(rows[i].tobytes(), digest_size=16).digest(), i) for i in labeled]
    ends, others = labeled, np.array(twins, np.intp)
    if groups is not None:
        _, start, of = np.unique(_numbered(groups, len(labels))[labeled], return_index=True, return_inverse=True)
        ends, others = np.concatenate([labeled, labeled]), np.concatenate([others, labeled[start][of]])
    pairs = coo_array((np.ones(len(ends)), (ends, others)), shape=(len(labels), len(labels)))
    return np.asarray(connected_components(pairs, directed=False)[1], np.intp)


def groups_of_classes(labels: NDArray[np.int64], groups: Rows | None = None) -> NDArray[np.int64]:
    """In how many groups each class has a label; -1 is no class. Without groups that is the number of its labels."""
    known = np.flatnonzero(labels >= 0)
    group = known if groups is None else groups[known]
    return np.bincount(np.unique(np.stack([labels[known], group]), axis=1)[0])


def possible_folds(labels: NDArray[np.int64], most: int, groups: Rows | None = None) -> int:
    """How many folds, up to `most`, every class has labels for in different groups; 0 if it is one."""
    fewest = int(groups_of_classes(labels, groups).min())
    return min(most, fewest) if fewest >= 2 else 0


def comparing_folds(labels: NDArray[np.int64], groups: Rows | None = None) -> int:
    """How many folds compare methods: three, or as many as the scarcest class has labels if those are few; 0 if one.

    So a fold of few labels takes one of every class. If it took two of some and one of others, the model would learn
    that the former are rare, and be judged on them most.
    """
    fewest = int(groups_of_classes(labels, groups).min())
    return possible_folds(labels, fewest if fewest <= _FEW else _FOLDS, groups)


def hidden_folds(
    labels: NDArray[np.int64], n_folds: int, seed: int, groups: Rows | None = None
) -> Iterator[tuple[NDArray[np.int64], Rows]]:
    """For each fold of the labeled rows the labels without it, and its rows."""
    for _, held_out in LabeledKFold(n_folds, random_state=seed % 2**32).split(labels, labels, groups):
        hidden = labels.copy()
        hidden[held_out] = UNLABELED
        yield hidden, held_out
