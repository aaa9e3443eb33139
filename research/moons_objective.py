"""What ICT's consistency loss is for a straight line and for the true boundary of two moons.

    python research/moons_objective.py --out results/moons-objective.json [--seeds 10]

No network and no training: both boundaries are given, and the prediction depends on the signed distance d to them
alone, as a step or as sigmoid(steepness * d). The line is the one that classifies most points correctly. Pairs are
random, as in the paper, or near: a point and one of its ten nearest neighbors. The loss is the mean over pairs and over
lambda from Beta(alpha, alpha) of (f(Mix(u_j, u_k)) - Mix(f(u_j), f(u_k)))^2, f being the probability of one class.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import KDTree
from scipy.special import expit

from ict.data.moons import moons
from ict.experiment.provenance import provenance

Array = NDArray[np.float64]
Signed = Callable[[Array], Array]  # points [N, 2] to signed distances [N], positive in the lower moon
ALPHAS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
STEEPNESS = (5.0, 20.0, float("inf"))  # infinite: a step
N_PAIRS, N_NEIGHBORS, N_ANGLES = 20_000, 10, 360


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    seeds = [measured(seed) for seed in range(arguments.seeds)]
    first = seeds[0]["losses"]
    losses = [
        {key: row[key] for key in ("pairs", "steepness", "alpha")}
        | {boundary: [seed["losses"][i][boundary] for seed in seeds] for boundary in ("line", "true")}
        for i, row in enumerate(first)
    ]
    accuracy = {boundary: [seed["accuracy"][boundary] for seed in seeds] for boundary in ("line", "true")}
    content = {"seeds": list(range(arguments.seeds)), "pairs": N_PAIRS, "accuracy": accuracy, "losses": losses}
    arguments.out.write_text(json.dumps(content | provenance(torch.device("cpu")), indent=1) + "\n")
    for row in losses:
        line, true = fmean(row["line"]), fmean(row["true"])
        print(f"{row['pairs']:6} {row['steepness'] or 'step'!s:5} alpha {row['alpha']:<5} {line:.5f} {true:.5f}")


def measured(seed: int) -> dict[str, Any]:
    data = moons(None, seed).train
    points, labels = data.x.double().numpy(), data.y.numpy()
    boundaries = {"line": best_line(points, labels), "true": true_boundary()}
    rng = np.random.default_rng(seed)
    j = rng.integers(len(points), size=N_PAIRS)
    neighbors = KDTree(points).query(points, k=N_NEIGHBORS + 1)[1][:, 1:]
    partners = {
        "random": rng.integers(len(points), size=N_PAIRS),
        "near": neighbors[j, rng.integers(N_NEIGHBORS, size=N_PAIRS)],
    }
    losses = []
    for pairs, k in partners.items():
        for steepness in STEEPNESS:
            for alpha in ALPHAS:
                lam = rng.beta(alpha, alpha, size=N_PAIRS)
                of = {name: loss(signed, steepness, points[j], points[k], lam) for name, signed in boundaries.items()}
                finite = steepness if np.isfinite(steepness) else None
                losses.append({"pairs": pairs, "steepness": finite, "alpha": alpha, **of})
    return {
        "accuracy": {name: float(((signed(points) > 0) == labels).mean()) for name, signed in boundaries.items()},
        "losses": losses,
    }


def loss(signed: Signed, steepness: float, u_j: Array, u_k: Array, lam: Array) -> float:
    """ICT's consistency loss, with the boundary as its own teacher."""

    def f(points: Array) -> Array:
        d = signed(points)
        return (d > 0).astype(float) if np.isinf(steepness) else expit(steepness * d)

    mixed = lam[:, None] * u_j + (1 - lam)[:, None] * u_k
    return float(np.mean((f(mixed) - lam * f(u_j) - (1 - lam) * f(u_k)) ** 2))


def true_boundary() -> Signed:
    """The points as far from one half circle as from the other, which are those of `make_moons` without noise."""
    t = np.linspace(0, np.pi, 2001)
    upper = KDTree(np.stack([np.cos(t), np.sin(t)], 1))
    lower = KDTree(np.stack([1 - np.cos(t), 0.5 - np.sin(t)], 1))

    def signed(points: Array) -> Array:
        return np.asarray(upper.query(points)[0] - lower.query(points)[0]) / 2

    return signed


def best_line(points: Array, labels: NDArray[np.int64]) -> Signed:
    """The line with the most points on the right side, over all positions and `N_ANGLES` directions."""
    best: tuple[int, Array, float] = (-1, np.zeros(2), 0.0)
    for angle in np.linspace(0, 2 * np.pi, N_ANGLES, endpoint=False):
        normal = np.array([np.cos(angle), np.sin(angle)])
        along = points @ normal
        order = np.argsort(along)
        # correct if the first i of the order are on the side of class 0
        gained = np.where(labels[order] == 0, 1, -1).cumsum()
        i = int(gained.argmax())
        if gained[i] > best[0]:
            best = (int(gained[i]), normal, float(along[order[i : i + 2]].mean()))
    _, normal, offset = best
    return lambda p: p @ normal - offset


if __name__ == "__main__":
    main()
