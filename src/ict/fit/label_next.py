"""Suggests examples to label next: those about which the model is least certain, but different ones.

After Zhdanov (2019): the least certain examples are clustered by k-means, weighted by their uncertainty. Then the
clusters take turns with their least certain example. Memory is linear in the number of examples.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from ict.base.array_types import Array, Rows

MOST = 100  # suggestions
_CANDIDATES = 10 * MOST
_CLUSTERS = 20


@dataclass(frozen=True)
class Suggestion:
    row: int
    guess: int  # class
    probability: float  # of the guess
    second: int  # the next most probable class
    second_probability: float
    cluster: int  # numbered from 1 in the order of first appearance
    alike: int  # candidates in the cluster


def suggest(probs: Array, features_of: Callable[[Rows], Array], seed: int) -> list[Suggestion]:
    """Up to `MOST` suggestions, most useful first, from the probabilities [n, classes >= 2] of all examples.

    `features_of` returns the features [m, f] of some rows, so that those of all rows are never needed at once.
    """
    if not len(probs):
        return []
    top = np.partition(probs, -2, axis=1)[:, -2:]
    margin = top[:, 1] - top[:, 0]
    candidates = np.argsort(margin, kind="stable")[:_CANDIDATES]
    clusters = _clusters(features_of(candidates), 1.0 - margin[candidates], seed)
    # The n-th example of each cluster comes before the (n + 1)-th of any. Within a turn the least certain comes first.
    turn = np.zeros(len(candidates), dtype=np.int64)
    for cluster in np.unique(clusters):
        members = clusters == cluster
        turn[members] = np.arange(members.sum())
    order = np.lexsort((margin[candidates], turn))
    numbers: dict[int, int] = {}
    for cluster in clusters[order]:
        numbers.setdefault(int(cluster), len(numbers) + 1)
    sizes = np.bincount(clusters)
    suggestions = []
    for i in order[:MOST]:
        row, cluster = int(candidates[i]), int(clusters[i])
        guess, second = (int(c) for c in np.argsort(-probs[row], kind="stable")[:2])
        suggestions.append(
            Suggestion(
                row,
                guess,
                float(probs[row, guess]),
                second,
                float(probs[row, second]),
                numbers[cluster],
                int(sizes[cluster]),
            )
        )
    return suggestions


def _clusters(features: Array, uncertainty: Array, seed: int) -> Rows:
    """The cluster of each row. Features are standardized first, so that none dominates by its scale."""
    scale = features.std(0)
    scaled = (features - features.mean(0)) / np.where(scale > 0, scale, 1.0)
    means = KMeans(min(_CLUSTERS, len(scaled)), n_init=1, random_state=seed % 2**32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different examples than clusters
        clusters: Rows = means.fit(scaled, sample_weight=uncertainty + 1e-6).labels_.astype(np.int64)
    return clusters


def reason(suggestion: Suggestion, classes: tuple[str, ...]) -> str:
    """The reason for a suggestion in words."""
    first, second = classes[suggestion.guess], classes[suggestion.second]
    if suggestion.probability - suggestion.second_probability < 0.5:
        why = f"torn between {first} ({suggestion.probability:.0%}) and {second} ({suggestion.second_probability:.0%})"
    else:
        why = f"fairly sure of {first} ({suggestion.probability:.0%}), if not then {second}"
    return f"{why}; {suggestion.alike - 1} more like it" if suggestion.alike > 1 else f"{why}; none like it"
