"""The batch of each step: its rows and their augmentation. Shapes never change, so a step can be captured."""

from typing import NamedTuple

import torch
from torch import Tensor

from ict.base.rng import Rng, Use, fold
from ict.contract import Batch, Share
from ict.data.dataset import Examples, Order
from ict.data.labels import UNLABELED
from ict.engine.host_batches import Fetcher
from ict.engine.input_transform import InputTransform
from ict.engine.settings import Train

LABELED_STREAM, UNLABELED_STREAM = 0, 1  # which rows a permutation is of
_WHOLE = Share()


class RowStream:
    """The rows of each batch. Each epoch has a new random order; an incomplete last batch is dropped.

    A set smaller than one batch is repeated, each time in a new order, until the batch is full.
    """

    def __init__(
        self, rows: Tensor, batch: int, seed: int, stream: int, device: torch.device, order: Order | None = None
    ) -> None:
        self.rows, self.batch, self.key, self.device = rows, batch, fold(seed, Use.ROWS, stream), device
        self.order = order or _permutation
        self.per_epoch = max(len(rows) // batch, 1)
        self._epoch, self._order = -1, rows

    def at(self, epoch: int, index: int) -> Tensor:
        if epoch != self._epoch:
            order = self._permuted(epoch)
            if self.device.type == "cuda":
                order = order.pin_memory()  # otherwise the copy would wait for the device
            self._epoch, self._order = epoch, order.to(self.device, non_blocking=True)
        return self._order[index * self.batch : (index + 1) * self.batch]

    def _permuted(self, epoch: int) -> Tensor:
        # drawn on the CPU, so that the order is the same on every device
        copies = -(-self.batch // len(self.rows))
        generators = (torch.Generator().manual_seed(fold(self.key, epoch, copy)) for copy in range(copies))
        return torch.cat([self.order(self.rows, generator) for generator in generators])


def _permutation(rows: Tensor, generator: torch.Generator) -> Tensor:
    return rows[torch.randperm(len(rows), generator=generator)]


def _drawn(rows: Tensor, generator: torch.Generator) -> Tensor:
    """As many, with replacement."""
    return rows[torch.randint(len(rows), (len(rows),), generator=generator)]


class Picked(NamedTuple):
    """The rows of one update's examples. In a joined batch, `unlabeled` starts with the labeled rows."""

    labeled: Tensor
    unlabeled: Tensor
    fetched: tuple[Tensor, ...] = ()  # the examples of both, if they come from the host's memory

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.labeled, self.unlabeled, *self.fetched

    def clone(self) -> "Picked":
        labeled, unlabeled, *fetched = (tensor.clone() for tensor in self.tensors)
        return Picked(labeled, unlabeled, tuple(fetched))


class Batches:
    """Makes the batch of every step. Examples are on the device, or in the host's memory and copied batch by batch.

    Labels are always on the device.
    """

    def __init__(
        self,
        examples: Examples,
        labeled: Tensor,
        unlabeled: Tensor,
        transform: InputTransform,
        train: Train,
        views: int,
        seed: int,
        share: Share = _WHOLE,
        order: Order | None = None,
        prior: Tensor | None = None,
    ) -> None:
        """`prior`: a row of probabilities for every example, on the device of the labels."""
        device = examples.y.device
        self.device = device
        self.fetch = Fetcher(examples.x, device) if examples.x.device != device else None
        self.examples, self.transform, self.views, self.seed = examples, transform, views, seed
        self.prior = prior
        self.layout, self.share = train.layout, share
        self.pair_groups = train.pair_groups // share.count  # of this rank's share
        # the draws that augment labeled batches that repeat within an epoch
        self.repeated = (
            Rng(device, share=share) if train.labeled_order == "repeated" and train.layout == "apart" else None
        )
        on = examples.x.device
        drawn = _drawn if train.labeled_order == "replaced" else order
        self.labeled = RowStream(labeled, train.labeled_batch, seed, LABELED_STREAM, on, drawn)
        self.unlabeled = RowStream(unlabeled, train.unlabeled_batch, seed, UNLABELED_STREAM, on, order)

    def at(self, step: int, rng: Rng, memory: Tensor | None = None) -> Batch:
        """Batch number `step`."""
        return self.make(self.pick(step), rng, memory)

    def pick(self, step: int) -> Picked:
        """The rows of a step. This part runs on the host: it reads permutations and keys."""
        rows = self._rows(step)
        picked = Picked(self.share.of(rows.labeled), self.share.of(rows.unlabeled))
        if self.fetch is None:
            return picked
        labeled, unlabeled, *examples = self.fetch(picked.tensors)
        return Picked(labeled, unlabeled, tuple(examples))

    def _rows(self, step: int) -> Picked:
        """The rows of the whole batch, over all ranks."""
        if not self.views:
            labeled = self._labeled_rows(step)
            return Picked(labeled, labeled[:0])
        rows = self.unlabeled.at(*divmod(step, self.unlabeled.per_epoch))
        if self.layout == "within":
            return Picked(rows[:0], rows)
        labeled = self._labeled_rows(step)
        if self.layout == "joined":
            return Picked(rows[:0], torch.cat([labeled, rows]))
        return Picked(labeled, rows)

    def _labeled_rows(self, step: int) -> Tensor:
        if not self.repeated:
            return self.labeled.at(*divmod(step, self.labeled.per_epoch))
        epoch, index = divmod(step, self.unlabeled.per_epoch)
        index %= self.labeled.per_epoch
        self.repeated.reseed(fold(self.seed, Use.REPEATED, epoch, index))
        return self.labeled.at(epoch, index)

    def make(self, picked: Picked, rng: Rng, memory: Tensor | None = None) -> Batch:
        """The batch of these rows. This part runs on the device. `memory` has a row for every example."""
        x, y = self.examples.x[:0].to(self.device), self.examples.y[:0]
        if self.layout == "apart":
            x = self.transform(self._stored(picked, 0), self.repeated or rng)
            y = self.examples.y[picked.labeled]
        if not self.views:
            return Batch(x, y, pair_groups=self.pair_groups)
        rows = picked.unlabeled
        u_y = self.examples.y[rows]
        if self.layout == "joined":  # only examples from the labeled stream keep their label
            place = torch.arange(len(rows), device=rows.device) + self.share.index * len(rows)
            u_y = torch.where(place < self.labeled.batch, u_y, UNLABELED)
        u = self.transform.copies(self._stored(picked, 1), self.views, rng)
        memory, prior = (None if kept is None else kept[rows] for kept in (memory, self.prior))
        return Batch(x, y, u, u_y, memory, self.pair_groups, prior)

    def _stored(self, picked: Picked, stream: int) -> Tensor:
        return picked.fetched[stream] if picked.fetched else self.examples.x[picked[stream]]
