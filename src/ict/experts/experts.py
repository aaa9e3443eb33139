"""Several experts predict the class of every row; their weights depend on their accuracy on held-out labels.

Experts learn from the labeled rows, or spread the labels over a graph of all rows. Each gets a temperature and a
weight, fitted to its probabilities for labeled rows in the folds that hold them out. On features of a pretrained
network there are two more, over a wide graph of the principal axes: "principal", a logistic regression along these axes
whose predictions spread, and "spread", where the labels do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ict.base.array_types import Array, Labels, Rows
from ict.base.errors import UserError
from ict.base.fields import check_fields, positive
from ict.data.labels import UNLABELED
from ict.experts import classical
from ict.experts.folds import groups_of_classes, hidden_folds
from ict.experts.graph import GRAPH, GRAPH_LIMIT, GraphPropagation
from ict.experts.mixture import mixture_weights
from ict.experts.neighbors import Neighbors, Search, find_neighbors
from ict.experts.principal import spread_labels, spread_predictions, wide_neighbors
from ict.experts.temperature import fit_temperature, tempered

Kind = Literal["table", "features", "graph"]
MEMBERS: dict[Kind, tuple[str, ...]] = {
    "table": ("logistic", "trees", "forest", GRAPH),
    "features": ("logistic", "principal", "spread", GRAPH),
    "graph": (GRAPH,),
}
_NEED_NEIGHBORS = ("principal", "spread", GRAPH)
_FOLDS = 5
_FAR = 8.0  # inputs are clipped at this many deviations from the mean
# Temperatures on features, where a small C leaves the probabilities of logistic regression too even, as a graph does:
_EVEN = 0.15  # before its predictions spread over the graph
_SPREAD = 0.1  # of labels that spread
_WITHOUT_FOLDS = 0.5  # of both logistic regressions


@dataclass(frozen=True)
class Opinion:
    """The experts' predictions. Rows of probabilities sum to 1."""

    prior: NDArray[np.float32]  # [n, classes]: the weighted mean of the experts; a known row has its label
    weights: Mapping[str, float]  # by expert; they sum to 1
    temperatures: Mapping[str, float]
    probs: Mapping[str, Array]  # [n, classes] by expert, at its temperature
    folds: tuple[Rows, ...] = ()  # the held-out rows of each fold; empty if no class has two labels
    held_out: Mapping[str, Array] = field(default_factory=dict)  # [rows of all folds, classes] by expert, at T = 1

    @property
    def mean(self) -> Array:
        """The weighted mean of the experts, without the known labels."""
        return _mean(self.probs, self.weights)

    @property
    def held_out_mean(self) -> Array:
        """The weighted mean for the held-out rows, fold after fold."""
        return _mean(
            {name: tempered(probs, self.temperatures[name]) for name, probs in self.held_out.items()}, self.weights
        )


