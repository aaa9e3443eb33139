"""The parameters of a search: fields of a recipe, each with a list of choices or a range. Imports no Optuna."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from math import isfinite, prod
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from ict.algorithms import ALGORITHMS
from ict.base.errors import UserError, unknown
from ict.base.fields import parse
from ict.recipes.recipe import Recipe, change, keys

Value = float | int | str | bool | None
Scale = Literal["log", "lin", "int"]
# The paper's search grid for its two hyper-parameters.
PAPER: Mapping[str, tuple[Value, ...]] = {
    "train.weight": (1.0, 10.0, 20.0, 50.0, 100.0),
    "algorithm.alpha": (0.1, 0.2, 0.5, 1.0),
}
_FORMS = "0.1,0.2,0.5 or log:0.05:2 or lin:0:1 or int:1:8"


@dataclass(frozen=True)
class Choices:
    """A list of values; reports keep its order."""

    key: str
    values: tuple[Value, ...]

    @property
    def samples(self) -> tuple[Value, ...]:
        """Values to check; if these are valid, all are."""
        return self.values

    def to_dict(self) -> dict[str, Any]:
        return {"choices": list(self.values)}


@dataclass(frozen=True)
class Range:
    """A range that includes both ends: uniform ("lin"), log-uniform ("log") or of whole numbers ("int")."""

    key: str
    scale: Scale
    low: float | int
    high: float | int

    @property
    def samples(self) -> tuple[Value, ...]:
        return self.low, self.high

    def to_dict(self) -> dict[str, Any]:
        return {"scale": self.scale, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Space:
    params: tuple[Choices | Range, ...]

    @property
    def is_grid(self) -> bool:
        return all(isinstance(param, Choices) for param in self.params)

    @property
    def size(self) -> int:
        """The number of cells of the grid."""
        return prod(len(param.values) for param in self.params if isinstance(param, Choices))

    def cells(self) -> list[dict[str, Value]]:
        """All combinations of values; the last parameter varies fastest."""
        columns = [param.values for param in self.params if isinstance(param, Choices)]
        return [dict(zip((p.key for p in self.params), cell, strict=True)) for cell in product(*columns)]

    def to_dict(self) -> dict[str, Any]:
        """The space, ready for JSON."""
        return {param.key: param.to_dict() for param in self.params}


def read_space(recipe: Recipe, texts: Iterable[str]) -> Space:
    """The parameters in strings such as "algorithm.alpha=log:0.05:2", or else the paper's grid.

    All values that a trial may get are checked against the recipe, so that a mistake is reported before anything runs.
    """
    recipe = recipe.resolved()
    params = [_param(recipe, text) for text in texts] or _paper_grid(recipe)
    named = [param.key for param in params]
    for key in named:
        if named.count(key) > 1:
            raise UserError(f"--param {key} is given twice: name each parameter once.")
    for param in params:
        for value in param.samples:
            apply(recipe, {param.key: value})
    return Space(tuple(params))


def apply(recipe: Recipe, values: Mapping[str, Value]) -> Recipe:
    """The recipe with a trial's values."""
    return change(recipe, [f"{key}={value}" for key, value in values.items()])


def _paper_grid(recipe: Recipe) -> list[Choices | Range]:
    """The paper's grid, restricted to the parameters that have an effect in the recipe."""
    algorithm = recipe.algorithm
    known = keys(recipe).keys() & PAPER.keys()
    if not ALGORITHMS.resolve(algorithm.name)(**algorithm.options).needs.views:
        known -= {"train.weight"}  # there is no consistency loss
    if not known:
        raise UserError(
            f"algorithm {algorithm.name} has none of the parameters of the paper's grid ({', '.join(PAPER)}): "
            "name others, such as --param optimizer.lr=log:0.01:1."
        )
    return [Choices(key, values) for key, values in PAPER.items() if key in known]


def _param(recipe: Recipe, text: str) -> Choices | Range:
    key, equals, values = text.partition("=")
    if not equals or not key or not values:
        raise UserError(f"--param '{text}' has no values: write key={_FORMS}.")
    known = keys(recipe)
    if key not in known:
        raise unknown("parameter", key, known)
    hint = _plain(known[key])
    if get_origin(hint) is tuple:
        raise UserError(f"--param {key}: a field that is a list cannot be searched.")
    scale, colon, ends = values.partition(":")
    if colon and scale in ("log", "lin", "int"):
        return _range(key, hint, values, scale, ends)  # type: ignore[arg-type]
    chosen = tuple(parse(value.strip(), known[key], key) for value in values.split(","))
    if len(set(chosen)) < len(chosen):
        raise UserError(f"--param {key}={values} names a value twice: name each once.")
    return Choices(key, chosen)


def _range(key: str, hint: Any, values: str, scale: Scale, ends: str) -> Range:
    number: type[int] | type[float] = int if scale == "int" or hint is int else float
    try:
        low, high = map(number, ends.split(":"))
    except ValueError:
        raise UserError(f"--param {key}={values} is not two numbers: write {scale}:LOW:HIGH.") from None
    if hint not in (int, float):
        raise UserError(f"--param {key}={values}: this field is not a number, so list its values: {key}=A,B.")
    if not (isfinite(low) and isfinite(high) and low < high) or (scale == "log" and low <= 0):
        above = " and above 0" if scale == "log" else ""
        raise UserError(f"--param {key}={values}: in {scale}:LOW:HIGH, LOW must be below HIGH{above}, both finite.")
    return Range(key, scale, low, high)


def _plain(hint: Any) -> Any:
    """The type of a field's values other than None."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (argument for argument in get_args(hint) if argument is not NoneType)
    return hint
