"""Everything that changes during a run. A checkpoint holds exactly this."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ict.base.fields import check
from ict.engine.averages import WeightAverage
from ict.engine.optimizers import make_optimizer
from ict.engine.settings import Average, Optimizer, Swa


@dataclass
class Best:
    """The evaluated network at its lowest validation error so far."""

    error: float
    step: int
    weights: dict[str, Tensor]


@dataclass
class State:
    student: nn.Module
    ema: WeightAverage | None  # the mean teacher
    optimizer: torch.optim.Optimizer
    first_bad: Tensor  # 0-d: the first step whose loss was not finite, -1 if there is none
    swa: WeightAverage | None = None  # the equal-weight mean of the student's weights
    memory: Tensor | None = None  # the algorithm's memory, a row for every training example [N, C]
    step: int = 0  # updates done
    sums: dict[str, Tensor] = field(default_factory=dict)  # metrics since the last log line, on the device
    n_summed: int = 0
    best: Best | None = None
    seconds: float = 0.0  # of training, over all sessions
    resumed_from: list[int] = field(default_factory=list)

    @property
    def evaluated(self) -> nn.Module:
        """The network for validation: the teacher, or the student if there is no teacher."""
        return self.ema.module if self.ema else self.student

    def made_by_batch(self) -> Iterator[Tensor]:
        """The tensors that a rank computes from its share of a batch: gradients and batch-norm statistics.

        A generator, since a single process needs none of them and this is part of every update.
        """
        yield from (p.grad for p in self.student.parameters() if p.grad is not None)
        for network in (self.student, *([self.ema.module] if self.ema else [])):
            yield from (b for b in network.buffers() if b.is_floating_point())

    @property
    def networks(self) -> list[nn.Module]:
        averages = [average.module for average in (self.ema, self.swa) if average]
        return [self.student, *averages]

    def to_dict(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "student": self.student.state_dict(),
            "teacher": self.ema.module.state_dict() if self.ema else None,
            "optimizer": self.optimizer.state_dict(),
            "swa": self.swa.module.state_dict() if self.swa else None,
            "memory": self.memory,
            "first_bad": self.first_bad,
            "sums": self.sums,
            "n_summed": self.n_summed,
            "best": vars(self.best) if self.best else None,
            "seconds": self.seconds,
            "resumed_from": self.resumed_from,
        }

    def load(self, saved: dict[str, Any]) -> None:
        device = self.first_bad.device
        self.student.load_state_dict(saved["student"])
        if self.ema:
            self.ema.module.load_state_dict(saved["teacher"])
        self.optimizer.load_state_dict(saved["optimizer"])
        if self.swa:
            self.swa.module.load_state_dict(saved["swa"])
        if self.memory is not None:
            self.memory.copy_(saved["memory"])
        self.first_bad = saved["first_bad"].to(device)
        self.sums = {name: value.to(device) for name, value in saved["sums"].items()}
        for name, kind in (("step", int), ("n_summed", int), ("seconds", float), ("resumed_from", tuple[int, ...])):
            check(saved[name], kind, name)
        self.step, self.n_summed, self.seconds = saved["step"], saved["n_summed"], saved["seconds"]
        self.best = Best(**saved["best"]) if saved["best"] else None
        self.resumed_from = [*saved["resumed_from"], saved["step"]]


def make_state(
    student: nn.Module, optimizer: Optimizer, average: Average, swa: Swa, memory: Tensor | None = None
) -> State:
    """The state before the first update; the averages start as copies of the student."""
    device = next(student.parameters()).device
    student.train()
    ema = None
    if average.decay is not None:
        averaged = average.batchnorm == "averaged"
        ema = WeightAverage(student, average_buffers=averaged)
        ema.module.train(not averaged)
    mean = None if swa.start is None else WeightAverage(student)
    first_bad = torch.full((), -1, device=device)
    return State(student, ema, make_optimizer(student, optimizer), first_bad, mean, memory)
