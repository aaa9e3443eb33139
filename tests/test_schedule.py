"""Schedules against the numbers that the public record gives for the authors' program."""

import math

import pytest

from ict.engine.schedule import Plan, make_plan
from ict.engine.settings import Average, Optimizer, Rate, Swa, Train

EPOCH = 450


def plan(**train: object):  # type: ignore[no-untyped-def]
    return make_plan(Train(steps=400 * EPOCH, **train), Optimizer(), Rate(), Average(), Swa())  # type: ignore[arg-type]


def rates(steps: int, optimizer: Optimizer | None = None, **rate: object) -> Plan:
    return make_plan(Train(steps=steps), optimizer or Optimizer(lr=1.0), Rate(**rate), Average(), Swa())  # type: ignore[arg-type]


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
    p = make_plan(Train(steps=10), Optimizer(lr=0.3), Rate(shape="constant"), Average(warmup=False, decay=0.9), Swa())
    assert set(p.lr) == {0.3} and set(p.decay) == {0.9} and set(p.momentum) == {0.9} and p.swa == ()
    assert make_plan(Train(steps=10), Optimizer(), Rate(), Average(decay=None), Swa()).decay == ()


def test_laine_and_ailas_ramps() -> None:
    """300 epochs: the rate rises over 80, falls over the last 50, and beta1 goes from .9 to .5 with it."""
    adam = Optimizer(name="adam", lr=0.003, final_momentum=0.5)
    p = rates(300, adam, shape="gaussian", rampup=80 / 300, rampdown=50 / 300)
    for epoch in (0, 40, 79, 80, 200, 250, 275, 299):
        up = math.exp(-5 * (1 - min(epoch / 80, 1)) ** 2)
        down = math.exp(-12.5 * max((epoch - 250) / 50, 0) ** 2)
        assert p.lr[epoch] == pytest.approx(0.003 * up * down)
        assert p.momentum[epoch] == pytest.approx(0.9 * down + 0.5 * (1 - down))


def test_miyatos_linear_decay() -> None:
    """500 epochs: constant up to 460, then linearly to 0; beta1 is .5 from there on."""
    p = rates(500, Optimizer(name="adam", lr=0.001, final_momentum=0.5), shape="linear", rampdown=40 / 500)
    assert p.lr[459] == 0.001 and p.lr[480] == pytest.approx(0.0005) and p.lr[499] == pytest.approx(0.001 / 40)
    assert p.momentum[459] == 0.9 and p.momentum[461] == p.momentum[499] == 0.5


def test_olivers_step() -> None:
    p = rates(500, Optimizer(name="adam", lr=0.003), shape="step", rampdown=0.2)
    assert set(p.lr[:400]) == {0.003} and p.lr[401] == p.lr[499] == pytest.approx(0.0006)


def test_fast_swas_cycles() -> None:
    """1200 epochs: a cosine over 210 up to 180, then epochs 150 to 180 of it again and again; every third is taken."""
    p = rates(1200, shape="cyclic", stretch=210 / 1200, cycle_from=180 / 1200, cycle=30 / 1200)
    half_cosine = [0.5 * (1 + math.cos(math.pi * epoch / 210)) for epoch in range(180)]
    assert p.lr[:180] == pytest.approx(half_cosine)
    for start in range(180, 1200, 30):
        assert p.lr[start : start + 30] == pytest.approx(half_cosine[150:])
    swa = Swa(start=150 / 1200, every=3 / 1200)
    taken = make_plan(Train(steps=1200), Optimizer(), Rate(), Average(), swa).swa
    after = [done for done, kept in enumerate(taken, start=1) if kept is not None]
    assert after == list(range(150, 1201, 3))


def test_the_plain_means_shares_make_a_mean() -> None:
    taken = make_plan(Train(steps=40), Optimizer(), Rate(), Average(), Swa(start=0.5, every=0.1)).swa
    values, mean = [], 0.0
    for step, kept in enumerate(taken):
        if kept is not None:
            values.append(float(step**2))
            mean = kept * mean + (1 - kept) * values[-1]
    assert len(values) == 6 and mean == pytest.approx(sum(values) / 6)
