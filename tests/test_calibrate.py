"""Temperatures against a grid, a known answer and torch; what few or perfect examples may do; reliability by a loop."""

import warnings

import numpy as np
import pytest
import torch
from scipy.special import softmax

from ict.estimators.auto import choose
from ict.estimators.calibrate import calibrate
from ict.estimators.fitter import Fitter, Look
from ict.experts.temperature import fit_temperature, reliability, tempered
from ict.models.trained_network import TrainedNetwork
from tests.test_classifier import blobs


def sampled(n: int, sharpness: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of a model that is `sharpness` times too sure, and labels drawn from the true ones."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, 4)) * 2
    truth = softmax(logits, axis=1)
    labels = np.array([rng.choice(4, p=row) for row in truth])
    return softmax(logits * sharpness, axis=1), labels


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 3.0])
def test_many_examples_give_back_how_much_too_sure_a_model_is(sharpness: float) -> None:
    probs, labels = sampled(4000, sharpness)
    assert fit_temperature(probs, labels) == pytest.approx(sharpness, rel=0.08)


def test_the_temperature_is_the_best_of_a_grid() -> None:
    probs, labels = sampled(60, 2.0)
    grid = np.exp(np.linspace(np.log(0.1), np.log(10), 2001))

    def loss(t: float) -> float:
        nll = torch.nn.functional.cross_entropy(
            torch.log(torch.from_numpy(probs)) / t, torch.from_numpy(labels), reduction="sum"
        )
        return float(nll) + float(np.log(t)) ** 2 / (2 * 0.5**2)

    assert fit_temperature(probs, labels) == pytest.approx(grid[np.argmin([loss(t) for t in grid])], rel=0.003)


def test_few_or_perfect_or_hopeless_examples_cannot_make_it_run_away() -> None:
    sure = np.array([[0.9, 0.1], [0.1, 0.9]])
    assert 0.5 < fit_temperature(np.repeat(sure[:1], 3, axis=0), np.zeros(3, dtype=np.int64)) < 1
    assert 0.1 <= fit_temperature(np.tile(sure, (500, 1)), np.tile([0, 1], 500)) < 0.3, "always right: sharper"
    assert fit_temperature(np.tile(sure, (500, 1)), np.tile([1, 0], 500)) == pytest.approx(10, rel=1e-3)
    assert fit_temperature(sure[:0], np.zeros(0, dtype=np.int64)) == pytest.approx(1, abs=1e-4)
    hard = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert np.isfinite(fit_temperature(hard, np.array([0, 0])))


