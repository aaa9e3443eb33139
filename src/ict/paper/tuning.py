"""Grids of values for each method of a comparison, which grow until they bracket the best value.

A search is a pure function of what is known so far, so an interrupted comparison replays it from its finished runs.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Any

from ict.base.errors import UserError, unknown
from ict.recipes.fair import OWN
from ict.recipes.recipe import Recipe, change, keys

FIRST_SEED = 100  # of the seeds for tuning: none of those that are tested
_EXTENSIONS = 4  # of one grid; after that the value is reported as lying at an edge
_RATIO, _RATIO_OF_RATES = 3.0, 2.0  # between neighbors of a grid around a recipe's own value


@dataclass(frozen=True)
class Grid:
    """Increasing values of a key. Of equally good ones the value nearest to `first` is taken."""

    key: str
    values: tuple[float, ...]
    first: float


@dataclass(frozen=True)
class Searched:
    """How far a search is: the recipe with the best values so far, and which recipes must be validated to go on."""

    recipe: Recipe
    missing: list[Recipe]
    history: list[dict[str, Any]] = field(default_factory=list)  # an entry per finished grid


def search(recipe: Recipe, grids: Iterable[Grid], known: Callable[[Recipe], float | None]) -> Searched:
    """Search one grid after the other, each with the best values of those before it.

    `known` gives the validation error of a recipe, or None if it is not known yet.
    """
    history: list[dict[str, Any]] = []
    for grid in grids:
        tried = {value: change(recipe, [_setting(grid.key, value)]) for value in grid.values}
        while True:
            errors = {value: known(candidate) for value, candidate in tried.items()}
            missing = [tried[value] for value, error in errors.items() if error is None]
            if missing:
                return Searched(recipe, missing, history)
            best = min(tried, key=lambda value: (errors[value], abs(log(value / grid.first))))
            beyond = _beyond(tried, best) if len(tried) < len(grid.values) + _EXTENSIONS else None
            further = None if beyond is None else _try(recipe, grid.key, beyond)
            if beyond is None or further is None:
                break
            tried[beyond] = further
        history.append(
            {
                "key": grid.key,
                "tried": {f"{value:g}": errors[value] for value in sorted(tried)},
                "chosen": best,
                "at_edge": best in (min(tried), max(tried)),
            }
        )
        recipe = tried[best]
    return Searched(recipe, [], history)


def grids_for(method: str, recipe: Recipe, given: Sequence[str] = ()) -> list[Grid]:
    """The grids of a method: those given as KEY=V,V,V or METHOD:KEY=V,V,V, or three values around its own settings.

    By default they are the method's most important setting, and then its learning rate.
    """
    if given:
        return [
            Grid(key, values, values[len(values) // 2])
            for of, key, values in map(_parsed, given)
            if of in ("", method) and key in keys(recipe)
        ]
    own, _ = OWN.get(method) or OWN.get(recipe.algorithm.name) or ("", {})
    ratios = ({own: _RATIO} if own else {}) | {"optimizer.lr": _RATIO_OF_RATES}
    return [_around(recipe, key, ratio) for key, ratio in ratios.items()]


def check_grids(given: Sequence[str], recipes: dict[str, Recipe]) -> None:
    """Raise a UserError for a grid that is none, or that no method of the comparison has."""
    for text in given:
        method, key, _ = _parsed(text)
        if method and method not in recipes:
            raise unknown("method", method, recipes)
        of = [recipes[method]] if method else list(recipes.values())
        known = {key for recipe in of for key in keys(recipe)}
        if key not in known:
            raise unknown("key", key, known)
        for recipe in of:
            if key in keys(recipe):
                change(recipe, [_setting(key, value) for value in _parsed(text)[2]])


def _parsed(text: str) -> tuple[str, str, tuple[float, ...]]:
    """The method or "", the key and the values."""
    where, _, listed = text.partition("=")
    method, _, key = where.rpartition(":")
    try:
        values = tuple(sorted({float(value) for value in listed.split(",")}))
    except ValueError:
        values = ()
    if len(values) < 3 or not 0 < values[0] <= values[-1] < float("inf"):
        raise UserError(
            f"'{text}' is not a grid: write KEY=V,V,V or METHOD:KEY=V,V,V with three or more positive numbers."
        )
    return method, key, values


def _around(recipe: Recipe, key: str, ratio: float) -> Grid:
    section, _, name = key.partition(".")
    part = getattr(recipe, section)
    own = float(part.options[name] if section == "algorithm" else getattr(part, name))
    return Grid(key, (_round(own / ratio), own, _round(own * ratio)), own)


def _beyond(tried: Iterable[float], best: float) -> float | None:
    """The next value beyond an edge if the best value lies there: as far from it as its neighbor, by ratio."""
    values = sorted(tried)
    for edge, neighbor in ((values[0], values[1]), (values[-1], values[-2])):
        if best == edge:
            return _round(edge * edge / neighbor)
    return None


def _try(recipe: Recipe, key: str, value: float) -> Recipe | None:
    """The recipe with a value, or None if the key cannot have it."""
    try:
        return change(recipe, [_setting(key, value)])
    except UserError:
        return None


def _setting(key: str, value: float) -> str:
    return f"{key}={value:g}"


def _round(value: float) -> float:
    return float(f"{value:.3g}")
