"""Features of texts without a pretrained network: TF-IDF and a truncated SVD, fitted to the texts at hand.

A word counts once in a text, so TF-IDF and SVD together are a sum of rows of a table with one row for each word. So
they are a network with an embedding layer, which is saved and exported like any other.
"""

import numpy as np
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor, nn

from ict.backbones import WORDS
from ict.backbones.preparation import Words
from ict.backbones.torch_backbone import TorchBackbone, state_digest
from ict.base.errors import UserError

_FEATURES, _VOCABULARY = 256, 20_000


class WordBag(nn.Module):
    """Ids of different words, 0 where there is none, to the row of TF-IDF times the axes of the SVD."""

    table: Tensor
    squares: Tensor

    def __init__(self, idf: Tensor, axes: Tensor) -> None:
        super().__init__()
        self.register_buffer("table", torch.cat([torch.zeros(1, axes.shape[1]), idf[:, None] * axes]))
        self.register_buffer("squares", torch.cat([torch.zeros(1), idf**2]))

    def forward(self, ids: Tensor) -> Tensor:
        length = self.squares[ids].sum(1, keepdim=True).clamp(min=1e-12).sqrt()
        return self.table[ids].sum(1) / length


def open_unfitted(device: torch.device) -> TorchBackbone:  # noqa: ARG001
    raise UserError(f"backbone {WORDS} is fitted to texts, and none were given: name a folder or a table of texts.")


def fit_words(texts: list[str]) -> TorchBackbone:
    """A backbone for texts like these."""
    common = 2 if len(texts) > 20 else 1  # a word in only one text is useless for the others
    vectorizer = TfidfVectorizer(binary=True, min_df=common, max_features=_VOCABULARY)
    try:
        rows = vectorizer.fit_transform(texts)
    except ValueError:
        raise UserError("the texts have no words in common: give longer ones, or more of them.") from None
    n_features = min(_FEATURES, rows.shape[1] - 1, len(texts) - 1)
    if n_features < 1:
        raise UserError("the texts have no words in common: give longer ones, or more of them.")
    axes = TruncatedSVD(n_features, random_state=0).fit(rows).components_.T
    words = tuple(str(word) for word in vectorizer.get_feature_names_out())
    idf, axes = (torch.from_numpy(np.asarray(found, np.float32)) for found in (vectorizer.idf_, axes))
    network = WordBag(idf, axes)
    return TorchBackbone(
        WORDS, state_digest(network), "fitted to your texts", Words(words), network, torch.device("cpu")
    )
