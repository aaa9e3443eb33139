"""Cross-validation for partly labeled data: only labeled rows are held out; unlabeled rows are always in training."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedKFold

from ict.base.errors import UserError
from ict.data.labels import UNLABELED, is_unlabeled

Rows = NDArray[np.intp]


class LabeledKFold:
    """A scikit-learn splitter. An unlabeled row has -1 in y, or None or NaN in arrays of floats or objects.

    Every labeled row is in one test fold. The folds are stratified by class.
    """

    def __init__(self, n_splits: int = 5, shuffle: bool = True, random_state: Any = None) -> None:
        if isinstance(n_splits, bool) or not isinstance(n_splits, int | np.integer) or n_splits < 2:
            raise UserError(f"n_splits is {n_splits!r}: set a whole number of at least 2.")
        self.n_splits = int(n_splits)
        self.shuffle = shuffle
        self.random_state = random_state

    def split(self, X: Any, y: ArrayLike, groups: object = None) -> Iterator[tuple[Rows, Rows]]:
        """Yields for each fold the training rows and the labeled test rows. `groups` is not used."""
        del groups
        labels = np.asarray(y)
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if labels.shape != (n,):
            raise UserError(f"X has {n} rows and y the shape {labels.shape}: give one label, or -1, for every row.")
        labeled = np.flatnonzero(~is_unlabeled(labels))
        if not len(labeled):
            raise UserError("y has no labeled row: label at least two of every class.")
        classes, index = np.unique(np.array([str(v) for v in labels[labeled]]), return_inverse=True)
        count = np.bincount(index)
        if count.min() < self.n_splits:
            scarce, most = classes[count.argmin()], int(count.min())
            advice = f"at most {most} folds are possible" if most > 1 else "label more of it"
            raise UserError(
                f"{self.n_splits} folds need as many labels per class, but '{scarce}' has {most}: {advice}."
            )
        seed = self.random_state if self.shuffle else None
        folds = StratifiedKFold(self.n_splits, shuffle=self.shuffle, random_state=seed)
        every = np.arange(n)
        for _, test in folds.split(labeled, index):
            held_out = labeled[test]
            yield np.setdiff1d(every, held_out, assume_unique=True), held_out

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        del X, y, groups
        return self.n_splits


def hidden_folds(labels: NDArray[np.int64], n_folds: int, seed: int) -> Iterator[tuple[NDArray[np.int64], Rows]]:
    """For each fold of the labeled rows the labels without it, and its rows."""
    for _, held_out in LabeledKFold(n_folds, random_state=seed % 2**32).split(labels, labels):
        hidden = labels.copy()
        hidden[held_out] = UNLABELED
        yield hidden, held_out
