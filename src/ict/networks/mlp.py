"""Perceptrons for inputs of any shape, and a linear layer. Each layer is a stage."""

from itertools import pairwise
from math import prod

from torch import nn

from ict.base.fields import at_most, positive
from ict.networks.batch_norm import BatchNorm1d
from ict.networks.staged import Staged, drop


class MLP(Staged):
    """`depth` hidden ReLU layers: the network of the two-moons figure."""

    def __init__(self, shape: tuple[int, ...], n_classes: int, *, width: int = 20, depth: int = 3) -> None:
        positive(width=width, depth=depth)
        at_most(100_000, width=width)
        at_most(1_000, depth=depth)
        super().__init__(
            nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), width), nn.ReLU()),
            *(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(depth - 1)),
            nn.Linear(width, n_classes),
        )


class Linear(Staged):
    """Logistic regression as a network. Inputs are clipped to `cut` on both sides of 0."""

    def __init__(self, shape: tuple[int, ...], n_classes: int, *, cut: float = 8.0) -> None:
        positive(cut=cut)
        super().__init__(nn.Sequential(nn.Flatten(), nn.Hardtanh(-cut, cut)), nn.Linear(prod(shape), n_classes))
        self.cut = cut


class WideMLP(Staged):
    """`depth` hidden layers with batch norm, for feature vectors."""

    def __init__(
        self,
        shape: tuple[int, ...],
        n_classes: int,
        *,
        width: int = 256,
        depth: int = 2,
        dropout: float = 0.0,
    ) -> None:
        positive(width=width, depth=depth)
        at_most(100_000, width=width)
        at_most(1_000, depth=depth)
        super().__init__(
            nn.Sequential(nn.Flatten(), *_hidden(prod(shape), width, dropout)),
            *(nn.Sequential(*_hidden(width, width, dropout)) for _ in range(depth - 1)),
            nn.Linear(width, n_classes),
        )


def _hidden(n_in: int, n_out: int, p: float) -> tuple[nn.Module, ...]:
    return nn.Linear(n_in, n_out), BatchNorm1d(n_out), nn.ReLU(), drop(p)


class NormMLP(Staged):
    """`depth` hidden layers with layer norm, so that an output does not depend on the batch, in training too.

    Inputs are clipped to `cut` on both sides of 0: beyond that, standardized features are outliers.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        n_classes: int,
        *,
        width: int = 128,
        depth: int = 2,
        dropout: float = 0.0,
        cut: float = 8.0,
    ) -> None:
        positive(width=width, depth=depth, cut=cut)
        sizes = [prod(shape), *[width] * depth]
        first, *others = (
            (nn.Linear(n_in, n_out), nn.LayerNorm(n_out), nn.GELU(), drop(dropout)) for n_in, n_out in pairwise(sizes)
        )
        super().__init__(
            nn.Sequential(nn.Flatten(), nn.Hardtanh(-cut, cut), *first),
            *(nn.Sequential(*layers) for layers in others),
            nn.Linear(width, n_classes),
        )
