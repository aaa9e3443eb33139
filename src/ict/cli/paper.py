"""The paper's figure and its tables."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from ict.cli.options import AllowCode
from ict.cli.outside import find_beside_caller


def figure(
    name: Annotated[Literal["moons"], typer.Argument(help="Which figure.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Image file to write.")] = Path("moons.png"),
    recipe: Annotated[str, typer.Option(help="Recipe to draw beside supervised training.")] = "moons/ict-sharpened",
    seed: Annotated[int, typer.Option(help="Seed to draw.")] = 4,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Also count the successes over this many seeds.")
    ] = None,
    allow_code: AllowCode = None,
) -> None:
    """Draw the paper's two-moons figure and write its numbers to a file beside it."""
    from ict.paper import figure as figures

    draw = {"moons": figures.moons}[name]
    typer.echo(draw(out, recipe, seed, seeds, find_beside_caller(allow_code)))


def table(
    name: Annotated[Literal["cifar10", "svhn", "wrn", "ablations"], typer.Argument(help="Which table.")],
    format: Annotated[Literal["text", "md", "csv", "json"], typer.Option(help="Output format.")] = "text",
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder with result files of runs. [default: the package's runs and those in results]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Print a table of the paper: its numbers beside our runs of the same and of faster recipes, with their times."""
    from ict.paper.table import table as paper_table

    typer.echo(paper_table(name, format, results))
