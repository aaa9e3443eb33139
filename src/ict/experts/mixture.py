"""How much to believe each of several experts: the weights under which held-out labels are most likely.

    maximize  sum_i log sum_k pi_k p_k(y_i)  +  a sum_k log pi_k     over pi on the simplex, by EM

p_k(y_i) is the probability that expert k gave to the label of row i without having learned from it; a is one count.
"""

import numpy as np
from numpy.typing import NDArray

Likelihoods = NDArray[np.float64]
_ROUNDS = 200
_TOLERANCE = 1e-9
_LEAST = 1e-6  # of a probability: one label that an expert excluded must not rule the expert out


def mixture_weights(likelihoods: Likelihoods, count: float = 1.0) -> NDArray[np.float64]:
    """Weights [experts] that sum to 1. `likelihoods`: [rows, experts]; `count`: of the Dirichlet prior."""
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
