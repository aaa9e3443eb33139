"""The whole interface between an algorithm and the engine.

An algorithm is a frozen dataclass with one `loss`. It sees two networks, a batch, the consistency weight
and a source of draws, and returns a scalar. It never calls `backward`, the optimizer, `.item()` or `.cpu()`,
names no device and never branches on a tensor, so that one formula runs eagerly, captured or on many ranks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from torch import Tensor

from ict.errors import UserError

Tap = Callable[[int, Tensor], Tensor]
"""tap(i, h) returns what stage i of the network gets instead of h."""


class Network(Protocol):
    """A network as an algorithm sees it: inputs to logits [B, C]. Calls of the teacher carry no gradient."""

    def __call__(self, x: Tensor, tap: Tap | None = None) -> Tensor: ...

    def each(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """The logits of each part, with batch statistics of each part alone."""
        ...


class Draws(Protocol):
    """Explicit randomness, the same on every rank; see `rng.Rng`."""

    def beta(self, alpha: float) -> Tensor: ...

    def integers(self, high: int, n: int) -> Tensor: ...

    def uniform(self, n: int) -> Tensor: ...

    def normal_like(self, x: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Batch:
    """One update's examples, augmented and scaled, ready for the network."""

    x: Tensor  # labeled inputs [B, ...]
    y: Tensor  # their labels [B]
    u: tuple[Tensor, ...] = ()  # `views` augmented copies of the same unlabeled examples, each [U, ...]
    pair_groups: int = 1  # pairs are formed inside this many equal parts of the batch, so that ranks can share it

    def partner(self, x: Tensor) -> Tensor:
        """For each example of a batch another one: its neighbour in its group, never itself.

        Batches are shuffled, so a neighbour is as random as a permutation.
        """
        groups = x.reshape(self.pair_groups, -1, *x.shape[1:])
        return groups.roll(1, dims=1).reshape(x.shape)

    def halves(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """A batch as two batches of half the size, each group split in two."""
        if len(x) % (2 * self.pair_groups):
            raise UserError(f"a batch of {len(x)} has no halves in {self.pair_groups} groups: choose an even size.")
        groups = x.reshape(self.pair_groups, 2, -1, *x.shape[1:])
        return groups[:, 0].flatten(0, 1), groups[:, 1].flatten(0, 1)


@dataclass(frozen=True)
class Loss:
    """What an algorithm returns: the scalar to descend, and detached 0-d tensors to log."""

    total: Tensor
    metrics: Mapping[str, Tensor] = field(default_factory=dict)


class Algorithm(Protocol):
    """A formula. Its fields are its hyper-parameters and become keys of a recipe."""

    views: ClassVar[int]
    """Augmented copies of each unlabeled example that `loss` wants; 0 for methods that use labels alone."""

    def loss(self, student: Network, teacher: Network, batch: Batch, w: Tensor, rng: Draws) -> Loss: ...
