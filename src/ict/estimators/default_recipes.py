"""Settings for data never seen before: recipes from nothing but a method, a shape and counts."""

from dataclasses import replace

from ict.base.errors import unknown
from ict.engine.settings import Average, Eval, Inputs, Optimizer
from ict.recipes import RECIPES
from ict.recipes.recipe import OWN, Component, Recipe

_TUNED_ON = "digits-100/"  # small data with few labels, where every method has settings of its own
METHODS = tuple(name.removeprefix(_TUNED_ON) for name in RECIPES if name.startswith(_TUNED_ON))


def default_recipe(method: str, shape: tuple[int, ...], n_examples: int, steps: int | None = None) -> Recipe:
    """For examples of a shape [C, H, W] or [F] that are already scaled."""
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    tuned = RECIPES[f"{_TUNED_ON}{method}"]
    steps = steps or default_steps(n_examples)
    images = len(shape) == 3
    recipe = replace(
        tuned,
        dataset=Component(OWN),
        network=_network(shape),
        split=replace(tuned.split, labeled=None, valid=0),
        inputs=Inputs(pad=max(round(min(shape[1:]) / 16), 1) if images else 0, scale="none"),
        train=replace(tuned.train, steps=steps),
        eval=Eval(every=steps, log_every=max(steps // 50, 1)),
        name=method,
    )
    if method == "ict" and not images:  # nothing shifts a vector, so mixing is all that keeps it from overfitting
        options = {**recipe.algorithm.options, "mix_labeled": True}
        train = replace(recipe.train, weight=30.0, labeled_batch=100)
        return replace(recipe, algorithm=Component("ict", options), optimizer=_slower(recipe), train=train)
    return recipe


def default_steps(n_examples: int) -> int:
    """Forty passes in batches of 100, within bounds that keep small data from being seen too seldom."""
    return min(max(40 * n_examples // 100, 1500), 20_000)


def seeding_recipe(recipe: Recipe) -> Recipe:
    """Supervised mixup on labels that a graph guessed, for as long as it takes to learn them roughly."""
    return replace(
        recipe,
        algorithm=Component("mixup", {"alpha": 1.0}),
        average=Average(decay=None),
        optimizer=_slower(recipe),
        train=replace(recipe.train, steps=max(recipe.train.steps // 4, 1), labeled_batch=100),
    )


def after_seeding(recipe: Recipe) -> Recipe:
    """The recipe for a network that knows something already: with smaller steps."""
    return replace(recipe, optimizer=replace(_slower(recipe), lr=_slower(recipe).lr / 2))


def _slower(recipe: Recipe) -> Optimizer:
    return replace(recipe.optimizer, lr=recipe.optimizer.lr / 2)


def _network(shape: tuple[int, ...]) -> Component:
    if len(shape) == 3 and min(shape[1:]) >= 4:
        return Component("convnet", {"width": 16 if min(shape[1:]) <= 16 else 32})
    return Component("mlp-wide")
