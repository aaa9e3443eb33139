"""Pretrained features of the user's own photos and texts, and their cache."""

from pathlib import Path
from typing import Annotated

import typer

from ict.cli.options import BackboneName, DeviceName, LabelColumn, LabelsFile, SkipBad, TextColumn


def embed(
    path: Annotated[
        Path, typer.Argument(help="A folder of photos or .txt files, images in a .npz or .npy, or a table of texts.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The .npz file to write.")],
    backbone: BackboneName = "auto",
    text_column: TextColumn = None,
    labels: LabelsFile = None,
    label_column: LabelColumn = None,
    skip_bad: SkipBad = False,
    device: DeviceName = "auto",
) -> None:
    """Turn photos or texts into features with a pretrained network.

    Writes the arrays 'features', 'names' and 'labels' into one file.
    """
    from ict.cli.outside import find_beside_caller
    from ict.experiment.progress_line import progress_line

    find_beside_caller([backbone])
    with progress_line() as progress:
        from ict.fit.feature_file import embed_files

        options = {"labels": labels, "label_column": label_column, "text_column": text_column, "skip_bad": skip_bad}
        summary = embed_files(path, out, backbone, device, progress, **options)
    typer.echo(summary)


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove everything that the cache holds.")] = False,
) -> None:
    """Show the folder and the size of the cache of decoded images and features. $ICT_CACHE_LIMIT, in GB, limits it."""
    from ict.data.user import array_cache

    folder = array_cache.cache_folder()
    if folder is None:
        typer.echo("no cache: there is no home folder; name a folder with ICT_CACHE")
        return
    if clear:
        typer.echo(f"{folder}: {array_cache.clear() / 1e6:.1f} MB removed")
        return
    used = array_cache.size_of(folder) if folder.is_dir() else 0
    typer.echo(f"{folder}: {used / 1e6:.1f} MB of at most {array_cache.limit() / 1e9:g} GB")
