"""The type that every reader returns: examples in memory, stored once."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Order = Callable[[Tensor, torch.Generator], Tensor]
"""order(rows, generator) returns the rows in a random order."""


@dataclass(frozen=True)
class Examples:
    """Inputs and labels: images as uint8 [N, C, H, W], features as float32 [N, F]; labels int64 [N], -1 unknown."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Dataset:
    """Training and test examples. The split decides which training examples count as labeled."""

    train: Examples
    test: Examples
    classes: tuple[str, ...]  # names, in the order of the labels
    labeled_rows: Tensor | None = None  # the labeled rows of `train`, if the data itself specifies them
    valid: Examples | None = None  # the validation set, if the data has its own
    prior: Tensor | None = None  # the experts' class probabilities for every training example [N, C]
    order: Order | None = None  # another way to shuffle than a permutation, for data that is slow to read at random

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return tuple(self.train.x.shape[1:])
