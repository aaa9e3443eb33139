"""When a graph's guesses are used, and what a recipe for unknown data looks like."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from ict.base.errors import UserError
from ict.estimators.auto import choose
from ict.estimators.default_recipes import METHODS, default_recipe, default_steps, is_anchored, seeding_recipe
from ict.estimators.embedding import on_features
from ict.estimators.fitter import DISTILLED, Fitter, graph_guesses
from ict.experts import experts, graph, neighbors
from ict.experts.experts import Experts
from ict.experts.neighbors import NeighborMemo
from ict.models.trained_network import TrainedNetwork
from tests.test_classifier import blobs


def test_vectors_are_guessed_and_known_labels_kept() -> None:
    X, y, truth = blobs()
    guesses = graph_guesses(X.astype(np.float32), y.astype(np.int64), 0, NeighborMemo())
    assert guesses is not None and (guesses[y >= 0] == y[y >= 0]).all()
    assert (guesses == truth).mean() > 0.95


def test_a_graph_that_guesses_held_out_labels_badly_is_not_believed() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 30)).astype(np.float32)
    y = np.where(np.arange(400) < 80, rng.integers(0, 4, 400), -1)  # labels that mean nothing
    assert graph_guesses(X, y, 0, NeighborMemo()) is None


@pytest.mark.parametrize(("per_class", "guessed"), [(4, True), (11, False)])
def test_images_are_guessed_only_while_labels_are_few(per_class: int, guessed: bool) -> None:
    X, y, _ = blobs(per_class=per_class)
    images = np.repeat(X.astype(np.float32), 6, axis=1).reshape(-1, 1, 6, 6)
    assert (graph_guesses(images, y, 0, NeighborMemo()) is not None) == guessed


def test_nothing_to_guess() -> None:
    X, _, truth = blobs()
    assert graph_guesses(X, truth, 0, NeighborMemo()) is None, "everything is labeled"
    assert graph_guesses(X, np.where(np.arange(240) < 5, 0, -1), 0, NeighborMemo()) is None, "there is one class alone"


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_recipe_for_images_and_for_vectors(method: str) -> None:
    assert default_steps(5000) == 2000
    vectors = ("mlp-norm", 600) if is_anchored(method) else ("mlp-wide", 2000)
    for shape, (network, steps) in (
        ((3, 32, 32), ("convnet", 2000)),
        ((17,), vectors),
        ((1, 3, 3), ("mlp-wide", 2000)),
    ):
        recipe = default_recipe(method, shape, 5000).resolved()
        assert recipe.network.name == network and recipe.train.steps == steps
        assert recipe.inputs.pad == {32: 2, 17: 0, 3: 1}[shape[-1]]


def test_steps_follow_the_number_of_examples_within_bounds() -> None:
    assert [default_steps(n) for n in (10, 3000, 10_000, 10**6)] == [1500, 1500, 4000, 20_000]
    assert default_recipe("ict", (4,), 10**6, steps=7).train.steps == 7
    assert seeding_recipe(default_recipe("ict", (4,), 10)).train.steps == 375


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(UserError, match="did you mean ict"):
        default_recipe("itc", (4,), 10)


def test_images_are_seeded_by_the_network_that_was_asked_for() -> None:
    X, y, _ = blobs(per_class=4)
    images = np.repeat(X.astype(np.float32), 6, axis=1).reshape(-1, 1, 6, 6)
    model = Fitter(None, 4, ("network.width=7",), "cpu").fit("ict", images, y, 3, 0)
    assert isinstance(model, TrainedNetwork) and model.seeding > 0
    first = next(p for p in model.module.parameters() if p.dim() == 4)
    assert model.recipe["network"]["width"] == first.shape[0] == 7


def test_the_anchored_fit_is_the_student_of_its_experts() -> None:
    X, y, _ = blobs()
    inputs, labels = X.astype(np.float32), y.astype(np.int64)
    fitter = Fitter(None, 30, ("anchor.trees=5",), "cpu")
    prior = Experts(trees=5).fit(inputs, labels, 3, 7).prior
    fitted, student = fitter.fit("anchored", inputs, labels, 3, 7), fitter.student(inputs, labels, prior, 7)
    np.testing.assert_array_equal(fitted.predict_proba(inputs), student.predict_proba(inputs))
    assert student.recipe["algorithm"]["name"] == "anchored" and student.n_updates == 30


def test_a_distilled_student_says_what_its_prior_says() -> None:
    X, y, _ = blobs()
    inputs, labels = X.astype(np.float32), y.astype(np.int64)
    prior = np.tile([0.6, 0.3, 0.1], (len(X), 1))
    student = Fitter(device="cpu").student(inputs, labels, prior, 0, settings=DISTILLED)
    assert np.abs(student.predict_proba(inputs[y < 0]) - prior[0]).mean() < 0.1


def test_features_of_one_length_are_for_other_experts_than_a_table() -> None:
    X, y, _ = blobs()
    wide = np.random.default_rng(0).normal(size=(len(X), 120)).astype(np.float32) + X[:, :1]
    recipes = []
    for inputs in (wide, wide / np.linalg.norm(wide, axis=1, keepdims=True)):
        model = Fitter(None, 2, ("anchor.trees=5",), "cpu").fit("anchored", inputs, y.astype(np.int64), 3, 0)
        assert isinstance(model, TrainedNetwork)
        recipes.append(model.recipe["anchor"]["experts"])
    assert recipes == ["table", "features"]


def test_plain_ict_on_vectors_that_no_graph_holds_is_warned_about() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 30)).astype(np.float32)
    y = np.where(np.arange(200) < 40, rng.integers(0, 4, 200), -1)
    with pytest.warns(UserWarning, match="use ICTClassifier, or method 'anchored'"):
        Fitter(None, 2, (), "cpu").fit("ict", X, y, 4, 0)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each search for neighbors had."""
    found = list[int]()

    def counting(x: Any, n_neighbors: int = 10) -> neighbors.Neighbors:
        found.append(len(x))
        return search(x, n_neighbors)

    search = neighbors.find_neighbors
    for module in (neighbors, graph, experts):
        monkeypatch.setattr(module, "find_neighbors", counting)
    return found


