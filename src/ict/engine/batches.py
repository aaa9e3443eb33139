"""From a step to its batch: which rows, augmented how. Shapes never change, so a step can be captured."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ict.contract import Batch
from ict.data.augment import shift_and_flip
from ict.data.dataset import Examples
from ict.data.whiten import Whiten
from ict.rng import Rng, Use, fold
from ict.settings import Inputs, Train

LABELED, UNLABELED = 0, 1  # streams of rows


class Rows:
    """Batch `index` of epoch `epoch`: each epoch is a fresh permutation, its remainder dropped.

    A set smaller than the batch is repeated, permuted afresh each time, until the batch is full.
    """

    def __init__(self, rows: Tensor, batch: int, seed: int, stream: int, device: torch.device) -> None:
        self.rows, self.batch, self.key, self.device = rows, batch, fold(seed, Use.ROWS, stream), device
        self.per_epoch = max(len(rows) // batch, 1)
        self._epoch, self._order = -1, rows

    def at(self, epoch: int, index: int) -> Tensor:
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._permuted(epoch).to(self.device)
        return self._order[index * self.batch : (index + 1) * self.batch]

    def _permuted(self, epoch: int) -> Tensor:
        # on the CPU, so that the order is the same on every device
        copies = -(-self.batch // len(self.rows))
        generators = (torch.Generator().manual_seed(fold(self.key, epoch, copy)) for copy in range(copies))
        return torch.cat([self.rows[torch.randperm(len(self.rows), generator=g)] for g in generators])


@dataclass(frozen=True)
class View:
    """Stored examples to network inputs; with `rng`, randomly shifted and flipped in pixel space first."""

    inputs: Inputs
    whiten: Whiten

    def __call__(self, x: Tensor, rng: Rng | None = None) -> Tensor:
        if rng is not None and x.dim() == 4:
            x = shift_and_flip(x, rng, pad=self.inputs.pad, reflect=self.inputs.reflect, flip=self.inputs.flip)
        out: Tensor = self.whiten(x)
        return out


class Batches:
    """The batch of every step, from examples that stay on the device."""

    def __init__(
        self,
        examples: Examples,
        labeled: Tensor,
        unlabeled: Tensor,
        view: View,
        train: Train,
        views: int,
        seed: int,
    ) -> None:
        device = examples.x.device
        self.examples, self.view, self.views, self.seed = examples, view, views, seed
        self.pair_groups = train.pair_groups
        self.repeated = train.labeled_order == "repeated"
        self.labeled = Rows(labeled, train.labeled_batch, seed, LABELED, device)
        self.unlabeled = Rows(unlabeled, train.unlabeled_batch, seed, UNLABELED, device)

    def at(self, step: int, rng: Rng) -> Batch:
        epoch, index = divmod(step, self.unlabeled.per_epoch)
        labeled_rng = rng
        if self.repeated:
            index_x = index % self.labeled.per_epoch
            rows = self.labeled.at(epoch, index_x)
            labeled_rng = Rng(rng.device, fold(self.seed, Use.REPEATED, epoch, index_x))
        else:
            rows = self.labeled.at(*divmod(step, self.labeled.per_epoch))
        x = self.view(self.examples.x[rows], labeled_rng)
        u: tuple[Tensor, ...] = ()
        if self.views:
            stored = self.examples.x[self.unlabeled.at(epoch, index)]
            u = tuple(self.view(stored, rng) for _ in range(self.views))
        return Batch(x, self.examples.y[rows], u, self.pair_groups)
