"""From a step to its batch: which rows, augmented how. Shapes never change, so a step can be captured."""

import torch
from torch import Tensor

from ict.contract import Batch
from ict.data.dataset import Examples
from ict.engine.view import View
from ict.rng import Rng, Use, fold
from ict.settings import Train

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
        self.layout, self.pair_groups = train.layout, train.pair_groups
        self.repeated = train.labeled_order == "repeated"
        self.labeled = Rows(labeled, train.labeled_batch, seed, LABELED, device)
        self.unlabeled = Rows(unlabeled, train.unlabeled_batch, seed, UNLABELED, device)

    def at(self, step: int, rng: Rng, memory: Tensor | None = None) -> Batch:
        """Batch number `step`; `memory` holds a row for every example, of which it gets those of its unlabeled ones."""
        x, y = self.examples.x[:0], self.examples.y[:0]
        if self.layout == "apart":
            rows, labeled_rng = self._labeled(step, rng)
            x, y = self.view(self.examples.x[rows], labeled_rng), self.examples.y[rows]
        if not self.views:
            return Batch(x, y, pair_groups=self.pair_groups)
        rows = self.unlabeled_rows(step)
        u_y = self.examples.y[rows]
        if self.layout == "joined":  # whose label is used is decided by the stream an example came from
            u_y = torch.where(torch.arange(len(rows), device=rows.device) < self.labeled.batch, u_y, -1)
        u = self.view.copies(self.examples.x[rows], self.views, rng)
        return Batch(x, y, u, u_y, None if memory is None else memory[rows], self.pair_groups)

    def unlabeled_rows(self, step: int) -> Tensor:
        """The examples of the unlabeled batch; where it is joined with the labeled one, those come first."""
        rows = self.unlabeled.at(*divmod(step, self.unlabeled.per_epoch))
        return torch.cat([self._labeled_rows(step), rows]) if self.layout == "joined" else rows

    def _labeled_rows(self, step: int) -> Tensor:
        return self.labeled.at(*divmod(step, self.labeled.per_epoch))

    def _labeled(self, step: int, rng: Rng) -> tuple[Tensor, Rng]:
        """Rows of the labeled batch, and what augments them."""
        if not self.repeated:
            return self._labeled_rows(step), rng
        epoch, index = divmod(step, self.unlabeled.per_epoch)
        index %= self.labeled.per_epoch
        return self.labeled.at(epoch, index), Rng(rng.device, fold(self.seed, Use.REPEATED, epoch, index))
