"""Label spreading over a sparse nearest-neighbor graph (Zhou et al. 2004), in two passes, without n x n matrices.

    F = (1 - alpha) (I - alpha S)^-1 Y,    S = D^-1/2 W D^-1/2

The first pass, with alpha near 1, carries the labels far; its classes are balanced. The second, with alpha 0.9, starts
from the labels and, with a small weight, the guesses of the first pass. It sharpens what the first pass blurred.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components, dijkstra
from sklearn.neighbors import NearestNeighbors

from ict.base.array_types import Array
from ict.base.errors import UserError
from ict.experts.neighbors import Neighbors, feature_rows, find_neighbors

GRAPH = "graph"  # its name among the methods
GRAPH_LIMIT = 100_000  # rows: beyond that the exact search for neighbors takes minutes
CHUNK = 4096  # new rows per query
TOLERANCE = 1e-12  # of the solver: the error of an entry of F is at most this times the norm of its column of Y
FAINT = 1e-10  # rows with a smaller sum of F are too near the tolerance to be used
NEAR = 2  # this many nearest rows stay neighbors even if not mutual, so that the graph has fewer separate parts
SHARPNESS = 4.0  # of the edge weights exp(-SHARPNESS d^2 / (scale_i scale_j))
FLOOR = 1e-6  # of an edge's weight: beside a dense cluster an outlier's weights would vanish and cut it off
BALANCING_ROUNDS = 20
DOUBT = 0.2  # a guess with a margin below this fraction of the mean margin gets a smaller weight


@dataclass(frozen=True)
class Propagated:
    probs: NDArray[np.float32]  # [n, C]; rows sum to 1
    reached: NDArray[np.bool_]  # [n]; whether the graph has a path from a label to the row


class GraphPropagation:
    """Predicts the classes of unlabeled rows and of new ones from few labels and the structure of the data.

    Distances are Euclidean: put the features on one scale first. Rows with the same values are one node. Rows that no
    label reaches get the answer of the reached rows nearest to them.

    n_neighbors: edges per row, before those that are not mutual are dropped.
    alpha: how far labels spread in the first pass, below 1.
    class_balance: all classes have the same weight, whatever their numbers of labels, and the first pass divides the
        rows evenly among them. Without it frequent labels win, which is right only if labels were drawn like the rows.
    guess: the weight of a row's guessed class in the second pass, relative to a label; 0 skips that pass.
    second_alpha: how far labels spread in the second pass.
    """

    transduction: Propagated

    def __init__(
        self,
        *,
        n_neighbors: int = 10,
        alpha: float = 0.998,
        class_balance: bool = True,
        guess: float = 0.02,
        second_alpha: float = 0.9,
    ) -> None:
        if n_neighbors < 1:
            raise UserError(f"n_neighbors is {n_neighbors}: set at least 1.")
        for name, value in (("alpha", alpha), ("second_alpha", second_alpha)):
            if not 0 <= value < 1:
                raise UserError(f"{name} is {value}: set a number from 0 to below 1.")
        if not 0 <= guess <= 1:
            raise UserError(f"guess is {guess}: set a number from 0 to 1.")
        self.n_neighbors = n_neighbors
        self.alpha = alpha
        self.class_balance = class_balance
        self.guess = guess
        self.second_alpha = second_alpha

    def fit(self, x: Array, y: NDArray[np.int64], neighbors: Neighbors | None = None) -> Self:
        """x: [n, features], or images; y: [n], the class from 0 on, -1 for an unlabeled row.

        `neighbors`: what `find_neighbors` gave for the same x and n_neighbors, so that they are not searched again.
        """
        y = np.asarray(y)
        if len(x) == 0 or y.shape != (len(x),):
            raise UserError(f"x has {len(x)} rows and y the shape {y.shape}: give one class, or -1, for every row.")
        if not np.issubdtype(y.dtype, np.integer) or y.min() < -1:
            raise UserError("y must hold whole numbers: the class from 0 on, -1 for an unlabeled row.")
        if y.max() < 0:
            raise UserError("y has no labeled row: label at least one.")
        neighbors = neighbors or find_neighbors(x, self.n_neighbors)
        if len(neighbors.node) != len(y) or neighbors.far.shape[1] != min(self.n_neighbors, len(neighbors.nodes) - 1):
            raise UserError("the neighbors are of other rows or of another n_neighbors: search them for this x.")
        self._center, self._search, node = neighbors.center, neighbors.search, neighbors.node
        weights, self._scale = edge_weights(neighbors), _scale(neighbors)
        labels = np.zeros((len(neighbors.nodes), int(y.max()) + 1))
        labeled = y >= 0
        np.add.at(labels, (node[labeled], y[labeled]), 1.0)

        component = connected_components(weights, directed=False)[1]
        reached = np.isin(component, component[labels.any(axis=1)])
        self._probs = self._spread(weights, labels, reached)
        if not reached.all():
            self._probs[~reached] = self._from_nearest(neighbors.nodes[~reached], np.flatnonzero(reached))
        self.transduction = Propagated(self._probs[node].astype(np.float32), reached[node])
        return self

    def predict_proba(self, x_new: Array) -> NDArray[np.float32]:
        """[m, C]: the mean answer of the nearest training rows, weighted by distance."""
        if not hasattr(self, "_probs"):
            raise UserError("this GraphPropagation is not fitted yet: call fit first.")
        rows = feature_rows(x_new)
        if rows.shape[1] != len(self._center):
            raise UserError(
                f"x_new has {rows.shape[1]} features, not {len(self._center)}: give those of the training rows."
            )
        return self._from_nearest(rows - self._center, None).astype(np.float32)

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments."""
        names = ("n_neighbors", "alpha", "class_balance", "guess", "second_alpha")
        return {name: getattr(self, name) for name in names}

    def arrays(self) -> dict[str, Array]:
        """The arrays that `predict_proba` needs: the training rows, their answers and their scales."""
        return {"center": self._center, "nodes": self._search._fit_X, "probs": self._probs, "scale": self._scale}

    def restored(self, arrays: dict[str, Array]) -> Self:
        """Restore a fitted state from `arrays`, without `transduction`."""
        nodes, self._center = arrays["nodes"], arrays["center"]
        self._probs, self._scale = arrays["probs"], arrays["scale"]
        if nodes.shape != (len(self._scale), len(self._center)) or len(self._probs) != len(nodes):
            raise ValueError("the arrays of the graph do not fit each other")
        self._search = NearestNeighbors().fit(nodes)
        return self

    def _spread(self, weights: sp.csr_array, labels: Array, reached: NDArray[np.bool_]) -> Array:
        """Both passes; rows that no label reaches stay zero."""
        smooth = normalized(weights)
        seeds = labels * _balance(labels) if self.class_balance else labels
        probs = _answers(solve(smooth, seeds, self.alpha), weights, reached)
        if self.class_balance:
            for _ in range(BALANCING_ROUNDS):
                mass = probs.sum(axis=0)
                probs = _normalized(probs / np.where(mass > 0, mass, 1.0))
        if not self.guess:
            return probs
        top = np.sort(probs, axis=1)
        margin = top[:, -1] - (top[:, -2] if probs.shape[1] > 1 else 0.0)
        unlabeled = reached & ~labels.any(axis=1)
        if unlabeled.any() and margin[unlabeled].mean() > 0:
            sure = np.minimum(margin / (DOUBT * margin[unlabeled].mean()), 1.0)
            index = np.flatnonzero(unlabeled)
            seeds = seeds.copy()
            seeds[index, probs[index].argmax(axis=1)] = self.guess * sure[index]
        return _answers(solve(smooth, seeds, self.second_alpha), weights, reached)

    def _from_nearest(self, rows: Array, among: NDArray[np.intp] | None) -> Array:
        """The weighted mean of the answers of the nodes nearest to each row, only of the nodes `among` if given."""
        search = self._search if among is None else NearestNeighbors().fit(self._search._fit_X[among])
        k = min(self.n_neighbors, search.n_samples_fit_)
        answers = np.empty((len(rows), self._probs.shape[1]))
        for start in range(0, len(rows), CHUNK):
            chunk = slice(start, start + CHUNK)
            far, near = search.kneighbors(rows[chunk], k)
            near = near if among is None else among[near]
            scale = np.maximum(far[:, -1:] * self._scale[near], np.finfo(np.float64).tiny)
            weight = np.maximum(np.exp(-np.square(far) / scale), FLOOR)
            answers[chunk] = _normalized(np.einsum("nk,nkc->nc", weight, self._probs[near]))
        return answers


