"""Default settings for new data: recipes from only a method, the shape of an example and counts."""

from dataclasses import replace
from math import prod

from ict.base.errors import unknown
from ict.base.fields import positive
from ict.engine.settings import Average, Eval, Inputs, Optimizer
from ict.recipes import RECIPES
from ict.recipes.recipe import OWN, Component, Recipe

_TUNED_ON = "digits-100/"  # small data with few labels, on which the settings of each method were tuned
ANCHORED_STEPS = 600  # updates on vectors, whatever their number: the experts have done most of the work
_AFFORDABLE = 5000  # the most updates of a fit that folds repeat: a minute on a core
_AFFORDABLE_IMAGES = 150_000  # for images, the most updates times numbers of an image
_SHORTER = 4
METHODS = tuple(name.removeprefix(_TUNED_ON) for name in RECIPES if name.startswith(_TUNED_ON))


def default_recipe(method: str, shape: tuple[int, ...], n_examples: int, steps: int | None = None) -> Recipe:
    """A recipe for scaled examples of shape [C, H, W] or [F]."""
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    tuned = RECIPES[f"{_TUNED_ON}{method}"]
    images = len(shape) == 3
    follows = is_anchored(method) and not images
    if steps is None:
        steps = ANCHORED_STEPS if follows else default_steps(n_examples)
    positive(steps=steps)
    recipe = replace(
        tuned,
        dataset=Component(OWN),
        network=tuned.network if follows else _network(shape),
        split=replace(tuned.split, labeled=None, valid=0),
        inputs=Inputs(pad=max(round(min(shape[1:]) / 16), 1) if images else 0, scale="none"),
        train=replace(tuned.train, steps=steps),
        eval=Eval(every=steps, log_every=max(steps // 50, 1)),
        name=method,
    )
    if method == "ict" and not images:  # vectors have no augmentation, so only mixing prevents overfitting
        options = {**recipe.algorithm.options, "mix_labeled": True}
        train = replace(recipe.train, weight=30.0, labeled_batch=100)
        return replace(recipe, algorithm=Component("ict", options), optimizer=_slower(recipe), train=train)
    return recipe


def is_anchored(method: str) -> bool:
    """Whether a method's targets are held by experts."""
    return f"{_TUNED_ON}{method}" in RECIPES and RECIPES[f"{_TUNED_ON}{method}"].algorithm.name == "anchored"


def follows_all(method: str) -> bool:
    """Whether those are all experts, not the graph alone."""
    return is_anchored(method) and RECIPES[f"{_TUNED_ON}{method}"].anchor.experts != "graph"


def default_steps(n_examples: int) -> int:
    """Forty passes in batches of 100, but at least 1,500 and at most 20,000 updates."""
    return min(max(40 * n_examples // 100, 1500), 20_000)


def fold_steps(steps: int, shape: tuple[int, ...]) -> int:
    """The updates of a fit on a fold: those of the final one, or a quarter where all would take long.

    A network trained for a quarter of the updates is less accurate, and unsure for another reason.
    """
    affordable = steps <= _AFFORDABLE if len(shape) == 1 else steps * prod(shape) <= _AFFORDABLE_IMAGES
    return steps if affordable else max(steps // _SHORTER, 1)


def seeding_recipe(recipe: Recipe) -> Recipe:
    """Supervised mixup on labels guessed by a graph, for long enough to learn them roughly."""
    return replace(
        recipe,
        algorithm=Component("mixup", {"alpha": 1.0}),
        average=Average(decay=None),
        optimizer=_slower(recipe),
        train=replace(recipe.train, steps=max(recipe.train.steps // 4, 1), labeled_batch=100),
    )


def after_seeding(recipe: Recipe) -> Recipe:
    """The recipe for a network that is already trained roughly: with a smaller learning rate."""
    return replace(recipe, optimizer=replace(_slower(recipe), lr=_slower(recipe).lr / 2))


def _slower(recipe: Recipe) -> Optimizer:
    return replace(recipe.optimizer, lr=recipe.optimizer.lr / 2)


def _network(shape: tuple[int, ...]) -> Component:
    if len(shape) == 3 and min(shape[1:]) >= 4:
        return Component("convnet", {"width": 16 if min(shape[1:]) <= 16 else 32})
    return Component("mlp-wide")
