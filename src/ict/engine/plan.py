"""Everything about a run that depends on the step, as one table computed beforehand."""

from dataclasses import dataclass

from ict import schedules
from ict.settings import Average, Optimizer, Train


@dataclass(frozen=True)
class Plan:
    """Row t holds what update t uses, t = 0, 1, ..."""

    lr: tuple[float, ...]
    w: tuple[float, ...]
    decay: tuple[float, ...]  # empty where there is no average

    def __len__(self) -> int:
        return len(self.lr)


def make_plan(train: Train, optimizer: Optimizer, average: Average) -> Plan:
    progress = [step / train.steps for step in range(train.steps)]
    stretch = optimizer.cosine
    return Plan(
        lr=tuple(optimizer.lr * (schedules.cosine(p, stretch) if stretch else 1.0) for p in progress),
        w=tuple(train.weight * schedules.sigmoid_rampup(p, train.rampup, train.rampup_from_zero) for p in progress),
        decay=()
        if average.decay is None
        else tuple(schedules.ema_decay(step + 1, average.decay, average.warmup) for step in range(train.steps)),
    )
