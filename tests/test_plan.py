"""Schedules against the numbers that the public record gives for the authors' program."""

import math

import pytest

from ict.engine.plan import make_plan
from ict.settings import Average, Optimizer, Train

EPOCH = 450


def plan(**train: object):  # type: ignore[no-untyped-def]
    return make_plan(Train(steps=400 * EPOCH, **train), Optimizer(), Average())  # type: ignore[arg-type]


def test_learning_rate_is_a_cosine_over_450_of_400_epochs() -> None:
    p = plan()
    assert len(p) == 180_000 and p.lr[0] == 0.1
    assert p.lr[225 * EPOCH] == pytest.approx(0.05)
    assert p.lr[-1] == pytest.approx(0.0030, abs=5e-5)


def test_weight_rises_over_the_first_quarter_from_e_to_the_minus_five() -> None:
    p = plan()
    assert p.w[0] == pytest.approx(0.674, abs=1e-3)
    assert p.w[50 * EPOCH] == pytest.approx(100 * math.exp(-5 * 0.25))
    assert p.w[100 * EPOCH] == p.w[-1] == 100.0
    assert list(p.w) == sorted(p.w)


def test_weight_can_start_at_zero() -> None:
    p = plan(rampup_from_zero=True)
    assert p.w[0] == 0.0 and p.w[100 * EPOCH] == 100.0
    assert p.w[50 * EPOCH] == pytest.approx(100 * (math.exp(-1.25) - math.exp(-5)) / (1 - math.exp(-5)))


def test_average_warms_up_from_one_half_and_reaches_its_decay_at_update_999() -> None:
    p = plan()
    assert p.decay[0] == 0.5 and p.decay[1] == pytest.approx(2 / 3)
    assert p.decay[997] < 0.999 and p.decay[998] == pytest.approx(0.999) and p.decay[-1] == 0.999


def test_constant_rate_no_warm_up_and_no_average() -> None:
    p = make_plan(Train(steps=10), Optimizer(cosine=None, lr=0.3), Average(warmup=False, decay=0.9))
    assert set(p.lr) == {0.3} and set(p.decay) == {0.9}
    assert make_plan(Train(steps=10), Optimizer(), Average(decay=None)).decay == ()