def test_tempering_divides_the_logits_and_keeps_every_guess() -> None:
    logits = torch.randn(50, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 5
    probs = logits.softmax(1).numpy()
    np.testing.assert_allclose(tempered(probs, 2.5), (logits / 2.5).softmax(1).numpy(), rtol=1e-9)
    assert (tempered(probs, 0.3).argmax(1) == probs.argmax(1)).all()
    assert tempered(probs, 1.0) is probs
    hard = tempered(np.array([[1.0, 0.0]]), 2.0)
    assert np.isfinite(hard).all() and hard.sum() == pytest.approx(1)


def test_reliability_is_a_loop_over_bins() -> None:
    probs, labels = sampled(200, 2.0)
    found = reliability(probs, labels)
    error, bins = 0.0, 0
    for low in np.arange(10) / 10:
        inside = [i for i, p in enumerate(probs.max(1)) if low <= p < low + 0.1 or (low == 0.9 and p == 1)]
        if inside:
            mean, right = np.mean(probs.max(1)[inside]), np.mean(probs.argmax(1)[inside] == labels[inside])
            assert (found.probability[bins], found.accuracy[bins]) == pytest.approx((mean, right))
            assert found.counts[bins] == len(inside)
            error, bins = error + len(inside) / 200 * abs(mean - right), bins + 1
    assert bins == len(found.counts) and found.error == pytest.approx(error)


def test_a_probability_of_one_is_in_the_last_bin() -> None:
    found = reliability(np.array([[1.0, 0.0], [0.05, 0.95]]), np.array([0, 1]))
    assert found.counts.tolist() == [2] and found.error == pytest.approx(0.025)


class Overconfident:
    """A model that is always as sure as it is told, and notes which labels its fits were shown."""

    def __init__(self, probs: np.ndarray) -> None:
        self.probs = probs

    def predict_proba(self, inputs: np.ndarray, /) -> np.ndarray:
        return np.asarray(self.probs[inputs[:, 0].astype(int)])


class Recording(Fitter):
    shown: list[np.ndarray] = []  # noqa: RUF012  a frozen dataclass keeps nothing of its own
    probs: np.ndarray

    def fit(self, method, inputs, labels, n_classes, seed, look=None):  # type: ignore[no-untyped-def]
        self.shown.append(labels)
        return Overconfident(self.probs)


def test_temperature_comes_from_validation_examples_or_from_folds_that_hid_every_label_once() -> None:
    probs, truth = sampled(300, 3.0)
    rows = np.arange(300, dtype=np.float32)[:, None]
    Recording.probs, Recording.shown = probs, []
    labels = np.where(np.arange(300) < 120, truth, -1)
    model, fitter = Overconfident(probs), Recording()
    by_valid = calibrate(fitter, "ict", model, rows, labels, (rows[200:], truth[200:]), 4, seed=0)
    assert by_valid.temperature == fit_temperature(probs[200:], truth[200:]) and "100 validation" in by_valid.said
    assert not Recording.shown, "nothing was fitted again"
    by_folds = calibrate(fitter, "ict", model, rows, labels, None, 4, seed=0)
    assert by_folds.temperature == pytest.approx(fit_temperature(probs[:120], truth[:120]), rel=1e-6)
    hidden = np.stack([(shown < 0) & (labels >= 0) for shown in Recording.shown])
    assert (hidden.sum(0)[:120] == 1).all() and not hidden[:, 120:].any() and len(hidden) == 3


@pytest.mark.parametrize(
    ("labels", "updates", "interrupted", "why"),
    [
        ([0, 0, 1, -1], 10, False, "fewer than two labels"),
        ([0, 0, 1, 1], 5001, False, "too long"),
        ([0, 0, 1, 1], 10, True, "interrupted"),
    ],
)
def test_probabilities_left_alone_say_why(labels: list[int], updates: int, interrupted: bool, why: str) -> None:
    model = TrainedNetwork(torch.nn.Linear(1, 2), updates, {}, interrupted)
    found = calibrate(Fitter(), "ict", model, np.zeros((4, 1), np.float32), np.array(labels), None, 2, seed=0)
    assert found.temperature == 1 and not found.fitted and "not calibrated" in found.said and why in found.said


def test_folds_that_would_take_too_long_leave_it_to_those_of_the_comparison() -> None:
    probs, truth = sampled(120, 3.0)
    model = TrainedNetwork(torch.nn.Linear(1, 2), 5001, {}, False)
    labels = np.array([0, 0, 1, 1])
    found = calibrate(Fitter(), "ict", model, np.zeros((4, 1), np.float32), labels, None, 2, 0, (probs, truth))
    assert found.fitted and found.temperature == fit_temperature(probs, truth) and "shorter fits" in found.said


def test_a_fold_that_is_interrupted_leaves_the_model_uncalibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> TrainedNetwork:
        warnings.warn("interrupted after 3 updates", stacklevel=1)
        return TrainedNetwork(torch.nn.Linear(1, 2), 3, {}, True)

    monkeypatch.setattr(Fitter, "fit", interrupted)
    model, inputs = TrainedNetwork(torch.nn.Linear(1, 2), 10, {}, False), np.zeros((4, 1), np.float32)
    found = calibrate(Fitter(), "ict", model, inputs, np.array([0, 0, 1, 1]), None, 2, seed=0)
    assert found.temperature == 1 and "skipped" in found.said


def test_only_the_final_fit_is_looked_at() -> None:
    X, y, truth = blobs(per_class=4)
    inputs = X.astype(np.float32)
    look = Look((inputs[100:], truth[100:].astype(np.int64)), inputs[:50], times=5)
    fitter = Fitter(steps=20, device="cpu")
    plain = choose(fitter, inputs, y, 3, 0, ("supervised", "ict"))
    seen = choose(fitter, inputs, y, 3, 0, ("supervised", "ict"), look)
    assert isinstance(plain.model, TrainedNetwork) and isinstance(seen.model, TrainedNetwork)
    assert plain.errors == seen.errors and plain.method == seen.method
    assert plain.guesses is not None
    probs, known = plain.guesses
    assert len(known) == (y >= 0).sum(), "every label was held out once"
    mean = np.average(plain.errors[plain.method], weights=[len(known) / 3] * 3)
    assert (probs.argmax(1) != known).mean() == pytest.approx(mean)
    for name, weights in plain.model.module.state_dict().items():
        assert torch.equal(weights, seen.model.module.state_dict()[name]), "looking changed the network"
    followed = [record for record in seen.model.history if "confidence" in record]
    assert [record["step"] for record in followed] == [4, 8, 12, 16, 20]
    probs = seen.model.predict_proba(inputs)
    assert followed[-1]["confidence"] == pytest.approx(probs[:50].max(1).mean(), abs=1e-5)
    wrong = (probs[100:].argmax(1) != truth[100:]).mean()
    last = followed[-1]
    assert last.get("valid_error_teacher", last["valid_error_student"]) == pytest.approx(wrong)
    assert not any("confidence" in record for record in plain.model.history)
