"""The scikit-learn front: scikit-learn's own checks, shapes and labels of all kinds, and what users rely on."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from ict import ICTClassifier, SemiSupervisedClassifier
from ict.base.errors import UserError
from ict.experts.folds import hidden_folds
from ict.models.trained_network import TrainedNetwork

QUICK: dict[str, Any] = {"steps": 40, "settings": ("anchor.trees=5",), "device": "cpu", "random_state": 0}


def minus_one_is_no_class(estimator: Any) -> dict[str, str]:
    return {"check_classifiers_classes": "it has -1 as a class, which here marks the unlabeled"}


@pytest.mark.filterwarnings("ignore")  # the checks provoke many
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        ICTClassifier(steps=40, settings=("anchor.trees=5",), device="cpu", calibrate=False),
        SemiSupervisedClassifier(steps=5, settings=("anchor.trees=2",), device="cpu"),
        SemiSupervisedClassifier("graph"),
    ],
    expected_failed_checks=minus_one_is_no_class,
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def blobs(n: int = 240, per_class: int = 5) -> tuple[Any, Any, Any]:
    X, truth = make_blobs(n, centers=3, n_features=6, random_state=0)
    y = np.full(n, -1)
    for label in range(3):
        rows = np.flatnonzero(truth == label)[:per_class]
        y[rows] = label
    return X, y, truth


def test_unlabeled_rows_are_guessed_and_labeled_ones_kept() -> None:
    X, y, truth = blobs()
    model = ICTClassifier(**QUICK).fit(X, y)
    assert (model.transduction_[y >= 0] == y[y >= 0]).all()
    assert (model.transduction_ == truth).mean() > 0.95 and model.score(X, truth) > 0.95
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)
    assert model.classes_.tolist() == [0, 1, 2] and model.n_iter_ == 40


@pytest.mark.parametrize("unknown", [None, np.nan, -1, "-1"])
def test_labels_may_be_texts_with_any_sign_of_being_unknown(unknown: Any) -> None:
    X, y, truth = blobs()
    names = np.array(["ant", "bee", "cow"])
    texts = [unknown if label < 0 else names[label] for label in y]
    model = ICTClassifier(**QUICK).fit(X, np.array(texts, dtype=object))
    assert model.classes_.tolist() == ["ant", "bee", "cow"]
    assert (model.predict(X) == names[truth]).mean() > 0.95


def test_unlabeled_examples_may_come_apart() -> None:
    X, y, _ = blobs()
    together = ICTClassifier(**QUICK).fit(np.concatenate([X[y >= 0], X[y < 0]]), np.concatenate([y[y >= 0], y[y < 0]]))
    apart = ICTClassifier(**QUICK).fit(X[y >= 0], y[y >= 0], unlabeled_X=X[y < 0])
    np.testing.assert_array_equal(together.predict_proba(X), apart.predict_proba(X))
    assert len(apart.transduction_) == len(X)


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 1), (1, 8, 8)], ids=["n h w", "n h w c", "n c h w"])
def test_images_of_every_layout_are_the_same_to_it(shape: tuple[int, ...]) -> None:
    images, truth = load_digits(return_X_y=True)
    y = np.where(np.arange(300) < 60, truth[:300], -1)
    model = ICTClassifier(**QUICK).fit(images[:300].reshape(-1, *shape), y)
    flat = ICTClassifier(**QUICK).fit(images[:300].reshape(-1, 8, 8), y)
    np.testing.assert_array_equal(
        model.predict_proba(images[:50].reshape(-1, *shape)), flat.predict_proba(images[:50].reshape(-1, 8, 8))
    )
    assert isinstance(model.model_, TrainedNetwork)
    assert model.model_.recipe["network"]["name"] == "convnet" and model.model_.recipe["inputs"]["pad"] == 1


def test_torch_tensors_and_integers_are_taken() -> None:
    X, y, _ = blobs()
    model = ICTClassifier(**QUICK).fit(torch.from_numpy(X), torch.from_numpy(y))
    expected = ICTClassifier(**QUICK).fit(X, y)
    np.testing.assert_array_equal(model.predict(torch.from_numpy(X)), expected.predict(X))


def test_any_module_that_returns_logits_will_do() -> None:
    X, y, truth = blobs()
    network = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    before = [p.clone() for p in network.parameters()]
    model = ICTClassifier(network=network, **{**QUICK, "steps": 400}).fit(X, y)
    assert isinstance(model.model_, TrainedNetwork) and isinstance(model.model_.module, nn.Sequential)
    assert model.score(X, truth) > 0.9
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True)), "it trains a copy"
    with pytest.raises(UserError, match="logits"):
        ICTClassifier(network=nn.Linear(6, 5), **QUICK).fit(X, y)


def test_same_seed_same_bits_and_the_global_state_is_left_alone() -> None:
    X, y, _ = blobs()
    torch.manual_seed(5)
    np.random.seed(5)
    expected = torch.rand(3), np.random.rand(3)
    torch.manual_seed(5)
    np.random.seed(5)
    one, two = (ICTClassifier(**QUICK).fit(X, y).predict_proba(X) for _ in range(2))
    assert (one == two).all()
    assert torch.equal(torch.rand(3), expected[0]) and (np.random.rand(3) == expected[1]).all()
    other = ICTClassifier(**{**QUICK, "random_state": 1}).fit(X, y).predict_proba(X)
    assert not (one == other).all()


def test_clone_pickle_pipeline_and_search() -> None:
    X, y, truth = blobs()
    model = ICTClassifier(**{**QUICK, "settings": ("train.weight=30", "anchor.trees=5")}).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(model.predict_proba(X), again.predict_proba(X))
    assert clone(model).get_params() == model.get_params()
    pipeline = make_pipeline(StandardScaler(), ICTClassifier(**QUICK)).fit(X, y)
    assert pipeline.score(X, truth) > 0.95
    search = GridSearchCV(ICTClassifier(**QUICK), {"steps": [5, 40]}, cv=2).fit(X[:60], truth[:60])
    assert search.best_params_["steps"] in (5, 40)
    assert cross_val_score(ICTClassifier(**QUICK), X[:60], truth[:60], cv=2).shape == (2,)


def test_unequal_label_counts_do_not_drown_a_class() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (300, 2)), rng.normal([2.5, 0], 1, (300, 2))])
    truth = np.repeat([0, 1], 300)
    y = np.full(600, -1)
    y[:40], y[300:304] = 0, 1  # ten to one, while the examples are as many
    model = SemiSupervisedClassifier("ict", **{**QUICK, "steps": 200}).fit(X, y)
    recall = [(model.predict(X)[truth == label] == label).mean() for label in (0, 1)]
    assert min(recall) > 0.75


def test_a_rare_class_is_found_where_labels_are_drawn_like_the_rows() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (500, 2)), rng.normal([4, 0], 1, (50, 2))])
    truth = np.repeat([0, 1], [500, 50])
    y = np.full(550, -1)
    y[:30], y[500:503] = 0, 1
    model = ICTClassifier(**{**QUICK, "steps": 200}).fit(X, y)
    guesses = model.predict(X)
    assert (guesses == truth).mean() > 0.95 and (guesses[truth == 1] == 1).mean() > 0.7


def test_it_is_anchored_on_vectors_and_plain_on_images() -> None:
    X, y, _ = blobs()
    assert ICTClassifier(**{**QUICK, "steps": 2}).fit(X, y).method_ == "anchored"
    images = np.repeat(X, 6, axis=1).reshape(-1, 6, 6)
    assert ICTClassifier(**{**QUICK, "steps": 2}).fit(images, y).method_ == "ict"


def test_an_interrupted_fit_leaves_a_usable_model() -> None:
    X, y, _ = blobs()
    usual = signal.getsignal(signal.SIGINT)

    def interrupt() -> None:
        while signal.getsignal(signal.SIGINT) is usual:  # training has not begun
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.warns(UserWarning, match="interrupted after"):
        model = ICTClassifier(**{**QUICK, "steps": 50_000}).fit(X, y)
    assert 0 < model.n_iter_ < 50_000 and model.predict(X).shape == (240,)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_program_with_a_handler_of_its_own_gets_the_signal_once_the_model_is_usable(number: signal.Signals) -> None:
    X, y, _ = blobs()
    received: list[int] = []
    before = signal.signal(number, lambda number, _: received.append(number))
    mine = signal.getsignal(number)

    def stop() -> None:
        while signal.getsignal(number) is mine:  # training has not begun
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    threading.Thread(target=stop, daemon=True).start()
    try:
        with pytest.warns(UserWarning, match="interrupted after"):
            model = ICTClassifier(**{**QUICK, "steps": 50_000}).fit(X, y)
    finally:
        signal.signal(number, before)
    assert received == [number]
    assert 0 < model.n_iter_ < 50_000 and model.predict(X).shape == (240,)


def test_sigterm_ends_a_program_without_a_handler() -> None:
    code = (
        "import os, signal, threading, time\n"
        "from ict import ICTClassifier\n"
        "from tests.test_classifier import QUICK, blobs\n"
        "X, y, _ = blobs()\n"
        "def stop():\n"
        "    while signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:\n"
        "        time.sleep(0.01)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "threading.Thread(target=stop, daemon=True).start()\n"
        "ICTClassifier(**{**QUICK, 'steps': 50_000}).fit(X, y)\n"
        "print('it went on')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, ""), done.stderr
    assert "interrupted after" in done.stderr


def test_it_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    X, y, _ = blobs()
    ICTClassifier(**QUICK).fit(X, y)
    said = capfd.readouterr()
    assert said.out == said.err == ""


@pytest.mark.parametrize(
    ("y", "says"),
    [
        (np.full(240, -1), "no label"),
        (np.array(["a", 1] * 120, dtype=object), "mixes"),
        (np.zeros(7), "inconsistent"),
        (np.zeros((240, 2)), "1d"),
    ],
)
def test_a_wrong_y_is_told_in_a_sentence(y: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ICTClassifier(**QUICK).fit(blobs()[0], y)


CANDIDATES = {"mean", "anchored", "trees", "anchored-graph", "logistic"}


def test_auto_compares_on_folds_and_ships_one_network() -> None:
    X, y, truth = blobs()
    model = SemiSupervisedClassifier(**QUICK).fit(X, y)
    assert set(model.comparison_) == CANDIDATES and all(len(folds) == 5 for folds in model.comparison_.values())
    assert model.method_ in CANDIDATES and isinstance(model.model_, TrainedNetwork)
    assert model.verdict_ is not None and str(model.verdict_) in model.remark_ and model.score(X, truth) > 0.95
    assert model.estimate_ is not None and model.estimate_.n == 15
    assert model.estimate_.low <= (model.predict(X) == truth).mean() <= model.estimate_.high


def test_auto_leaves_the_graph_out_where_there_are_too_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, _ = blobs()
    for module in ("estimators.candidates", "estimators.fitter", "experts.experts"):
        monkeypatch.setattr(f"ict.{module}.GRAPH_LIMIT", len(X) - 1)
    assert set(SemiSupervisedClassifier(**QUICK).fit(X, y).comparison_) == CANDIDATES - {"anchored-graph"}


def test_auto_with_one_label_in_a_class_says_that_there_are_no_folds() -> None:
    X, y, truth = blobs(per_class=1)
    model = SemiSupervisedClassifier(**QUICK).fit(X, y)
    assert model.verdict_ is None and model.estimate_ is None and model.comparison_ == {} and model.temperature_ == 1
    assert "fewer than two different labeled" in model.remark_ and model.method_ == "mean"
    assert model.score(X, truth) > 0.9


def test_auto_takes_a_single_class_and_many_classes_without_a_warning() -> None:
    X, y, _ = blobs()
    alone = SemiSupervisedClassifier(**QUICK).fit(X, np.where(y == 0, 7, -1))
    assert set(alone.predict(X)) == {7} and (alone.predict_proba(X) == 1).all()
    many = np.full(len(X), -1)
    many[:40] = np.arange(40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(SemiSupervisedClassifier(**{**QUICK, "steps": 4}).fit(X, many).classes_) == 40


def test_auto_takes_images_and_rows_that_are_all_labeled() -> None:
    X, y, truth = blobs(n=60)
    images = np.repeat(X, 6, axis=1).reshape(-1, 6, 6)
    model = SemiSupervisedClassifier(**{**QUICK, "steps": 4}).fit(images, y)
    assert set(model.comparison_) == CANDIDATES | {"ict", "supervised"}
    full = SemiSupervisedClassifier(**{**QUICK, "steps": 4}).fit(X, truth)
    assert set(full.comparison_) == CANDIDATES - {"anchored-graph"} and full.verdict_ is None


def test_identical_rows_and_groups_are_held_out_together(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, _ = blobs(per_class=8)
    labeled = np.flatnonzero(y >= 0)
    groups = np.arange(len(X))
    for label in range(3):
        rows = np.flatnonzero(y == label)
        groups[rows[:4]] = 1000 + label
        X[rows[4]] = X[rows[5]]
    folds: list[np.ndarray] = []
    whole = hidden_folds

    def watched(*arguments: Any) -> Any:
        for hidden, rows in whole(*arguments):
            folds.append(rows)
            yield hidden, rows

    monkeypatch.setattr("ict.estimators.comparison.hidden_folds", watched)
    SemiSupervisedClassifier("graph").fit(X, y, groups=groups)
    assert sorted(np.concatenate(folds)) == labeled.tolist()
    for label in range(3):
        rows = np.flatnonzero(y == label)
        assert sum(bool(set(rows[:4]) & set(fold)) for fold in folds) == 1, "a group is in one fold"
        assert sum(bool({rows[4], rows[5]} & set(fold)) for fold in folds) == 1, "twins are in one fold"
    with pytest.raises(UserError, match="groups"):
        SemiSupervisedClassifier("graph").fit(X, y, groups=groups[:5])


def test_probabilities_of_vectors_are_calibrated_unless_it_is_not_wanted() -> None:
    X, y, _ = blobs()
    model = ICTClassifier(**QUICK).fit(X, y)
    plain = ICTClassifier(**QUICK, calibrate=False).fit(X, y)
    assert plain.temperature_ == 1 and model.temperature_ != 1 and plain.estimate_ is None
    logits = np.log(np.maximum(plain.predict_proba(X), 1e-30)) / model.temperature_
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-9)
    with pytest.raises(UserError, match="balanced_accuracy"):
        ICTClassifier(**QUICK, metric="balanced").fit(X, y)  # type: ignore[arg-type]


def test_graph_propagation_is_a_method_of_its_own() -> None:
    X, y, truth = blobs()
    model = SemiSupervisedClassifier("graph").fit(X, y)
    assert model.method_ == "graph" and model.score(X, truth) > 0.95


def test_data_frames_keep_their_column_names() -> None:
    pandas = pytest.importorskip("pandas")
    X, y, _ = blobs()
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    model = ICTClassifier(**QUICK).fit(frame, pandas.Series(y))
    assert model.feature_names_in_.tolist() == list("abcdef")
    np.testing.assert_array_equal(model.predict(frame), ICTClassifier(**QUICK).fit(X, y).predict(X))


def test_unknown_methods_and_settings_are_named() -> None:
    X, y, _ = blobs()
    with pytest.raises(UserError, match="mean-teacher"):
        SemiSupervisedClassifier("mean-techer", **QUICK).fit(X, y)
    with pytest.raises(UserError, match=r"train\.weight"):
        ICTClassifier(**{**QUICK, "settings": ("train.wieght=3",)}).fit(X, y)
