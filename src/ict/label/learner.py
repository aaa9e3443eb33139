"""Learns from the labels so far: the experts' guesses, what to ask next, and what may be accepted together.

There are no folds and no networks, so that a round takes about a second. Typical examples come first, until there are
ten labels a class on average; then those of which the experts are least certain.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import cohen_kappa_score
from threadpoolctl import threadpool_limits

from ict.base.array_types import Array, Rows
from ict.data.array_inputs import fit_features, fit_inputs, has_same_length
from ict.data.labels import UNLABELED
from ict.experts.experts import Experts
from ict.experts.graph import GRAPH_LIMIT
from ict.experts.neighbors import Neighbors
from ict.experts.principal import principal_axes
from ict.fit.label_next import suggest
from ict.fit.typical import typical
from ict.label.rounds import Request, Round

TYPICAL_FIRST = 10  # labels a class on average, before uncertain examples are asked
_TYPICAL = 20  # asked at once: a round comes before they are used up
_AXES = 64  # of the features by which examples are alike
_TREES = 50  # in each ensemble of experts on tables
_ALIKE, _MOST_KINDS = 30, 100  # examples in a cluster of alike ones on average; clusters
_GROUP, _GROUPS = 12, 40  # examples that are accepted together; such groups


class Learner:
    """Learns about examples `x`: features of a backbone, followed by `n_beside` pixels, or those of a table.

    `units`: of the table's features, see `fit_inputs`.
    """

    def __init__(
        self, x: Array, *, embedded: bool = False, n_beside: int = 0, units: Sequence[float] = (), seed: int = 0
    ) -> None:
        inputs = fit_features(x, n_beside) if embedded else fit_inputs(x, units)
        self._inputs = inputs(x).reshape(len(x), -1)
        self._experts = Experts(kind="features" if has_same_length(self._inputs) else "table", trees=_TREES)
        self._seed = seed
        self._compact = principal_axes(self._inputs, _AXES, seed % 2**32)
        self._kinds = _kinds(self._compact, seed)
        self._neighbors: tuple[Neighbors, ...] | None = None
        self._before: Array | None = None  # the guesses of the round before, as names

    def round(self, request: Request) -> Round:
        classes = tuple(sorted(set(request.labels)))
        free = np.setdiff1d(np.arange(len(self._inputs)), np.concatenate([request.rows, request.taken, request.checks]))
        n_classes = max(request.n_classes, 2)
        order = self._typical(request, free) if len(request.rows) < TYPICAL_FIRST * n_classes else None
        if len(classes) < 2:
            groups = _groups(free, self._kinds, None, None, request.labels)
            return Round(len(request.rows), free[:0] if order is None else order, groups, classes)
        probs = self._probabilities(request, classes)
        guesses = probs.argmax(1)
        chances = probs[np.arange(len(probs)), guesses]
        if order is None:
            suggestions = suggest(probs[free], lambda rows: self._compact[free[rows]], self._seed)
            order = free[[one.row for one in suggestions]]
        groups = _groups(free, self._kinds, guesses, chances, [classes.index(label) for label in request.labels])
        agreement = self._agreement(np.array(classes)[guesses], request.rows)
        return Round(len(request.rows), order, groups, classes, guesses, chances, agreement)

    def _typical(self, request: Request, free: Rows) -> Rows:
        """Typical examples of clusters without a label. An example that was skipped stands for its cluster too."""
        among = np.setdiff1d(np.arange(len(self._inputs)), request.checks)
        done = np.setdiff1d(among, free)
        chosen = typical(self._compact[among], _TYPICAL, self._seed, np.flatnonzero(np.isin(among, done)))
        return among[[one.row for one in chosen]].astype(np.int64)

    def _probabilities(self, request: Request, classes: tuple[str, ...]) -> Array:
        if self._neighbors is None and len(self._inputs) <= GRAPH_LIMIT:
            self._neighbors = self._experts.neighbors(self._inputs)
        labels = np.full(len(self._inputs), UNLABELED)
        labels[request.rows] = [classes.index(label) for label in request.labels]
        return self._experts.fit(self._inputs, labels, len(classes), self._seed, self._neighbors, n_folds=0).mean

    def _agreement(self, guesses: Array, learned: Rows) -> float | None:
        before, self._before = self._before, guesses
        if before is None:
            return None
        rest = np.setdiff1d(np.arange(len(guesses)), learned)
        if len(set(before[rest]) | set(guesses[rest])) < 2:
            return 1.0
        return float(cohen_kappa_score(before[rest], guesses[rest]))


def _kinds(compact: Array, seed: int) -> Rows:
    """The cluster of each example, by which alike ones are shown together."""
    n_kinds = int(np.clip(len(compact) // _ALIKE, 1, _MOST_KINDS))
    n_kinds = min(n_kinds, len(np.unique(compact, axis=0)))
    with threadpool_limits(1):
        means = KMeans(n_kinds, n_init=1, max_iter=50, random_state=seed % 2**32).fit(compact)
    return np.asarray(means.labels_, np.int64)


def _groups(
    free: Rows, kinds: Rows, guesses: Rows | None, chances: Array | None, known: "list[int] | tuple[str, ...]"
) -> tuple[Rows, ...]:
    """Free examples of a cluster with one guess, the surest first. Groups of classes with few labels come first."""
    by_group: dict[tuple[int, int], list[int]] = {}
    for row in free.tolist():
        guess = UNLABELED if guesses is None else int(guesses[row])
        by_group.setdefault((guess, int(kinds[row])), []).append(row)
    labels = Counter(known)
    order = sorted(by_group, key=lambda key: (labels[key[0]], -len(by_group[key]), key))
    groups = []
    for key in order:
        rows = np.array(by_group[key], np.int64)
        if len(rows) > 1:
            groups.append(rows if chances is None else rows[np.argsort(-chances[rows], kind="stable")])
    return tuple(rows[:_GROUP] for rows in groups[:_GROUPS])
