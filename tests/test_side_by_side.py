"""Folds of networks of pixels in several processes: the same bits, and what happens if one of them is lost."""

import signal
import time
from dataclasses import replace
from multiprocessing import active_children
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ict.base.array_types import Array, Labels
from ict.base.errors import UserError
from ict.estimators import auto, side_by_side
from ict.estimators.auto import choose, judge
from ict.estimators.fitter import Fitter
from ict.estimators.side_by_side import guess_folds, pays
from ict.experiment.progress_line import ProgressLine
from ict.experts.folds import hidden_folds

FITTER = Fitter(steps=12, device="cpu", processes=2)


def images(n: int = 40) -> tuple[Array, Labels]:
    draws = np.random.default_rng(0)
    x = draws.normal(size=(n, 1, 8, 8)).astype(np.float32)
    truth = np.arange(n) % 2
    x[:, 0, :4] += 2.0 * truth[:, None, None]
    return x, np.where(np.arange(n) < 12, truth, -1)


def test_processes_guess_the_bits_of_fits_one_after_the_other_on_one_thread() -> None:
    x, y = images()
    folds = list(hidden_folds(y, 3, 0))
    reports = list[float]()
    guessed = guess_folds(FITTER, ("ict", "supervised"), x, folds, 2, 0, reports.append)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for name, guesses in guessed.items():
            for (hidden, held_out), guess in zip(folds, guesses, strict=True):
                model = FITTER.fit(name, x, hidden, 2, 0)
                np.testing.assert_array_equal(guess.probs, model.predict_proba(x[held_out]))
    finally:
        torch.set_num_threads(threads)
    assert len({guess.probs.tobytes() for guesses in guessed.values() for guess in guesses}) == 6, "no two are alike"
    assert reports[0] == 0 and reports[-1] == 6 and reports == sorted(reports)


def test_a_comparison_side_by_side_has_the_scores_of_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "_WORTH", 1)
    x, y = images()
    lines = [ProgressLine(), ProgressLine()]
    both, one = (choose(replace(FITTER, processes=n, progress=lines[n - 1]), x, y, 2, 0) for n in (2, 1))
    assert list(both.scores.items()) == list(one.scores.items()) and len(one.scores) > 4
    assert both.verdict == one.verdict and both.calibration == one.calibration
    asked = [judge(replace(FITTER, processes=n), "ict", x, y, 2, 0) for n in (2, 1)]
    assert asked[0].held_out is not None and asked[1].held_out is not None
    np.testing.assert_array_equal(asked[0].held_out.probs, asked[1].held_out.probs)


def test_a_fit_that_was_asked_for_is_kept_if_its_folds_are_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: Any) -> None:
        raise KeyboardInterrupt(signal.SIGTERM)

    monkeypatch.setattr(side_by_side, "_WORTH", 1)
    monkeypatch.setattr(auto, "guess_folds", interrupted)
    x, y = images()
    judged = judge(FITTER, "ict", x, y, 2, 0)
    assert judged.signal == signal.SIGTERM and not judged.interrupted and judged.estimate is None
    assert judged.model.predict_proba(x).shape == (40, 2)
    with pytest.raises(KeyboardInterrupt):
        choose(FITTER, x, y, 2, 0)


def test_a_process_that_is_killed_is_an_error_in_one_sentence() -> None:
    def kill() -> None:
        while not active_children():
            time.sleep(0.01)
        active_children()[0].kill()

    x, y = images()
    folds = list(hidden_folds(y, 2, 0))
    killer = Thread(target=kill)
    killer.start()
    with pytest.raises(UserError, match=r"a process that fitted ict to a fold was killed.*OMP_NUM_THREADS=1"):
        guess_folds(replace(FITTER, steps=100_000), ("ict",), x, folds, 2, 0, lambda _: None)
    killer.join()
    assert not active_children(), "the other one has ended too"


@pytest.mark.parametrize(
    ("method", "changed", "shape"),
    [
        ("graph", {}, (1, 8, 8)),
        ("ict", {"processes": 1}, (1, 8, 8)),
        ("ict", {"steps": 60}, (1, 8, 8)),
        ("ict", {"network": nn.Linear(2, 2)}, (1, 8, 8)),
        ("ict", {}, (64,)),
        ("ict", {}, (3, 64, 64)),
    ],
)
def test_where_processes_would_not_pay(method: str, changed: dict[str, Any], shape: tuple[int, ...]) -> None:
    assert pays("ict", replace(FITTER, steps=300), np.zeros((5, 3, 32, 32)))
    assert pays("ict", replace(FITTER, steps=None), np.zeros((5, 1, 8, 8))), "the default is long enough"
    assert not pays(method, replace(FITTER, **({"steps": 300} | changed)), np.zeros((5, *shape)))
