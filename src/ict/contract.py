"""The whole interface between an algorithm and the engine.

An algorithm is a frozen dataclass with one `loss`. It gets two networks, a batch, the consistency weight and a
source of random draws, and returns a scalar. It never calls `backward`, the optimizer, `.item()` or `.cpu()`,
names no device and never branches on a tensor. So the same formula runs eagerly, in a CUDA graph or on many ranks.
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
"""tap(i, h) returns the input of stage i of the network, in place of h."""


class Network(Protocol):
    """A network as an algorithm sees it: it maps inputs to logits [B, C]. Calls of the teacher carry no gradient."""

    def __call__(self, x: Tensor, tap: Tap | None = None) -> Tensor: ...

    def each(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """The logits of each part, each with its own batch statistics."""
        ...

    def features(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """The input of the last stage for each part: each(a) is head(h) with h = features(a)."""
        ...

    def head(self, h: Tensor) -> Tensor:
        """The last stage alone: features to logits."""
        ...

    def frozen_stats(self) -> AbstractContextManager[None]:
        """Forwards inside normalize by their batch but do not update the running statistics."""
        ...

    def same_masks(self) -> AbstractContextManager[None]:
        """Forwards inside use the same dropout masks; their batches must have the same shape."""
        ...

    def beside(self, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Two forwards in one: x as if outside `frozen_stats` and `same_masks`, v as if inside."""
        ...

    def precise(self) -> AbstractContextManager[None]:
        """Forwards inside run in full float32, even in fast mode."""
        ...

    def along(self, x: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        """The logits of x and their detached directional derivative along d, by forward-mode differentiation.

        Raises NotImplementedError if a layer has no forward-mode derivative.
        """
        ...

    def back(self, z: Tensor, x: Tensor, v: Tensor) -> Tensor:
        """The gradient of the product of v and z with respect to x alone, where z are the logits of x."""
        ...


class Draws(Protocol):
    """Explicit random draws, the same for any number of ranks; see `base.rng.Rng`.

    `beta` and `integer` return one draw for the whole batch, the others one per example.
    """

    def beta(self, alpha: float) -> Tensor: ...

    def integer(self, high: int) -> Tensor: ...

    def integers(self, high: int, n: int) -> Tensor: ...

    def uniform(self, n: int) -> Tensor: ...

    def normal_like(self, x: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Batch:
    """One update's examples, augmented and scaled, ready for the network."""

    x: Tensor  # labeled inputs [B, ...]; B = 0 if the labels are within the unlabeled batch
    y: Tensor  # their labels [B]
    u: tuple[Tensor, ...] = ()  # `views` augmented copies of the same unlabeled examples, each [U, ...]
    u_y: Tensor | None = None  # their labels where known, else -1 [U]
    memory: Tensor | None = None  # the row that the algorithm last stored for each of them [U, C]; at first zeros
    pair_groups: int = 1  # pairs are formed within this many equal parts of the batch, so that ranks can share it
    prior: Tensor | None = None  # the experts' probabilities for each unlabeled example [U, C]
    share: Tensor | None = None  # of the prior in the targets, 0-d

    @property
    def apart(self) -> tuple[Tensor, ...]:
        """The labeled inputs as a tuple of parts: (x,), or () if the labels are within the unlabeled batch."""
        return (self.x,) if len(self.x) else ()

    def partner(self, x: Tensor) -> Tensor:
        """The partner of each example: its neighbor within its pair group, never itself.

        Batches are shuffled, so a neighbor is as random as a permutation.
        """
        groups = x.reshape(self.pair_groups, -1, *x.shape[1:])
        return groups.roll(1, dims=1).reshape(x.shape)

    def mixed(self, lam: Tensor, x: Tensor) -> Tensor:
        """Each example of a batch mixed with its partner."""
        return mix(lam, x, self.partner(x))

    def halves(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Split a batch into two halves, with half of every pair group in each."""
        if len(x) % (2 * self.pair_groups):
            raise UserError(
                f"a batch of {len(x)} cannot be split in two within {self.pair_groups} groups: choose an even size."
            )
        groups = x.reshape(self.pair_groups, 2, -1, *x.shape[1:])
        return groups[:, 0].flatten(0, 1), groups[:, 1].flatten(0, 1)


@dataclass(frozen=True)
class Loss:
    """An algorithm's result: the scalar to minimize, and detached 0-d tensors to log."""

    total: Tensor
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
    memory: Tensor | None = None  # new rows of the memory [U, C]


@dataclass(frozen=True)
class Needs:
    """What a formula needs from the engine."""

    views: int = 1  # augmented copies of each unlabeled example; 0: it uses only labeled examples
    teacher: bool = False  # it runs the teacher
    stages: int = 0  # the smallest number of stages of the network; 0: any module
    halves: bool = False  # it splits the unlabeled batch in two
    memory: bool = False  # a row of C numbers per unlabeled example, which it reads and writes
    prior: bool = False  # the experts' probabilities for every unlabeled example, and their share in the targets
    labels_within: bool = False  # it also takes batches whose labels are among the unlabeled examples


class Algorithm(Protocol):
    """A formula: a frozen dataclass. Its fields are hyper-parameters and become keys of a recipe."""

    @property
    def needs(self) -> Needs: ...

    def loss(self, student: Network, teacher: Network, batch: Batch, w: Tensor, rng: Draws) -> Loss: ...
