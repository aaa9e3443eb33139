"""scikit-learn's handwritten digits: 1797 scans of 8x8 pixels that come with the library."""

from pathlib import Path

import numpy as np
import torch

from ict.base.errors import UserError
from ict.base.rng import Use, fold
from ict.data.dataset import Dataset, Examples
from ict.data.split import shuffled


def digits(folder: Path | None, seed: int, *, test_fraction: float = 0.3) -> Dataset:  # noqa: ARG001
    """All images; the seed holds out the same fraction of every class for the test."""
    if not 0 < test_fraction < 1:
        raise UserError(f"test_fraction is {test_fraction}: it must lie between 0 and 1, both excluded.")
    from sklearn.datasets import load_digits

    bunch = load_digits()
    x = torch.from_numpy(bunch.images.astype(np.uint8)[:, None])  # the values are whole numbers, 0 to 16
    y = torch.from_numpy(bunch.target.astype(np.int64))
    order = shuffled(len(y), fold(seed, Use.DATA))
    is_test = torch.zeros(len(y), dtype=torch.bool)
    for label in range(10):
        rows = order[bunch.target[order] == label]
        count = round(test_fraction * len(rows))
        is_test[rows[: min(max(count, 1), len(rows) - 1)]] = True
    return Dataset(
        train=Examples(x[~is_test], y[~is_test]),
        test=Examples(x[is_test], y[is_test]),
        classes=tuple("0123456789"),
    )
