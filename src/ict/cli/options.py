"""Options and arguments that several verbs share, so that they read the same wherever they stand."""

from pathlib import Path
from typing import Annotated, Literal

import typer

RecipeName = Annotated[str, typer.Argument(help="A name that 'ict list' shows, or a JSON file.")]
ModelFolder = Annotated[Path, typer.Argument(help="A folder that 'ict fit' wrote.")]

DataDir = Annotated[Path | None, typer.Option(help="Folder with the dataset's files. [default: $ICT_DATA]")]
DeviceName = Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="Where to compute.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change the recipe, e.g. train.steps=500."),
]
AllowCode = Annotated[
    list[str] | None,
    typer.Option(metavar="MODULE:CLASS", help="Code from outside the package that a file may name; repeatable."),
]
ModeName = Annotated[Literal["exact", "fast"], typer.Option(help="Bit-reproducible, or quick on a GPU.")]
SeedCount = Annotated[int, typer.Option(min=1, help="Number of seeds.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON alone on stdout.")]

LabelsFile = Annotated[Path | None, typer.Option(help="A CSV of paths and labels, or labels of a .npy.")]
LabelColumn = Annotated[str | None, typer.Option(help="The column of a table that holds the labels.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out what cannot be read, and say so.")]

StorageAddress = Annotated[
    str | None,
    typer.Option(
        envvar="ICT_STORAGE",
        show_envvar=True,
        metavar="ADDRESS",
        help="Where the study is kept: postgresql://... for several machines. [default: a SQLite file in --out]",
    ),
]
StudyName = Annotated[str | None, typer.Option(help="The study's name. [default: by what it runs]")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes that train here. [default: one a GPU, or else one a core]")
]
Grace = Annotated[float, typer.Option(min=0.5, help="Seconds of silence after which a worker counts as dead.")]