@dataclass(frozen=True, kw_only=True)
class Experts:
    """kind: experts for a "table" of measurements, for "features" of a pretrained network, or only the "graph".

    trees: the number of trees in each of the two ensembles.
    """

    kind: Kind = "table"
    trees: int = 200

    def __post_init__(self) -> None:
        check_fields(self)
        positive(trees=self.trees)

    def fit(
        self,
        inputs: Array,
        labels: Labels,
        n_classes: int,
        seed: int,
        neighbors: Sequence[Neighbors] | None = None,
        groups: Rows | None = None,
        *,
        n_folds: int = _FOLDS,
    ) -> Opinion:
        """Fit all experts. `inputs` are scaled, [n, ...]; `labels` are -1 where unknown, at least one per class.

        `neighbors`: an earlier result of `self.neighbors(inputs)`, to avoid a second search. `groups`: numbers; rows of
        one group share a fold. `n_folds`: at most so many; with 0, which is much faster, no weights are fitted.
        """
        known = labels >= 0
        if len(np.unique(labels[known])) != n_classes:
            raise UserError(f"experts need a label for each of the {n_classes} classes: label one more example.")
        rows = _flat(inputs)
        small = len(rows) <= GRAPH_LIMIT
        names = tuple(name for name in MEMBERS[self.kind] if small or name not in _NEED_NEIGHBORS)
        if not names:
            raise UserError(
                f"the graph takes up to {GRAPH_LIMIT:,} rows and there are {len(rows):,}: choose other experts."
            )
        if GRAPH in names and neighbors is None:
            neighbors = self.neighbors(rows)

        def ask(name: str, labels: Labels, of: NDArray[Any]) -> Array:
            return self._probabilities(name, rows, labels, of, seed, neighbors)

        folds, held_out = _folds(names, labels, seed, ask, groups, n_folds)
        temperatures = self._temperatures_without_folds(names)
        weights = dict.fromkeys(names, 1 / len(names))
        if folds:
            truth = labels[np.concatenate(folds)]
            temperatures = {name: fit_temperature(probs, truth) for name, probs in held_out.items()}
            likelihoods = [tempered(held_out[name], temperatures[name])[np.arange(len(truth)), truth] for name in names]
            weights = dict(zip(names, mixture_weights(np.stack(likelihoods, axis=1)).tolist(), strict=True))
        every = np.arange(len(rows))
        probs = {name: tempered(ask(name, labels, every), temperatures[name]) for name in names}
        prior = with_labels(_mean(probs, weights), labels)
        return Opinion(prior, weights, temperatures, probs, folds, held_out)

    def neighbors(self, inputs: Array) -> tuple[Neighbors, ...]:
        """The neighbors for the graphs, one for each of `searches`, which `fit` can use several times."""
        return tuple(search(_flat(inputs)) for search in self.searches)

    @property
    def searches(self) -> tuple[Search, ...]:
        """What searches them."""
        return (find_neighbors, wide_neighbors) if self.kind == "features" else (find_neighbors,)

    def _probabilities(
        self,
        name: str,
        rows: Array,
        labels: Labels,
        of: NDArray[Any],
        seed: int,
        neighbors: Sequence[Neighbors] | None,
    ) -> Array:
        """The probabilities of one expert, fitted to all `labels`, for the rows `of`."""
        if name in _NEED_NEIGHBORS:
            assert neighbors is not None
            return np.asarray(_over_graph(name, rows, labels, neighbors)[of], dtype=np.float64)
        known = labels >= 0
        x, y, seed = rows[known], labels[known], seed % 2**32
        if (y == y[0]).all():
            return np.ones((len(of), 1))
        if name == "logistic":
            return classical.logistic(x, y, seed, features=self.kind == "features")(rows[of])
        fit = classical.trees if name == "trees" else classical.forest
        return fit(x, y, seed, n_trees=self.trees)(rows[of])

    def _temperatures_without_folds(self, names: tuple[str, ...]) -> dict[str, float]:
        even = ("logistic", "principal") if self.kind == "features" else ()
        return {name: _WITHOUT_FOLDS if name in even else 1.0 for name in names}


def _over_graph(name: str, rows: Array, labels: Labels, neighbors: Sequence[Neighbors]) -> Array:
    """The probabilities of all rows by an expert that needs neighbors."""
    if name == GRAPH:
        return GraphPropagation().fit(rows, labels, neighbors[0]).transduction.probs
    wide, known = neighbors[1], labels >= 0
    if name == "spread":
        return tempered(spread_labels(wide, labels, int(labels.max()) + 1), _SPREAD)
    axes = wide.rows
    if (labels[known] == labels[known][0]).all():
        return np.ones((len(rows), 1))
    guesses = tempered(classical.logistic(axes[known], labels[known], 0, features=True)(axes), _EVEN)
    return spread_predictions(wide, with_labels(guesses, labels))


def _folds(
    names: tuple[str, ...],
    labels: Labels,
    seed: int,
    ask: Callable[[str, Labels, NDArray[Any]], Array],
    groups: Rows | None,
    n_folds: int,
) -> tuple[tuple[Rows, ...], dict[str, Array]]:
    """The held-out rows of the folds, and the experts' probabilities for them.

    A class with one label is in every training part and is not used to compare experts.
    """
    counts = groups_of_classes(labels, groups)
    if counts.max() < 2 or not n_folds:
        return (), {}
    single = np.isin(labels, np.flatnonzero(counts == 1))
    judged = np.where(single, UNLABELED, labels)
    folds, parts = [], []
    for hidden, rows in hidden_folds(judged, min(n_folds, int(counts[counts > 1].min())), seed, groups):
        hidden[single] = labels[single]
        folds.append(rows)
        parts.append([ask(name, hidden, rows) for name in names])
    return tuple(folds), {
        name: np.concatenate(probs) for name, probs in zip(names, zip(*parts, strict=True), strict=True)
    }


def with_labels(probs: Array, labels: Labels) -> NDArray[np.float32]:
    """The probabilities of all rows as a prior: those of a known row are its label."""
    known = labels >= 0
    prior = probs.astype(np.float32)
    prior[known] = np.eye(probs.shape[1], dtype=np.float32)[labels[known]]
    return prior


def _mean(probs: Mapping[str, Array], weights: Mapping[str, float]) -> Array:
    mean = sum(weights[name] * probs[name] for name in probs)
    return np.asarray(mean / np.sum(mean, axis=1, keepdims=True))


def _flat(inputs: Array) -> Array:
    return np.asarray(inputs.reshape(len(inputs), -1).clip(-_FAR, _FAR))
