"""Copies batches of examples from the host's memory to the device."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

_AHEAD = 4  # the most batches that may be in transfer; then the host waits


class Fetcher:
    """Copies rows of `x` to the device on a separate stream, through pinned memory.

    Memory is allocated once, for a few batches in turn; otherwise its size would grow as the host runs ahead.
    """

    def __init__(self, x: Tensor, device: torch.device) -> None:
        self.x, self.device = x, device
        self.stream = torch.cuda.Stream(device)
        self.slots = [_Slot() for _ in range(_AHEAD)]
        self.n_fetched = 0

    def __call__(self, wanted: Sequence[Tensor]) -> list[Tensor]:
        """The rows on the device, then their examples. A few calls later, their memory is used again."""
        current = torch.cuda.current_stream(self.device)
        if self.n_fetched:  # by now everything that reads the last batch is queued
            self.slots[(self.n_fetched - 1) % _AHEAD].read.record(current)
        slot = self.slots[self.n_fetched % _AHEAD]
        self.n_fetched += 1
        slot.read.synchronize()
        with torch.cuda.stream(self.stream):
            if not slot.pairs:
                slot.pairs = [self._pair(rows.shape, rows.dtype) for rows in wanted]
                slot.pairs += [self._pair((len(rows), *self.x.shape[1:]), self.x.dtype) for rows in wanted]
            n = len(wanted)
            for rows, (numbers, _), (examples, _) in zip(wanted, slot.pairs[:n], slot.pairs[n:], strict=True):
                numbers.copy_(rows)
                _gather(self.x, rows, examples)
            for staged, sent in slot.pairs:
                sent.copy_(staged, non_blocking=True)
        current.wait_stream(self.stream)
        for _, sent in slot.pairs:
            sent.record_stream(current)
        return [sent for _, sent in slot.pairs]

    def _pair(self, shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        pinned = torch.empty(shape, dtype=dtype, pin_memory=True)
        return pinned, torch.empty(shape, dtype=dtype, device=self.device)


class _Slot:
    """The memory of one batch."""

    def __init__(self) -> None:
        self.read = torch.cuda.Event()
        self.pairs: list[tuple[Tensor, Tensor]] = []  # pinned, and on the device


def _gather(x: Tensor, rows: Tensor, out: Tensor) -> None:
    if isinstance(x, Tensor):
        # with one thread: torch's threads made an update twice as slow while another program used all cores
        np.take(x.numpy(), rows.numpy(), axis=0, out=out.numpy())
    else:  # shards
        x.take(rows, out)
