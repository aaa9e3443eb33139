"""Schedules: pure functions of how far training has come."""

from math import cos, exp, pi


def cosine(progress: float, stretch: float = 1.0) -> float:
    """Half a cosine from 1 at progress 0; it reaches 0 at progress = stretch."""
    return 0.5 * (cos(pi * min(progress / stretch, 1.0)) + 1.0)


def sigmoid_rampup(progress: float, length: float, from_zero: bool = False) -> float:
    """exp(-5 (1 - progress/length)^2), from e^-5 up to 1; `from_zero` shifts and scales it to start at 0."""
    if progress >= length:
        return 1.0
    value = exp(-5.0 * (1.0 - progress / length) ** 2)
    return (value - exp(-5.0)) / (1.0 - exp(-5.0)) if from_zero else value


def ema_decay(updates: int, decay: float, warmup: bool = True) -> float:
    """The weight of the old average at update `updates` = 1, 2, ...; warm-up makes it a plain mean at first."""
    return min(1.0 - 1.0 / (updates + 1), decay) if warmup else decay
