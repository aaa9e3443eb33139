"""Datasets on disk: download one, write one as shards."""

import os
from pathlib import Path
from typing import Annotated

import typer

from ict.cli.options import DataDir, LabelColumn, LabelsFile, SkipBad


def data(
    name: Annotated[str, typer.Argument(help="cifar10 or svhn.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the files go.")],
    url: Annotated[str | None, typer.Option(help="Another server that holds the same files.")] = None,
) -> None:
    """Download a dataset from its official address; a broken download goes on where it stopped."""
    from ict.data.download import download

    download(name, folder, base_url=url, report=typer.echo)


def shard(
    source: Annotated[
        str, typer.Argument(metavar="PATH", help="A folder of images, arrays, a table, or the name of a dataset.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder of shards.")],
    size: Annotated[int, typer.Option(min=1, help="Examples in a shard.")] = 65_536,
    side: Annotated[
        int | None, typer.Option(min=4, help="Side of the square images of a folder. [default: by their sizes]")
    ] = None,
    labels: LabelsFile = None,
    label_column: LabelColumn = None,
    skip_bad: SkipBad = False,
    data_dir: DataDir = None,
) -> None:
    """Write examples as a folder of shards, which 'ict train --set dataset=shards' reads without holding them."""
    from ict.data import DATASETS
    from ict.data.user.read import read_own
    from ict.data.write_shards import shard_dataset, shard_own
    from ict.fit.predict import only_read

    path = Path(source)
    if source in DATASETS and not path.exists():
        where = data_dir or os.environ.get("ICT_DATA")
        typer.echo(shard_dataset(DATASETS[source](Path(where) if where else None, 0), out, size))
        return
    only_read(path, out)
    data = read_own(path, labels=labels, label_column=label_column, size=side, skip_bad=skip_bad)
    typer.echo("\n".join([*data.remarks, shard_own(data, out, size)]))
