"""The principal axes of features, and graphs over them, on which predictions become similar for neighbors.

    F = (1 - alpha) (I - alpha S)^-1 P,    S = D^-1/2 W D^-1/2      (Zhou et al. 2004, with predictions P for labels)

Features of pretrained networks have few axes along which examples differ and many that are noise, which few labels
cannot tell apart. So distances and a linear model mean more on the axes of the largest variance.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from ict.base.array_types import Array
from ict.experts.graph import edge_weights, normalized, solve
from ict.experts.neighbors import Neighbors, find_neighbors

_AXES = 32
_WIDE = 30  # neighbors: on such features the nearest few are often of another class
_FAR = 0.99  # alpha of labels, which are few
_NEAR = 0.8  # alpha of predictions; a larger one favors classes with many rows
_LEAST = 1e-12


def principal_axes(inputs: Array, n_axes: int, seed: int) -> Array:
    """The rows along the axes of the largest variance, [n, at most n_axes]; the same for rows with the same values."""
    n_axes = min(n_axes, *inputs.shape)
    if n_axes == inputs.shape[1]:
        return inputs
    rows, index = np.unique(inputs, axis=0, return_inverse=True)
    n_axes = min(n_axes, len(rows))
    with threadpool_limits(1):  # several threads add in any order, which rounds differently
        axes = PCA(n_axes, svd_solver="randomized", random_state=seed).fit_transform(rows)
    return np.asarray(axes[index.reshape(-1)])


def wide_neighbors(inputs: Array) -> Neighbors:
    """The neighbors of features along their principal axes, where rows have the length sqrt(number of axes)."""
    axes = principal_axes(inputs, _AXES, 0)
    length = np.linalg.norm(axes, axis=1, keepdims=True)
    return find_neighbors(axes * np.sqrt(axes.shape[1]) / np.maximum(length, _LEAST), _WIDE)


def spread_labels(neighbors: Neighbors, labels: NDArray[np.int64], n_classes: int) -> Array:
    """Probabilities [n, n_classes] of all rows from the labels, -1 where unknown; classes weigh the same."""
    known = labels >= 0
    seeds = np.zeros((len(labels), n_classes))
    seeds[known, labels[known]] = 1.0
    spread = _spread(neighbors, seeds, _FAR)  # column by column, so that one division weighs classes alike
    return _normalized(spread / np.maximum(spread.sum(axis=0), _LEAST))


def spread_predictions(neighbors: Neighbors, probs: Array) -> Array:
    """The probabilities [n, n_classes] of all rows, more like those of their neighbors."""
    return _normalized(_spread(neighbors, probs, _NEAR))


def _spread(neighbors: Neighbors, seeds: Array, alpha: float) -> Array:
    nodes = np.zeros((len(neighbors.nodes), seeds.shape[1]))
    np.add.at(nodes, neighbors.node, seeds)
    smooth = normalized(edge_weights(neighbors, sharpness=1.0, mutual=False))
    return np.asarray(solve(smooth, nodes, alpha)[neighbors.node])


def _normalized(rows: Array) -> Array:
    rows = np.maximum(rows, 0.0) + _LEAST
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))
