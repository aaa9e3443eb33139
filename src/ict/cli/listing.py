"""Lists of what can be run: one recipe in full, or the names of recipes, algorithms, networks and datasets."""

import json
import sys
from typing import Annotated, Any, Literal

import typer

from ict.cli.options import AllowCode, AsJson, RecipeName, Settings
from ict.cli.outside import find_beside_caller


def show(recipe: RecipeName, settings: Settings = None, allow_code: AllowCode = None, as_json: AsJson = False) -> None:
    """Print a recipe: all its settings, their source and the error that the paper reports."""
    from ict.recipes import find
    from ict.recipes.recipe import change

    resolved = change(find(recipe, find_beside_caller(allow_code, settings)), settings or [])
    content = resolved.to_dict()
    if as_json:
        typer.echo(json.dumps(content, indent=2))
        return
    lines = [resolved.name, _reported(resolved.reported), resolved.note]
    lines += [f"{section}.{key}={value}" for section, values in content.items() for key, value in values.items()]
    typer.echo("\n".join(line for line in lines if line))


def list_names(
    what: Annotated[
        Literal["recipes", "algorithms", "networks", "datasets", "backbones"], typer.Argument(help="What to list.")
    ] = "recipes",
) -> None:
    """List recipes, algorithms, networks, datasets or backbones. A pipe gets one name per line."""
    from ict.algorithms import ALGORITHMS
    from ict.data import DATASETS
    from ict.networks import NETWORKS
    from ict.recipes import RECIPES

    if what == "recipes":
        rows = {name: _reported(recipe.reported) for name, recipe in RECIPES.items()}
    elif what == "backbones":
        from ict.backbones.listing import listed

        rows = {row.name: f"{row.summary} [{row.state}]" for row in listed()}
    else:
        registry = {"algorithms": ALGORITHMS, "networks": NETWORKS, "datasets": DATASETS}[what]
        rows = {name: registry.summary(name) for name in registry}
    width = max(map(len, rows))
    for name, summary in rows.items():
        typer.echo(f"{name:{width}}  {summary}".rstrip() if sys.stdout.isatty() else name)


def _reported(reported: Any) -> str:
    if reported is None:
        return ""
    deviation = "" if reported.std is None else f" ± {reported.std}"
    return f"paper: {reported.mean}{deviation} % test error"
