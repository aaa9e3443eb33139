"""Two interleaved half circles, with the six labels of the paper's figure 1 or labels drawn by a split."""

from pathlib import Path
from typing import Literal

import numpy as np
import torch

from ict.base.errors import UserError
from ict.base.fields import at_most
from ict.base.rng import Use, fold
from ict.data.dataset import Dataset, Examples

# The three labeled points of each class, read off the figure.
FIGURE = (
    ((-0.57, 0.88), (-0.43, 1.06), (0.32, 0.92)),
    ((0.88, -0.49), (1.42, -0.59), (1.57, -0.41)),
)


def moons(
    folder: Path | None,  # noqa: ARG001
    seed: int,
    *,
    n: int = 1000,
    noise: float = 0.1,
    labels: Literal["figure", "random"] = "figure",
) -> Dataset:
    """n points for training and n new ones for the test."""
    if n < 6:
        raise UserError(f"n is {n}: it must be at least 6, for three labeled points of each class.")
    at_most(10_000_000, n=n)
    if not 0 <= noise < np.inf:
        raise UserError(f"noise is {noise}: it must be a finite number, 0 or more.")
    train = _points(n, noise, fold(seed, Use.DATA))
    return Dataset(
        train=train,
        test=_points(n, noise, fold(seed, Use.DATA, 1)),
        classes=("upper", "lower"),
        labeled_rows=_nearest_to_figure(train) if labels == "figure" else None,
    )


def _points(n: int, noise: float, key: int) -> Examples:
    from sklearn.datasets import make_moons

    x, y = make_moons(n, noise=noise, random_state=key & 0xFFFFFFFF)
    return Examples(torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y.astype(np.int64)))


def _nearest_to_figure(points: Examples) -> torch.Tensor:
    """For each position the nearest point of its class that is not taken yet."""
    free = torch.ones(len(points), dtype=torch.bool)
    rows = []
    for label, positions in enumerate(FIGURE):
        for position in positions:
            distance = (points.x - torch.tensor(position)).square().sum(1)
            row = int(distance.masked_fill(~free | (points.y != label), torch.inf).argmin())
            free[row] = False
            rows.append(row)
    return torch.tensor(sorted(rows))
