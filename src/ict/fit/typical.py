"""Chooses examples to label first, before there is a model: typical ones from all parts of the data.

After Hacohen, Dekel and Weinshall (2022): k-means makes as many clusters as there are labels, had or wanted. Clusters
without a label come first, the largest of them first, each with the member whose neighbors are nearest.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from ict.base.array_types import Array, Rows

_NEIGHBORS = 20  # whose mean distance says how dense the data is around an example
_CENTRAL = 1000  # members of a cluster, the nearest to its center, among which the densest is searched
_MOST_CLUSTERS = 500  # more take long, and differ little


@dataclass(frozen=True)
class Typical:
    row: int
    cluster: int  # numbered from 1 in the order of first appearance
    alike: int  # examples in the cluster


def typical(features: Array, n: int, seed: int, labeled: Rows | None = None) -> list[Typical]:
    """Up to `n` rows of `features` [rows, f] that are worth the first labels, the most useful first.

    `labeled`: rows that have a label already. They are never chosen, and what lies near them comes late.
    """
    known = np.zeros(len(features), np.bool_)
    known[[] if labeled is None else labeled] = True
    if n < 1 or known.all():
        return []
    n_clusters = min(n + int(known.sum()), len(features), max(n, _MOST_CLUSTERS))
    with threadpool_limits(1):  # several threads add in any order, which rounds differently
        clusters, from_center = _clusters(features, n_clusters, seed)
        members = [np.flatnonzero((clusters == cluster) & ~known) for cluster in range(n_clusters)]
        n_known = np.bincount(clusters[known], minlength=n_clusters)
        largest_first = np.lexsort((np.array([-len(rows) for rows in members]), n_known))
        order = [cluster for cluster in largest_first if len(members[cluster])][:n]  # no others have their turn
        ranked = {cluster: _densest_first(features, members[cluster], from_center) for cluster in order}
    chosen: list[Typical] = []
    for turn in range(n):  # clusters give a second example only after each gave one
        for number, cluster in enumerate(order, 1):
            if turn < len(ranked[cluster]) and len(chosen) < n:
                chosen.append(Typical(int(ranked[cluster][turn]), number, len(members[cluster])))
    return chosen


def _clusters(features: Array, n_clusters: int, seed: int) -> tuple[Rows, Array]:
    """The cluster of each row, and its distance from the center."""
    means = KMeans(n_clusters, n_init=1, max_iter=50, random_state=seed % 2**32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different examples than clusters
        distances = means.fit_transform(features)
    clusters: Rows = means.labels_.astype(np.int64)
    return clusters, distances[np.arange(len(features)), clusters]


def _densest_first(features: Array, members: Rows, from_center: Array) -> Rows:
    """The central members of a cluster in the order of the mean distance to their nearest neighbors."""
    central = np.sort(members[np.argsort(from_center[members], kind="stable")[:_CENTRAL]])
    if len(central) < 2:
        return central
    search = NearestNeighbors(n_neighbors=min(_NEIGHBORS, len(central) - 1), algorithm="brute")
    distances, _ = search.fit(features[central]).kneighbors()
    return central[np.argsort(distances.mean(1), kind="stable")]
