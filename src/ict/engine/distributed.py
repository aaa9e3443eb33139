"""Several processes that train one network. All communication between them is in this file.

Each rank takes its share of every batch. Losses are means over a batch and shares are equal, so the mean of the ranks'
gradients is the gradient of the whole batch. Everything else that changes in a step is made equal on all ranks too.
So any rank can write the checkpoint, and any number of ranks can load it.
"""

import atexit
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch import distributed as processes

from ict.base.errors import RankLost, UserError
from ict.contract import Share

_BUCKET = 2**25  # the most numbers in one message, which is a copy of them
_PATIENCE = timedelta(minutes=30)  # a rank waits at most while another evaluates, which takes less

T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """This process among those that share a run. If it is the only one, no method communicates."""

    rank: int = 0
    size: int = 1
    launched: bool = False  # a launcher started it, so there is a process group, perhaps of one

    @property
    def first(self) -> bool:
        """Whether this is the rank that writes files and prints."""
        return self.rank == 0

    @property
    def share(self) -> Share:
        return Share(self.rank, self.size)

    @property
    def key(self) -> tuple[int, ...]:
        """Folded into the key of draws that must differ between ranks. The first rank draws like a single process."""
        return () if self.first else (self.rank, self.size)

    @torch.no_grad()
    def average_(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its mean over the ranks. Tensors share messages of up to one bucket."""
        if not self.launched:
            return
        for bucket in _buckets(tensors):
            flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
            with _lost():
                processes.all_reduce(flat)
            flat /= self.size
            for tensor, mean in zip(bucket, flat.split([tensor.numel() for tensor in bucket]), strict=True):
                tensor.copy_(mean.view(tensor.shape))

    @torch.no_grad()
    def copy_first_(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by the first rank's."""
        if not self.launched:
            return
        for tensor in tensors:
            received = tensor.contiguous()
            with _lost():
                processes.broadcast(received, 0)
            tensor.copy_(received)

    def gathered(self, x: Tensor) -> Tensor:
        """The whole batch, joined from the ranks' shares, on every rank."""
        if not self.launched:
            return x
        shares = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(self.size)]
        with _lost():
            processes.all_gather(shares, x.contiguous())
        return torch.cat(shares)

    def any(self, flag: bool) -> bool:
        """Whether `flag` is true on any rank."""
        if not self.launched:
            return flag
        count = torch.tensor(int(flag))  # on the CPU, so that no GPU waits for it
        with _lost():
            processes.all_reduce(count)
        return bool(count)

    def by_first(self, function: Callable[[], T]) -> T:
        """Call the function on the first rank and return its result on all. A UserError is raised on all ranks."""
        if not self.launched:
            return function()
        values: list[Any] = [None]
        with self.together():
            if self.first:
                values = [function()]
        with _lost():
            processes.broadcast_object_list(values, 0)
        value: T = values[0]
        return value

    @contextmanager
    def together(self) -> Iterator[None]:
        """Wait at the end until all ranks are there. A UserError of one rank is raised on all."""
        if not self.launched:
            yield
            return
        mistake: UserError | None = None
        try:
            yield
        except UserError as problem:
            mistake = problem
        messages: list[str | None] = [None] * self.size
        with _lost():
            processes.all_gather_object(messages, None if mistake is None else str(mistake))
        for message in messages:
            if message is not None:
                raise UserError(message)


def joined() -> Ranks:
    """This process among those that a launcher such as torchrun started, or a single one."""
    if not processes.is_available():
        return Ranks()
    if not processes.is_initialized():
        if (place := _place()) is None:
            return Ranks()
        rank, size = place
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        try:
            processes.init_process_group(backend, rank=rank, world_size=size, timeout=_PATIENCE)
        except (RuntimeError, ValueError) as problem:
            cause = str(problem).splitlines()[0]
            raise RankLost(f"rank {rank} of {size} cannot reach the others ({cause}).") from problem
        atexit.register(_leave)
    return Ranks(processes.get_rank(), processes.get_world_size(), launched=True)


def local_rank() -> int:
    """The number of this process on its machine, which is the number of its GPU."""
    return _number("LOCAL_RANK") if "LOCAL_RANK" in os.environ else 0


def _place() -> tuple[int, int] | None:
    needed = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    if not {"RANK", "WORLD_SIZE"} & os.environ.keys():
        return None
    missing = [name for name in needed if name not in os.environ]
    if missing:
        there = next(name for name in needed if name in os.environ)
        raise UserError(f"the variable {there} is set but {missing[0]} is not: start with torchrun, or unset it.")
    rank, size = _number("RANK"), _number("WORLD_SIZE")
    if rank >= size:
        raise UserError(f"RANK is {rank} and WORLD_SIZE {size}: ranks are numbered from 0, so start with torchrun.")
    return rank, size


def _number(name: str) -> int:
    text = os.environ[name]
    if not text.isdecimal():
        raise UserError(f"the variable {name} is '{text}': it must be a whole number, as torchrun sets it.")
    return int(text)


def _leave() -> None:
    if processes.is_initialized():
        processes.destroy_process_group()


@contextmanager
def _lost() -> Iterator[None]:
    try:
        yield
    except RuntimeError as problem:
        raise RankLost("another rank has ended or cannot be reached.") from problem


def _buckets(tensors: Iterable[Tensor]) -> list[list[Tensor]]:
    """The tensors in order, grouped by dtype into messages of at most one bucket."""
    buckets: list[list[Tensor]] = []
    filling: dict[torch.dtype, tuple[list[Tensor], int]] = {}
    for tensor in tensors:
        bucket, filled = filling.get(tensor.dtype, ([], _BUCKET))
        if filled + tensor.numel() > _BUCKET:
            bucket, filled = [], 0
            buckets.append(bucket)
        bucket.append(tensor)
        filling[tensor.dtype] = bucket, filled + tensor.numel()
    return buckets
