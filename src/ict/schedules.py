"""Schedules: pure functions of how far training has come."""

from math import cos, exp, floor, pi


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


def cyclic(progress: float, stretch: float, start: float, length: float) -> float:
    """The cosine up to `start`; after that its piece of `length` before `start`, over and over."""
    if progress >= start:
        cycles = (progress - start) / length
        progress = start + length * (cycles - floor(cycles + 1e-9) - 1)  # rounding must not put off a cycle's start
    return cosine(progress, stretch)


def ramp_down(progress: float, length: float) -> float:
    """How far the last `length` of the run has gone: 0 before it, 1 at the end."""
    return max(0.0, 1.0 - (1.0 - progress) / length) if length else 0.0


def gaussian_rampdown(progress: float, length: float) -> float:
    """exp(-12.5 y^2), y from 0 to 1 over the last `length` of the run."""
    return exp(-12.5 * ramp_down(progress, length) ** 2)