def edge_weights(neighbors: Neighbors, sharpness: float = SHARPNESS, *, mutual: bool = True) -> sp.csr_array:
    """Symmetric weights of edges (Zelnik-Manor, Perona 2004): between mutual neighbors and the nearest, or all."""
    far, near = neighbors.far, neighbors.near
    n, k = far.shape
    if k == 0:
        return sp.csr_array((n, n))
    scale = _scale(neighbors)
    width = np.maximum(scale[:, None] * scale[near], np.finfo(np.float64).tiny)
    weight = np.maximum(np.exp(-sharpness * np.square(far) / width), FLOOR)

    def edges(first: int) -> sp.csr_array:
        columns = near[:, :first].flatten()  # a copy: sorting below is in place
        starts = np.arange(0, columns.size + 1, min(first, k))
        matrix = sp.csr_array((weight[:, :first].flatten(), columns, starts), shape=(n, n))
        matrix.sort_indices()
        return matrix

    every = edges(k)
    if not mutual:
        return sp.csr_array(every.maximum(every.T.tocsr()))
    nearest = edges(NEAR)
    return sp.csr_array(every.minimum(every.T.tocsr()).maximum(nearest).maximum(nearest.T.tocsr()))


def _scale(neighbors: Neighbors) -> NDArray[np.float64]:
    """The distance of every node to its k-th neighbor."""
    return neighbors.far[:, -1] if neighbors.far.shape[1] else np.zeros(len(neighbors.far))


