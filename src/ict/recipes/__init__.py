"""The recipes by name: the paper's table cells, fast ones, the two-moons figure and digits.

A name is <dataset>-<labels>/<method>, with -wrn after the labels for the paper's third table and -fair for the
comparison under one protocol. May import the registries of `networks`, `algorithms` and `data` and `engine.settings`:
nothing here imports torch.
"""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from ict.base.errors import UserError, unknown
from ict.base.files import read_json
from ict.recipes.digits import digits_recipes
from ict.recipes.fair import fair_recipes
from ict.recipes.fast import fast_recipes
from ict.recipes.moons import moons_recipes
from ict.recipes.paper import paper_recipes
from ict.recipes.program import program_recipes
from ict.recipes.recipe import Recipe, from_dict

_PAPER = dict(paper_recipes())
_GROUPS = (
    moons_recipes(),
    digits_recipes(),
    _PAPER.items(),
    program_recipes(_PAPER),
    fast_recipes(_PAPER),
    fair_recipes(_PAPER),
)
_DEEPEST = 20  # recipe files that are each the base of the next
RECIPES: dict[str, Recipe] = {name: replace(recipe, name=name) for group in _GROUPS for name, recipe in group}


def find(name: str, allow_code: Collection[str] = ()) -> Recipe:
    """A recipe by its name, or from a JSON file, which may name another recipe as `base` and change sections of it.

    The components in a file must be registered, or be listed in `allow_code` under names such as "mine:Mine".
    """
    if name.endswith(".json"):
        return _read(Path(name), allow_code, ())
    if name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    return RECIPES[name]


def _read(path: Path, allow_code: Collection[str], above: tuple[Path, ...]) -> Recipe:
    """The recipe in a file, which the files `above` have as their base."""
    if not path.exists():
        raise UserError(f"no recipe file {path}: name an existing file, or a recipe that 'ict list' shows.")
    if path.resolve() in above or len(above) > _DEEPEST:
        raise UserError("its base leads back to itself, or through too many files: name another base.")
    content = read_json(path)
    try:
        if (base := content.pop("base", None)) is not None:
            if not isinstance(base, str):
                raise UserError("base must be the name of a recipe, or of a JSON file with one.")
            below = (*above, path.resolve())
            parent = _read(Path(base), allow_code, below) if base.endswith(".json") else find(base)
            content = _merged(parent.resolved().to_dict(), content)
        return from_dict(content, path.stem, allow_code)
    except UserError as problem:
        raise UserError(f"{path}: {problem}") from None


def _merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for section, values in changes.items():
        old = base.get(section, {})
        if not isinstance(values, dict):
            raise UserError(f"{section} must be an object, such as {{'steps': 1000}}.")
        # another component has its own options
        keeps = values.get("name", old.get("name")) == old.get("name") or section == "optimizer"
        merged[section] = {**old, **values} if keeps else values
    return merged
