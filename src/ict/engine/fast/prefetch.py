"""Prepares the next update's batch and draws during the current update, so that no update waits for them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from ict.base.rng import Rng, Use, fold
from ict.contract import Batch
from ict.engine.batches import Picked
from ict.engine.fast.device_updates import QuickBatch
from ict.engine.step import Program, reseed_dropout


class Ahead:
    """The next batch and draws. They use the program's generator in the order of the eager step: the same numbers."""

    def __init__(self, program: Program, picked: Picked) -> None:
        """`picked`: the rows of the current update, here and later."""
        self.program, self.picked, self.next = program, picked, picked.clone()
        self.batch = QuickBatch(**vars(program.batches.make(picked, program.rng)))
        self.draws = DrawnAhead(program.rng)
        self.stream = torch.cuda.Stream()

    @property
    def tensors(self) -> list[Tensor]:
        return _parts(self.batch)

    @property
    def current(self) -> Batch:
        """The batch for a loss, detached because a loss may require gradients for its inputs."""
        return replace(self.batch, x=self.batch.x.detach(), u=tuple(u.detach() for u in self.batch.u))

    def begin(self, step: int) -> None:
        """The host's part, like `step.begin`: dropout for this step, rows and keys for the next."""
        reseed_dropout(self.program, step)
        self._name(step + 1)

    def first(self, step: int) -> None:
        """Prepare the batch and the draws of the first update."""
        self._name(step)
        self.start()
        self.finish()

    def _name(self, step: int) -> None:
        self.program.rng.reseed(fold(self.program.seed, Use.DRAWS, step))
        copy(self.next.tensors, self.program.batches.pick(step).tensors)

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Operations inside run on a second stream until `finish`."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            yield

    def start(self) -> None:
        with self.beside():
            self.made = _parts(self.program.batches.make(self.next, self.program.rng))
            self.made += self.draws.of_the_next()

    def finish(self) -> None:
        torch.cuda.current_stream().wait_stream(self.stream)
        current = [*self.tensors, *self.draws.values][: len(self.made)]  # without draws recorded in this update
        copy([*current, *self.picked.tensors], [*self.made, *self.next.tensors])


class DrawnAhead:
    """`contract.Draws` for a loss that makes the same calls at every step. The first step records the calls."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.calls: list[Callable[[], Tensor]] = []
        self.values: list[Tensor] = []  # of the current step
        self.n_given = 0

    def of_the_next(self) -> list[Tensor]:
        """Draw the values of the next step, and return those of the current step again from the first on."""
        self.n_given = 0
        return [call() for call in self.calls]

    def beta(self, alpha: float) -> Tensor:
        return self._given(lambda: self.rng.beta(alpha))

    def integer(self, high: int) -> Tensor:
        return self._given(lambda: self.rng.integer(high))

    def integers(self, high: int, n: int) -> Tensor:
        return self._given(lambda: self.rng.integers(high, n))

    def uniform(self, n: int) -> Tensor:
        return self._given(lambda: self.rng.uniform(n))

    def normal_like(self, x: Tensor) -> Tensor:
        shape = torch.empty_like(x, device="meta")  # takes no memory
        return self._given(lambda: self.rng.normal_like(shape))

    def _given(self, call: Callable[[], Tensor]) -> Tensor:
        if self.n_given == len(self.calls):
            self.calls.append(call)
            self.values.append(call().clone())
        self.n_given += 1
        return self.values[self.n_given - 1].detach()  # a loss may require its gradient


def copy(targets: Iterable[Tensor], sources: Iterable[Tensor]) -> None:
    """Copy tensors, all of one dtype at once."""
    kinds: dict[torch.dtype, list[tuple[Tensor, Tensor]]] = {}
    for target, source in zip(targets, sources, strict=True):
        if target.numel():
            kinds.setdefault(target.dtype, []).append((target, source))
    for pairs in kinds.values():
        torch._foreach_copy_([target for target, _ in pairs], [source for _, source in pairs])


def _parts(batch: Batch) -> list[Tensor]:
    return [batch.x, batch.y, *batch.u, *(part for part in (batch.u_y, batch.prior) if part is not None)]