def normalized(weights: sp.csr_array) -> sp.csr_array:
    """D^-1/2 W D^-1/2."""
    root = 1.0 / np.sqrt(np.maximum(weights.sum(axis=1), FLOOR))
    return sp.csr_array(weights.multiply(root[:, None]).multiply(root[None, :]))


def _balance(labels: Array) -> Array:
    """The weight of a label of each class: the classes have equal weights, and labels 1 on average."""
    count = labels.sum(axis=0)
    return np.where(count > 0, count.sum() / np.maximum(count, 1.0) / np.count_nonzero(count), 0.0)


def solve(smooth: sp.csr_array, seeds: Array, alpha: float) -> Array:
    """(1 - alpha) (I - alpha S)^-1 Y by conjugate gradients, all columns at once.

    The eigenvalues of I - alpha S lie between 1 - alpha and 1 + alpha, so that a residual of TOLERANCE (1 - alpha) |Y|
    bounds the error by TOLERANCE |Y|, and the number of rounds depends only on alpha.
    """
    solution = np.zeros_like(seeds)
    residual = (1 - alpha) * seeds
    direction = residual.copy()
    size = np.square(residual).sum(axis=0)
    goal = size * TOLERANCE**2
    rounds = int(45 / np.sqrt(1 - alpha)) + 20  # twice the theoretical number; rounding can stall the last digits
    for _ in range(rounds):
        if (size <= goal).all():
            break
        image = direction - alpha * (smooth @ direction)
        curve = (direction * image).sum(axis=0)
        step = np.where(size > goal, size / np.where(curve > 0, curve, 1.0), 0.0)
        solution += step * direction
        residual -= step * image
        before, size = size, np.square(residual).sum(axis=0)
        direction = residual + size / np.where(before > 0, before, 1.0) * direction
    return solution


def _answers(spread: Array, weights: sp.csr_array, reached: NDArray[np.bool_]) -> Array:
    """Normalized rows. A row too far from all labels for the solver's accuracy takes the answer of a closer one."""
    spread = np.maximum(spread, 0.0)
    spread[~reached] = 0.0
    mass = spread.sum(axis=1)
    clear = mass > FAINT * mass.max()
    probs = _normalized(spread)
    if not clear[reached].all():
        length = weights.copy()
        length.data = 1.0 / length.data  # along heavy edges
        source = dijkstra(length, indices=np.flatnonzero(clear), min_only=True, return_predecessors=True)[2]
        faint = np.flatnonzero(reached & ~clear)
        probs[faint] = probs[source[faint]]
    return probs


def _normalized(rows: Array) -> Array:
    mass = rows.sum(axis=1, keepdims=True)
    return np.asarray(rows / np.where(mass > 0, mass, 1.0))
