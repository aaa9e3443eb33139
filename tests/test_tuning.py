"""The search of a comparison's grids, on made-up errors whose best value is known."""

from collections.abc import Callable
from math import log2

import pytest

from ict.paper.tuning import Grid, Searched, grids_for, search
from ict.recipes import RECIPES
from ict.recipes.recipe import Recipe, change

START = RECIPES["digits-100/ict"].resolved()
RATE = Grid("optimizer.lr", (1.0, 2.0, 4.0), 2.0)
WEIGHT = Grid("train.weight", (10.0, 30.0, 90.0), 30.0)


def finished(grids: list[Grid], error: Callable[[Recipe], float]) -> tuple[Searched, list[Recipe]]:
    """The search at its end, and all recipes that were validated for it, in order."""
    known: dict[str, float] = {}
    asked: list[Recipe] = []
    for _ in range(50):
        state = search(START, grids, lambda recipe: known.get(recipe.hash))
        if not state.missing:
            return state, asked
        for recipe in state.missing:
            assert recipe.hash not in known
            known[recipe.hash] = error(recipe)
            asked.append(recipe)
    raise AssertionError("it does not end")


@pytest.mark.parametrize(
    ("best", "expected"), [(2.0, [1, 2, 4]), (16.0, [1, 2, 4, 8, 16, 32]), (0.5, [0.25, 0.5, 1, 2, 4])]
)
def test_a_grid_grows_until_it_brackets_the_best_value(best: float, expected: list[float]) -> None:
    state, asked = finished([RATE], lambda recipe: abs(log2(recipe.optimizer.lr / best)))
    assert sorted(recipe.optimizer.lr for recipe in asked) == expected
    assert state.recipe == change(START, [f"optimizer.lr={best}"])
    assert [(grid["chosen"], grid["at_edge"]) for grid in state.history] == [(best, False)]


def test_a_value_without_an_end_is_called_one_at_the_edge() -> None:
    state, asked = finished([RATE], lambda recipe: 1 / recipe.optimizer.lr)
    assert len(asked) == 7 and state.recipe.optimizer.lr == 64.0 and state.history[0]["at_edge"]


def test_a_value_that_a_key_cannot_have_ends_its_grid() -> None:
    momenta = Grid("optimizer.momentum", (0.4, 0.6, 0.9), 0.6)
    state, _ = finished([momenta], lambda recipe: 1 - recipe.optimizer.momentum)
    assert state.recipe.optimizer.momentum == 0.9 and state.history[0]["at_edge"]


def test_of_equal_values_the_one_nearest_to_the_first_is_taken() -> None:
    state, asked = finished([RATE], lambda _: 0.5)
    assert state.recipe.optimizer.lr == 2.0 and len(asked) == 3


def test_the_second_grid_starts_from_the_best_of_the_first() -> None:
    def error(recipe: Recipe) -> float:
        return abs(log2(recipe.train.weight / 30)) + abs(log2(recipe.optimizer.lr / 4))

    state, asked = finished([WEIGHT, RATE], error)
    assert (state.recipe.train.weight, state.recipe.optimizer.lr) == (30.0, 4.0)
    assert all(recipe.train.weight == 30.0 for recipe in asked[3:]) and len(asked) == 3 + 4


def test_the_default_grids_are_around_a_methods_own_settings() -> None:
    weight, rate = grids_for("ict", START)
    assert (weight.key, weight.values, weight.first) == ("train.weight", (33.3, 100.0, 300.0), 100.0)
    assert (rate.key, rate.values) == ("optimizer.lr", (0.1, 0.2, 0.4))
    assert [grid.key for grid in grids_for("supervised", RECIPES["digits-100/supervised"].resolved())] == [
        "optimizer.lr"
    ]
    assert grids_for("ict-ce", RECIPES["digits-100/ict-ce"].resolved())[0].values == (3.33, 10.0, 30.0), "a variant"


def test_given_grids_are_of_one_method_or_of_all_that_have_the_key() -> None:
    given = ["optimizer.lr=1,4,2", "vat:algorithm.epsilon=1,2,3", "algorithm.alpha=.1,.2,.3"]
    assert grids_for("ict", START, given) == [RATE, Grid("algorithm.alpha", (0.1, 0.2, 0.3), 0.2)]
    vat = RECIPES["digits-100/vat"].resolved()
    assert [grid.key for grid in grids_for("vat", vat, given)] == ["optimizer.lr", "algorithm.epsilon"]
