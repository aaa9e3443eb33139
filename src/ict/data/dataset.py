"""What every reader returns: examples in memory, once."""

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
    """Training and test examples. Which training examples count as labeled is the split's decision."""

    train: Examples
    test: Examples
    classes: tuple[str, ...]  # names, in the order of the labels
    labeled_rows: Tensor | None = None  # where the data itself says which rows of `train` are labeled
    valid: Examples | None = None  # where the data brings its own validation set
    prior: Tensor | None = None  # probabilities of every class for every training example [N, C], as experts see it
    order: Order | None = None  # another way to shuffle rows than a permutation, where reading them at random is slow

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return tuple(self.train.x.shape[1:])
