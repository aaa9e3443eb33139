"""The interface of backbones: frozen networks that turn photos or texts into rows of features."""

import hashlib
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ict.backbones.preparation import Pixels, Preparation, PreparedItems
from ict.base.array_types import Array
from ict.base.errors import UserError

Features = NDArray[np.float32]


class Backbone(Protocol):
    """`prepare` is cheap and for one item; `embed` takes prepared items and runs the network."""

    name: str  # the user's name for it
    digest: str  # hash of the weights
    licence: str
    preparation: Preparation  # travels with the weights

    def prepare(self, item: Any) -> Array:
        """An image (uint8 [h, w] or [h, w, 3]) to uint8 [s, s, 3], or a text to token ids int64 [length]."""

    def embed(self, rows: PreparedItems) -> Features:
        """Prepared items to features [n, f]."""

    def onnx(self) -> bytes:
        """A model of opset 18 from prepared items to features, or a UserError that says why there is none."""


def identity(backbone: Backbone) -> str:
    """A hash of weights and preparation, equal for backbones with the same features."""
    return hashlib.sha256(f"{backbone.digest}\n{backbone.preparation.to_json()}".encode()).hexdigest()


def embed_in_batches(
    run: Callable[[Array], Array], rows: PreparedItems, preparation: Preparation, size: int, name: str
) -> Features:
    """run(batch) over prepared items. Texts are sorted by length, so that little padding is needed."""
    order = np.arange(len(rows))
    if not isinstance(preparation, Pixels):
        order = np.argsort([len(row) for row in rows], kind="stable")
    parts = []
    for start in range(0, max(len(rows), 1), size):
        batch = preparation.batch([rows[i] for i in order[start : start + size]])
        parts.append(_checked(run(batch), len(batch), name))
    features = np.empty((len(rows), parts[0].shape[1]), np.float32)
    features[order] = np.concatenate(parts)
    return features


def _checked(features: Array, n: int, name: str) -> Features:
    if features.ndim != 2 or len(features) != n:
        raise UserError(
            f"backbone {name} gives an output of the shape {features.shape} for {n} items: "
            "it must end in one row of features for each, as after global pooling."
        )
    if not np.isfinite(features).all():
        raise UserError(f"backbone {name} gives features that are not finite: check its file and its preprocessing.")
    return features.astype(np.float32, copy=False)
