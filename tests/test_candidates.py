"""Each candidate is one network, and is what it is called: against scikit-learn, and against the experts themselves."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from ict.data.array_inputs import fit_inputs, has_same_length
from ict.estimators.candidates import ANCHORED, DESCRIPTIONS, LOGISTIC, MEAN, ON_GRAPH, TREES, Candidates
from ict.estimators.fitter import Fitter
from ict.experts.experts import Experts
from ict.models.saved_model import SavedModel, load_model, save_model
from ict.models.trained_network import TrainedNetwork
from tests.test_classifier import blobs


def candidates(steps: int | None = 30, **options: Any) -> tuple[Candidates, np.ndarray, np.ndarray]:
    X, y, _ = blobs()
    inputs = fit_inputs(X)(X)
    fitter = Fitter(steps=steps, settings=("anchor.trees=5",), device="cpu")
    return Candidates(fitter, inputs, 3, seed=4, **options), inputs, y.astype(np.int64)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_regression_is_a_linear_layer(n_classes: int) -> None:
    _, inputs, y = candidates()
    y = np.where(y >= n_classes, -1, y)
    made = Candidates(Fitter(device="cpu"), inputs, n_classes, 0)
    ((_, model),) = made.fit((LOGISTIC,), y)
    reference = LogisticRegression(C=1, max_iter=1000).fit(inputs[y >= 0], y[y >= 0])
    np.testing.assert_allclose(model.predict_proba(inputs), reference.predict_proba(inputs), atol=1e-5)
    assert isinstance(model, TrainedNetwork) and len(list(model.module.parameters())) == 2


def test_a_distilled_candidate_says_what_its_teacher_says() -> None:
    made, inputs, y = candidates(steps=600)
    opinion = Experts(trees=5).fit(inputs, y, 3, 4)
    for name, teacher in ((TREES, opinion.probs["trees"]), (MEAN, opinion.mean)):
        ((_, model),) = made.fit((name,), y)
        assert isinstance(model, TrainedNetwork) and model.n_updates == 1200
        guesses = model.predict_proba(inputs[y < 0])
        assert (guesses.argmax(1) == teacher[y < 0].argmax(1)).mean() > 0.95
        assert np.abs(guesses - teacher[y < 0]).mean() < 0.1


def test_anchored_candidates_are_the_methods_of_that_name() -> None:
    made, inputs, y = candidates()
    for name, model in made.fit((ANCHORED, ON_GRAPH), y):
        method = made.fitter.fit(name, inputs, y, 3, 4)
        np.testing.assert_array_equal(model.predict_proba(inputs), method.predict_proba(inputs))


def test_every_candidate_can_be_saved_and_predicts_as_it_did(tmp_path: Any) -> None:
    made, inputs, y = candidates()
    X, _, _ = blobs()
    for name, model in made.fit(made.names(y), y):
        assert isinstance(model, TrainedNetwork) and name in DESCRIPTIONS
        save_model(tmp_path / name, SavedModel(model, fit_inputs(X), ("a", "b", "c")), {})
        loaded = load_model(tmp_path / name)
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(inputs))


def test_only_networks_of_pixels_have_shorter_folds() -> None:
    made, inputs, y = candidates(steps=None)
    assert not made.shorter_folds and made.in_folds().pixel_steps is None
    images = np.repeat(inputs, 128, axis=1).reshape(-1, 3, 16, 16)
    large = Candidates(made.fitter, images, 3, 0)
    assert large.shorter_folds and large.in_folds().pixel_steps == 1500 // 4
    assert large.in_folds().fitter.steps is None, "the others have all their updates"
    assert set(large.names(y)) == set(DESCRIPTIONS)


def test_a_table_of_categories_is_not_taken_for_features() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([np.eye(4)[rng.integers(0, 4, 50)] for _ in range(40)], axis=1)
    assert not has_same_length(fit_inputs(x)(x)), "every row has forty ones"
