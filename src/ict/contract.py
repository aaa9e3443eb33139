"""The whole interface between an algorithm and the engine.

An algorithm is a frozen dataclass with one `loss`. It sees two networks, a batch, the consistency weight
and a source of draws, and returns a scalar. It never calls `backward`, the optimizer, `.item()` or `.cpu()`,
names no device and never branches on a tensor, so that one formula runs eagerly, captured or on many ranks.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from ict.base.errors import UserError
from ict.base.rng import Share as Share
from ict.ops import mix

Tap = Callable[[int, Tensor], Tensor]
"""tap(i, h) returns what stage i of the network gets instead of h."""


class Network(Protocol):
    """A network as an algorithm sees it: inputs to logits [B, C]. Calls of the teacher carry no gradient."""

    def __call__(self, x: Tensor, tap: Tap | None = None) -> Tensor: ...

    def each(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """The logits of each part, with batch statistics of each part alone."""
        ...

    def features(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """What the last stage gets of each part: each(a) is head(h) with h = features(a)."""
        ...

    def head(self, h: Tensor) -> Tensor:
        """The last stage alone: features to logits."""
        ...

    def frozen_stats(self) -> AbstractContextManager[None]:
        """Forwards inside normalise by their batch but leave the running statistics alone."""
        ...

    def same_masks(self) -> AbstractContextManager[None]:
        """Forwards inside, of batches of one shape, drop the same units."""
        ...

    def beside(self, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The logits of x as outside of `frozen_stats` and `same_masks`, and those of v as inside."""
        ...

    def precise(self) -> AbstractContextManager[None]:
        """Forwards inside are in full float32, even in fast mode."""
        ...

    def along(self, x: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        """The logits of x and, without a gradient of its own, their derivative along d, in forward mode.

        NotImplementedError where a layer has none.
        """
        ...

    def back(self, z: Tensor, x: Tensor, v: Tensor) -> Tensor:
        """The gradient of v z with respect to x, and to nothing else, where z are logits of x."""
        ...


class Draws(Protocol):
    """Explicit randomness, the same however many ranks share a batch; see `rng.Rng`.

    `beta` and `integer` are one draw for the whole batch, the others one for each example of it.
    """

    def beta(self, alpha: float) -> Tensor: ...

    def integer(self, high: int) -> Tensor: ...

    def integers(self, high: int, n: int) -> Tensor: ...

    def uniform(self, n: int) -> Tensor: ...

    def normal_like(self, x: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Batch:
    """One update's examples, augmented and scaled, ready for the network."""

    x: Tensor  # labeled inputs [B, ...]; B = 0 where the labels are within the unlabeled batch
    y: Tensor  # their labels [B]
    u: tuple[Tensor, ...] = ()  # `views` augmented copies of the same unlabeled examples, each [U, ...]
    u_y: Tensor | None = None  # labels of those among them that have a known one, else -1 [U]
    memory: Tensor | None = None  # what the algorithm last stored of each of them [U, C], zeros before that
    pair_groups: int = 1  # pairs are formed inside this many equal parts of the batch, so that ranks can share it

    @property
    def apart(self) -> tuple[Tensor, ...]:
        """The labeled inputs as a part of their own: (x,), or () where the labels are within the unlabeled batch."""
        return (self.x,) if len(self.x) else ()

    def partner(self, x: Tensor) -> Tensor:
        """For each example of a batch another one: its neighbour in its group, never itself.

        Batches are shuffled, so a neighbour is as random as a permutation.
        """
        groups = x.reshape(self.pair_groups, -1, *x.shape[1:])
        return groups.roll(1, dims=1).reshape(x.shape)

    def mixed(self, lam: Tensor, x: Tensor) -> Tensor:
        """Each example of a batch mixed with its partner."""
        return mix(lam, x, self.partner(x))

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
    memory: Tensor | None = None  # new rows of the memory [U, C]


@dataclass(frozen=True)
class Needs:
    """What a formula asks of the engine."""

    views: int = 1  # augmented copies of each unlabeled example; 0: it uses labels alone
    teacher: bool = False  # it runs the teacher
    stages: int = 0  # of the network, at the least; 0: any module will do
    halves: bool = False  # it splits the unlabeled batch in two
    memory: bool = False  # a row of C numbers for every unlabeled example, handed in and written back
    labels_within: bool = False  # it also takes batches whose labels are among the unlabeled examples


class Algorithm(Protocol):
    """A formula: a frozen dataclass whose fields are its hyper-parameters and become keys of a recipe."""

    @property
    def needs(self) -> Needs: ...

    def loss(self, student: Network, teacher: Network, batch: Batch, w: Tensor, rng: Draws) -> Loss: ...
