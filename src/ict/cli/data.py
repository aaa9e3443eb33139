"""Datasets on disk: download one, or write one as shards."""

import os
from pathlib import Path
from typing import Annotated

import typer

from ict.base.files import check_outside
from ict.cli.options import DataDir, LabelColumn, LabelsFile, SkipBad


def data(
    name: Annotated[str, typer.Argument(help="cifar10 or svhn.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write the files to.")],
    url: Annotated[str | None, typer.Option(help="Another server with the same files.")] = None,
) -> None:
    """Download a dataset from its official address. An interrupted download continues where it stopped."""
    from ict.data.download import download

    download(name, folder, base_url=url, report=typer.echo)


def shard(
    source: Annotated[
        str,
        typer.Argument(metavar="PATH", help="A folder of images, a file of arrays, a table, or a dataset's name."),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write the shards to.")],
    size: Annotated[int, typer.Option(min=1, help="Number of examples in each shard.")] = 65_536,
    side: Annotated[
        int | None,
        typer.Option(
            min=4, help="Resize the images of a folder to this many pixels square. [default: chosen from their sizes]"
        ),
    ] = None,
    labels: LabelsFile = None,
    label_column: LabelColumn = None,
    skip_bad: SkipBad = False,
    data_dir: DataDir = None,
) -> None:
    """Write examples as a folder of shards. 'ict train --set dataset=shards' reads it without loading all of it."""
    from ict.data import DATASETS
    from ict.data.user.read import read_data
    from ict.data.user.write_shards import shard_data
    from ict.data.write_shards import shard_dataset

    path = Path(source)
    if source in DATASETS and not path.exists():
        where = data_dir or os.environ.get("ICT_DATA")
        typer.echo(shard_dataset(DATASETS[source](Path(where) if where else None, 0), out, size))
        return
    check_outside(out, path)
    data = read_data(path, labels=labels, label_column=label_column, size=side, skip_bad=skip_bad)
    typer.echo("\n".join([*data.remarks, shard_data(data, out, size)]))
