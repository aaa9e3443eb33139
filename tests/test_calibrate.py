"""Temperatures against a grid, a known answer and torch; what few or perfect examples may do; reliability by a loop."""

import warnings

import numpy as np
import pytest
import torch
from scipy.special import softmax

from ict.estimators.auto import choose, judge
from ict.estimators.calibrate import by_validation
from ict.estimators.comparison import Comparison
from ict.estimators.default_recipes import fold_steps
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
    """A model of given probabilities for the row whose number is its input."""

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


def test_temperature_comes_from_folds_that_hid_every_label_once_or_from_validation_examples() -> None:
    probs, truth = sampled(300, 3.0)
    rows = np.arange(300, dtype=np.float32)[:, None]
    Recording.probs, Recording.shown = probs, []
    labels = np.where(np.arange(300) < 120, truth, -1)
    judged = judge(Recording(), "ict", rows, labels, 4, seed=0)
    assert judged.calibration.temperature == pytest.approx(fit_temperature(probs[:120], truth[:120]), rel=1e-6)
    whole, *folds = Recording.shown
    assert (whole == labels).all()
    hidden = np.stack([(shown < 0) & (labels >= 0) for shown in folds])
    assert (hidden.sum(0)[:120] == 1).all() and not hidden[:, 120:].any() and len(hidden) == 3
    assert judged.held_out is not None and sorted(judged.held_out.labels) == sorted(truth[:120])
    right = (probs[:120].argmax(1) == truth[:120]).mean()
    assert judged.estimate is not None and judged.estimate.value == pytest.approx(right, abs=0.01)
    by_valid = by_validation(Overconfident(probs), rows[200:], truth[200:], "rows")
    assert by_valid.temperature == fit_temperature(probs[200:], truth[200:]) and "100 validation" in by_valid.sentence


def test_a_row_is_calibrated_by_the_other_folds() -> None:
    probs, labels = sampled(90, 3.0)
    folds = np.repeat([0, 1, 2], 30)
    compared = Comparison({"ict": probs}, labels, folds, np.arange(90), np.arange(90))
    expected = tempered(probs[30:60], fit_temperature(probs[folds != 1], labels[folds != 1]))
    np.testing.assert_allclose(compared.calibrated("ict")[30:60], expected)


def test_probabilities_left_alone_say_why() -> None:
    inputs, labels = np.zeros((4, 1), np.float32), np.array([0, 0, 1, -1])
    Recording.probs = np.full((4, 2), 0.5)
    found = judge(Recording(), "ict", inputs, labels, 2, seed=0).calibration
    assert found.temperature == 1 and not found.fitted and "fewer than two different labeled" in found.sentence
    assert "no folds" in judge(Recording(), "ict", inputs, labels, 2, seed=0, folds=False).calibration.sentence


@pytest.mark.parametrize(("first", "why"), [(0, "that was skipped"), (2, "training was interrupted")])
def test_an_interrupted_fit_leaves_the_model_uncalibrated(
    first: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals = [first, 2]

    def fit(*_: object) -> TrainedNetwork:
        warnings.warn("interrupted after 3 updates", stacklevel=1)
        return TrainedNetwork(torch.nn.Linear(1, 2), 3, {}, signals.pop(0))

    monkeypatch.setattr(Fitter, "fit", fit)
    with pytest.warns(UserWarning, match="interrupted"):
        found = judge(Fitter(), "ict", np.zeros((4, 1), np.float32), np.array([0, 0, 1, 1]), 2, seed=0)
    assert found.calibration.temperature == 1 and why in found.calibration.sentence


def test_folds_have_the_updates_of_the_fit_unless_those_take_long() -> None:
    assert [fold_steps(steps, (30,)) for steps in (600, 5000, 20_000)] == [600, 5000, 5000]
    assert fold_steps(1500, (1, 8, 8)) == 1500 and fold_steps(1500, (3, 32, 32)) == 375


def test_only_the_final_fit_is_looked_at() -> None:
    X, y, truth = blobs(per_class=4)
    inputs = X.astype(np.float32)
    look = Look((inputs[100:], truth[100:].astype(np.int64)), inputs[:50], times=5)
    fitter = Fitter(steps=20, settings=("anchor.trees=5",), device="cpu")
    plain = choose(fitter, inputs, y, 3, 0)
    seen = choose(fitter, inputs, y, 3, 0, look=look)
    assert isinstance(plain.model, TrainedNetwork) and isinstance(seen.model, TrainedNetwork)
    assert plain.scores == seen.scores and plain.method == seen.method == "mean"
    assert plain.held_out is not None and len(plain.held_out.labels) == (y >= 0).sum(), "every label was held out once"
    right = (plain.held_out.probs.argmax(1) == plain.held_out.labels).mean()
    assert right == pytest.approx(np.mean(plain.scores["mean"]))
    for name, weights in plain.model.module.state_dict().items():
        assert torch.equal(weights, seen.model.module.state_dict()[name]), "looking changed the network"
    followed = [record for record in seen.model.history if "confidence" in record]
    assert [record["step"] for record in followed] == [8, 16, 24, 32, 40], "a distilled network has twice the updates"
    probs = seen.model.predict_proba(inputs)
    assert followed[-1]["confidence"] == pytest.approx(probs[:50].max(1).mean(), abs=1e-5)
    wrong = (probs[100:].argmax(1) != truth[100:]).mean()
    last = followed[-1]
    assert last.get("valid_error_teacher", last["valid_error_student"]) == pytest.approx(wrong)
    assert not any("confidence" in record for record in plain.model.history)
