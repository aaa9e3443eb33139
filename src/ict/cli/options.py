"""Options and arguments that several verbs share, so that they read the same everywhere."""

from pathlib import Path
from typing import Annotated, Literal

import typer

RecipeName = Annotated[str, typer.Argument(help="A recipe's name ('ict list' shows them) or a JSON file.")]
ModelFolder = Annotated[Path, typer.Argument(help="A model folder that 'ict fit' wrote.")]

DataDir = Annotated[Path | None, typer.Option(help="Folder with the dataset's files. [default: $ICT_DATA]")]
DeviceName = Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="Device to compute on.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the recipe, e.g. train.steps=500."),
]
AllowCode = Annotated[
    list[str] | None,
    typer.Option(metavar="MODULE:CLASS", help="Let a file import this code from outside the package (repeatable)."),
]
ModeName = Annotated[
    Literal["exact", "fast"],
    typer.Option(help="exact is bit-reproducible, fast is for speed on a GPU or on a CPU with bfloat16."),
]
SeedCount = Annotated[int, typer.Option(min=1, max=10_000, help="Number of seeds.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")]

_LABELS = (
    "File with labels, beside those of class folders: a CSV with the columns example,label, such as a filled-in "
    "next.csv (a path starts at PATH, at the file or here; 'row 12' of a table; blank: unknown), or one label per row "
    "of a .npy."
)
LabelsFile = Annotated[Path | None, typer.Option(help=_LABELS)]
LabelsFiles = Annotated[list[Path] | None, typer.Option("--labels", help=f"{_LABELS} Repeatable.")]
LabelColumn = Annotated[str | None, typer.Option(help="Name of the table column with the labels.")]
TextColumn = Annotated[str | None, typer.Option(help="Column of a table that holds texts.")]
Columns = Annotated[
    str,
    typer.Option(
        metavar="NAME=KIND,...",
        help="Kinds of a table's columns: number, category, text, date or ignore. [default: recognized]",
    ),
]
BackboneName = Annotated[
    str,
    typer.Option(
        help="Pretrained network for features: auto, none, a name that 'ict list backbones' shows, onnx:FILE, "
        "timm:NAME, hf:DIR or torch:module:factory."
    ),
]
ModelBackbone = Annotated[
    str | None,
    typer.Option("--backbone", help="The backbone that the model was fitted with, if its folder has no copy."),
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip unreadable examples with a message.")]

StorageAddress = Annotated[
    str | None,
    typer.Option(
        envvar="ICT_STORAGE",
        show_envvar=True,
        metavar="ADDRESS",
        help="Database of the study; postgresql://... for several machines. [default: a SQLite file in --out]",
    ),
]
StudyName = Annotated[str | None, typer.Option(help="The study's name. [default: derived from what it runs]")]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Number of worker processes on this machine. [default: one per GPU, else one per core]"),
]
Grace = Annotated[float, typer.Option(min=0.5, help="Seconds without a heartbeat after which a worker counts as dead.")]
