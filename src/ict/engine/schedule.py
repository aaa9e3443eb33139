"""All values of a run that depend on the step, as one table computed in advance."""

from dataclasses import dataclass
from math import cos, exp, floor, pi

from ict.engine.settings import Anchor, Average, Optimizer, Rate, Swa, Train


@dataclass(frozen=True)
class Plan:
    """Entry t of each field is the value in update t = 0, 1, ..."""

    lr: tuple[float, ...]
    momentum: tuple[float, ...]
    w: tuple[float, ...]
    decay: tuple[float, ...]  # of the mean teacher; empty without one
    swa: tuple[float | None, ...]  # decay of the SWA mean, None where update t is not in the mean; empty without SWA
    share: tuple[float, ...]  # of the experts' prior in the targets

    def __len__(self) -> int:
        return len(self.lr)


def make_plan(
    train: Train, optimizer: Optimizer, rate: Rate, average: Average, swa: Swa, anchor: Anchor | None = None
) -> Plan:
    anchor = anchor or Anchor()
    progress = [step / train.steps for step in range(train.steps)]
    return Plan(
        lr=tuple(optimizer.lr * _rate(rate, p) for p in progress),
        momentum=tuple(_momentum(optimizer, rate, p) for p in progress),
        w=tuple(train.weight * sigmoid_rampup(p, train.rampup, train.rampup_from_zero) for p in progress),
        decay=()
        if average.decay is None
        else tuple(ema_decay(step + 1, average.decay, average.warmup) for step in range(train.steps)),
        swa=() if swa.start is None else _plain_mean(train.steps, swa.start, swa.every),
        share=tuple(anchor_share(p, anchor.share, anchor.fall) for p in progress),
    )


def _rate(rate: Rate, progress: float) -> float:
    """The learning rate as a fraction of its maximum."""
    return _shape(rate, progress) * sigmoid_rampup(progress, rate.rampup)


def _shape(rate: Rate, progress: float) -> float:
    match rate.shape:
        case "cosine":
            return cosine(progress, rate.stretch)
        case "cyclic":
            return cyclic(progress, rate.stretch, rate.cycle_from, rate.cycle)
        case "gaussian":
            return gaussian_rampdown(progress, rate.rampdown)
        case "linear":
            return 1.0 - ramp_down(progress, rate.rampdown)
        case "step":
            return rate.drop if progress >= 1.0 - rate.rampdown else 1.0
        case "constant":
            return 1.0


def _momentum(optimizer: Optimizer, rate: Rate, progress: float) -> float:
    """Momentum follows a gaussian ramp-down of the rate. With another shape it changes at once where that begins."""
    if optimizer.final_momentum is None:
        return optimizer.momentum
    weight = float(progress < 1.0 - rate.rampdown)
    if rate.shape == "gaussian":
        weight = gaussian_rampdown(progress, rate.rampdown)
    return weight * optimizer.momentum + (1 - weight) * optimizer.final_momentum


def _plain_mean(steps: int, start: float, every: float) -> tuple[float | None, ...]:
    """The decay of the mean at each update: (n - 1) / n for the n-th weights in the mean, None for others."""
    first, gap = max(round(start * steps), 1), max(round(every * steps), 1)
    taken = range(first, steps + 1, gap)  # counted in updates done
    return tuple(
        (done - first) // gap / ((done - first) // gap + 1) if done in taken else None for done in range(1, steps + 1)
    )


def cosine(progress: float, stretch: float = 1.0) -> float:
    """Half a cosine from 1 at progress 0 to 0 at progress = stretch."""
    return 0.5 * (cos(pi * min(progress / stretch, 1.0)) + 1.0)


def sigmoid_rampup(progress: float, length: float, from_zero: bool = False) -> float:
    """exp(-5 (1 - progress/length)^2), from e^-5 up to 1; `from_zero` shifts and scales it to start at 0."""
    if progress >= length:
        return 1.0
    value = exp(-5.0 * (1.0 - progress / length) ** 2)
    return (value - exp(-5.0)) / (1.0 - exp(-5.0)) if from_zero else value


def ema_decay(updates: int, decay: float, warmup: bool = True) -> float:
    """The weight of the old average at update `updates` = 1, 2, ...; warm-up makes it an equal-weight mean at first."""
    return min(1.0 - 1.0 / (updates + 1), decay) if warmup else decay


def anchor_share(progress: float, share: float, length: float) -> float:
    """Linearly from 1 down to `share` over the first `length` of the run."""
    return 1.0 - (1.0 - share) * (min(progress / length, 1.0) if length else 1.0)


def cyclic(progress: float, stretch: float, start: float, length: float) -> float:
    """The cosine up to `start`; after that the piece of `length` before `start` repeats."""
    if progress >= start:
        cycles = (progress - start) / length
        progress = start + length * (cycles - floor(cycles + 1e-9) - 1)  # rounding must not delay a cycle's start
    return cosine(progress, stretch)


def ramp_down(progress: float, length: float) -> float:
    """The progress within the last `length` of the run: 0 before it, 1 at the end."""
    return max(0.0, 1.0 - (1.0 - progress) / length) if length else 0.0


def gaussian_rampdown(progress: float, length: float) -> float:
    """exp(-12.5 y^2), y from 0 to 1 over the last `length` of the run."""
    return exp(-12.5 * ramp_down(progress, length) ** 2)
