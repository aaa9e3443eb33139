"""The labeling page."""

from pathlib import Path
from typing import Annotated

import typer

from ict.base.errors import UserError
from ict.cli.options import BackboneName, DeviceName, LabelColumn, TextColumn


def label(
    path: Annotated[
        Path, typer.Argument(help="A folder of photos or .txt files, a .csv or .parquet table, a .npz or a .npy.")
    ],
    classes: Annotated[
        str | None, typer.Option(help="Names of classes, separated by commas. [default: created on the page]")
    ] = None,
    labels: Annotated[Path, typer.Option(help="File that every answer is appended to, and read from at the start.")] = (
        Path("labels.csv")
    ),
    target: Annotated[
        float | None, typer.Option(min=0, max=1, help="Target accuracy, such as 0.9. The page says when it is reached.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page on this machine; 0: any free one.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the page's address.")] = False,
    label_column: LabelColumn = None,
    text_column: TextColumn = None,
    backbone: BackboneName = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the random checks and of training.")] = 0,
    device: DeviceName = "auto",
) -> None:
    """Label examples in the browser while a model learns from the answers. The source is never changed."""
    from ict.cli.outside import find_beside_caller

    try:
        from ict.label.command import run
    except ModuleNotFoundError as missing:
        if missing.name not in ("starlette", "uvicorn"):
            raise
        raise UserError(f"the labeling page needs {missing.name}: run `pip install 'ict-ssl[label]'`.") from None
    find_beside_caller([backbone])
    names = [name for name in (classes or "").split(",") if name.strip()]
    run(
        path,
        labels,
        names,
        target=target,
        port=port,
        browser=not no_browser,
        label_column=label_column,
        text_column=text_column,
        backbone=backbone,
        seed=seed,
        device=device,
        say=typer.echo,
    )