def test_a_whole_fit_searches_the_neighbors_of_its_inputs_once(searches: list[int]) -> None:
    x, truth = make_blobs(90, centers=3, n_features=4, random_state=0)
    x, y = x.astype(np.float32), np.where(np.arange(90) < 30, truth, -1)
    fitter = Fitter(steps=2, device="cpu")
    for method in ("graph", "ict", "graph"):
        replace(fitter, steps=1).fit(method, x, y, 3, 0)
    assert searches == [90]
    fitter.fit("graph", x[:60], y[:60], 3, 0)
    assert searches == [90, 60], "other inputs have neighbors of their own"


@pytest.mark.parametrize(
    ("method", "of_tables", "of_features"),
    [("anchored", "table", "features"), ("anchored-graph", "graph", "graph")],
)
def test_anchored_methods_know_features_by_their_lengths_or_from_the_backbone(
    method: str, of_tables: str, of_features: str
) -> None:
    table = np.random.default_rng(0).normal(size=(30, 120)).astype(np.float32)
    features = table / np.linalg.norm(table, axis=1, keepdims=True)
    assert Fitter().experts(method, table).kind == of_tables
    assert Fitter().experts(method, features).kind == of_features
    assert on_features(Fitter(), method).experts(method, table).kind == of_features
    assert on_features(Fitter(), "auto").experts("anchored", table).kind == "features"


def test_images_as_networks_and_as_vectors_have_the_same_neighbors(searches: list[int]) -> None:
    x, truth = make_blobs(60, centers=3, n_features=16, random_state=0)
    images, y = x.astype(np.float32).reshape(-1, 1, 4, 4), np.where(np.arange(60) < 12, truth, -1)
    judged = choose(Fitter(steps=2, device="cpu"), images, y, 3, 0)
    assert {"ict", "anchored"} <= judged.scores.keys()
    assert searches == [60]


def test_neighbors_of_other_values_in_the_same_memory_are_searched() -> None:
    x = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    memo = NeighborMemo()
    assert np.array_equal(memo(x).center, x.mean(0, dtype=np.float64))
    assert np.array_equal(memo(x.T).center, x.T.mean(0, dtype=np.float64)), "a transposed array"
