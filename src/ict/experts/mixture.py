"""The weights of several experts: those under which held-out labels are most likely.

    maximize  sum_i log sum_k pi_k p_k(y_i)  +  a sum_k log pi_k     over pi on the simplex, by EM

p_k(y_i) is the probability by expert k of the label of row i, held out from its training; a is one count.
"""

import numpy as np
from numpy.typing import NDArray

Likelihoods = NDArray[np.float64]
_ROUNDS = 200
_TOLERANCE = 1e-9
_LEAST = 1e-6  # smallest probability: a single label to which an expert gave 0 must not exclude the expert


def mixture_weights(likelihoods: Likelihoods, count: float = 1.0) -> NDArray[np.float64]:
    """Weights [experts] that sum to 1. `likelihoods`: [rows, experts]; `count`: the Dirichlet prior's count."""
    n, n_experts = likelihoods.shape
    likelihoods = np.maximum(likelihoods, _LEAST)
    weights = np.full(n_experts, 1 / n_experts)
    for _ in range(_ROUNDS):
        shares = weights * likelihoods
        shares /= shares.sum(axis=1, keepdims=True)
        updated = (shares.sum(axis=0) + count) / (n + n_experts * count)
        done = np.abs(updated - weights).max() < _TOLERANCE
        weights = updated
        if done:
            break
    return weights
