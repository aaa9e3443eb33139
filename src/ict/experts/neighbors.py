"""The exact nearest neighbors of every row of features, which all graphs over the same rows share."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from ict.base.array_types import Array
from ict.base.errors import UserError


@dataclass(frozen=True)
class Neighbors:
    """The nearest rows of every row. They depend on the inputs alone, so one search serves any labels of them."""

    center: NDArray[np.float64]
    node: NDArray[np.intp]  # [n]: rows with the same values are one node
    search: NearestNeighbors  # over the nodes [m, features], which are relative to the center
    far: NDArray[np.float64]  # [m, k]: distances to the nearest other nodes, in ascending order
    near: NDArray[np.intp]  # [m, k]: which nodes those are

    @property
    def nodes(self) -> NDArray[np.float64]:
        return np.asarray(self.search._fit_X)

    @property
    def rows(self) -> NDArray[np.float64]:
        """The rows that were searched."""
        return np.asarray((self.nodes + self.center)[self.node])


Search = Callable[[Array], Neighbors]


def find_neighbors(x: Array, n_neighbors: int = 10) -> Neighbors:
    """x: [n, features], or images."""
    rows = feature_rows(x)
    if len(rows) == 0:
        raise UserError("x has no rows: give at least one.")
    center = rows.mean(axis=0)  # near the origin, distances from matrix products are more accurate
    # Sorted, so that the order of the rows does not decide between neighbors at the same distance.
    nodes, node = np.unique(rows - center, axis=0, return_inverse=True)
    search = NearestNeighbors().fit(nodes)
    k, n = min(n_neighbors, len(nodes) - 1), len(nodes)
    if k == 0:
        return Neighbors(center, node.reshape(-1), search, np.zeros((n, 0)), np.zeros((n, 0), np.intp))
    far, near = search.kneighbors(nodes, k + 1)
    own = near == np.arange(n)[:, None]
    own[~own.any(axis=1), -1] = True  # rounding can put k + 1 others ahead of the node itself: drop the last instead
    return Neighbors(center, node.reshape(-1), search, far[~own].reshape(n, k), near[~own].reshape(n, k))


def feature_rows(x: Array) -> NDArray[np.float64]:
    """Examples as rows of finite numbers [n, features]."""
    rows = np.asarray(x, dtype=np.float64)
    if rows.ndim < 2:
        raise UserError(f"x has the shape {rows.shape}: give one row of features for every example.")
    rows = rows.reshape(len(rows), int(np.prod(rows.shape[1:])))
    if rows.shape[1] == 0:
        raise UserError("x has no features: give at least one column.")
    if not np.isfinite(rows).all():
        raise UserError("x holds values that are missing or not finite: fill them in or leave those rows out.")
    return rows + 0.0  # -0.0 becomes 0.0: the two are one value


class NeighborMemo:
    """The neighbors last found by each search, so that a whole fit searches each set of inputs once."""

    def __init__(self) -> None:
        self._last: dict[Search, tuple[Array, Neighbors]] = {}

    def __call__(self, x: Array, search: Search | None = None) -> Neighbors:
        search = search or find_neighbors
        if search not in self._last or not _same_rows(self._last[search][0], x):
            self._last[search] = (x, search(x))
        return self._last[search][1]


def _same_rows(a: Array, b: Array) -> bool:
    """Whether two arrays are the same memory, perhaps as images once and as vectors once."""
    in_order = a.flags.c_contiguous and b.flags.c_contiguous
    same = (a.ctypes.data, a.dtype, len(a), a.size) == (b.ctypes.data, b.dtype, len(b), b.size)
    return a is b or (in_order and same)
