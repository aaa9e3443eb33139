"""The user's own examples: fit a model, predict with it, export it."""

import json
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ict.base.errors import UserError
from ict.base.interrupts import signal_of, stops_interrupt
from ict.cli.messages import fail
from ict.cli.options import (
    AllowCode,
    BackboneName,
    Columns,
    DeviceName,
    LabelColumn,
    LabelsFiles,
    ModelBackbone,
    ModelFolder,
    ModeName,
    Settings,
    SkipBad,
    TextColumn,
)
from ict.cli.outside import find_beside_caller


def fit(
    path: Annotated[
        Path,
        typer.Argument(
            help="A folder with one subfolder of photos or texts per class, or a .npz, .npy, .csv or .parquet."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write the model to, or the file of suggestions. [default: model, or next.csv]"),
    ] = None,
    suggest: Annotated[
        int | None,
        typer.Option(
            min=1, help="Train nothing: write a file of this many typical examples to label first. Needs no label."
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="auto, or a method such as ict or mean-teacher.")] = "auto",
    labels: LabelsFiles = None,
    label_column: LabelColumn = None,
    valid: Annotated[
        Path | None, typer.Option(help="Labeled examples for validation, in the same format as PATH.")
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(
            help="Labeled test examples, in the same format. [default: none, the accuracy is measured on folds]"
        ),
    ] = None,
    holdout: Annotated[float, typer.Option(help="Share of the labels to hold out for a test, such as 0.2.")] = 0.0,
    group_column: Annotated[
        str | None, typer.Option(help="Table column whose rows with the same value are held out together.")
    ] = None,
    metric: Annotated[
        str, typer.Option(help="Metric to compare methods by: accuracy, balanced_accuracy or log_loss.")
    ] = "accuracy",
    size: Annotated[
        int | None,
        typer.Option(min=4, help="Resize photos to this many pixels square. [default: chosen from their sizes]"),
    ] = None,
    backbone: BackboneName = "auto",
    pixels: Annotated[
        bool, typer.Option("--pixels", help="Also compare networks trained on the photos' pixels, which takes minutes.")
    ] = False,
    text_column: TextColumn = None,
    columns: Columns = "",
    no_backbone: Annotated[
        bool, typer.Option("--no-backbone", help="Leave the backbone's file out of the model's folder.")
    ] = False,
    compare_with: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="Model folder of an earlier fit, to say what changed since.")
    ] = None,
    skip_bad: SkipBad = False,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Number of updates. [default: depends on the number of examples]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the held-out split, the weights and all random draws.")] = 0,
    settings: Settings = None,
    device: DeviceName = "auto",
    mode: ModeName = "exact",
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
) -> None:
    """Train on your own labeled and unlabeled examples. Write a model, predictions, a report and what to label next."""
    from ict.experiment.progress_line import progress_line

    place = out or Path("model" if suggest is None else "next.csv")
    try:
        with progress_line() as progress, stops_interrupt():
            from torch import get_num_threads

            from ict.data.columns.kinds import parse_columns
            from ict.data.user.subsets import read_subsets
            from ict.estimators.fitter import Fitter
            from ict.estimators.metrics import check_metric
            from ict.fit.chosen_backbone import ChosenBackbone, choose_backbone
            from ict.fit.earlier import read_earlier
            from ict.fit.first_labels import check_new, suggest_first
            from ict.fit.fit import fit_files
            from ict.models.saved_model import check_free

            if suggest is None:
                check_free(place, "--out")
            else:
                check_new(place)
            if suggest is not None and compare_with is not None:
                raise UserError("--suggest fits no model, so there is nothing to compare: leave out --compare-with.")
            earlier = None if compare_with is None else read_earlier(compare_with)
            find_beside_caller([backbone], settings)
            progress("opening the backbone")
            embed = choose_backbone(path, backbone, method, size, text_column, device, pixels=pixels)
            read = partial(
                read_subsets,
                path,
                valid=valid,
                test=test,
                labels=labels,
                label_column=label_column,
                skip_bad=skip_bad,
                progress=progress,
                text_column=text_column,
                group_column=group_column,
                unlabeled=suggest is not None,
                columns=parse_columns(columns),
            )
            progress("reading")
            given = read(embed=embed, size=size if embed is None else None)
            if suggest is not None:
                said, written = suggest_first(given, place, suggest, seed, embed is not None), None
            else:
                written = fit_files(
                    given,
                    place,
                    method,
                    Fitter(None, steps, tuple(settings or ()), device, mode, progress, processes=get_num_threads()),
                    seed,
                    shlex.join(["ict", *sys.argv[1:]]),
                    None if embed is None else ChosenBackbone(embed, text_column, carry=not no_backbone),
                    metric=check_metric(metric),
                    holdout=holdout,
                    pictures=read(size=size).data if pixels and embed is not None else None,
                    earlier=earlier,
                )
                said = json.dumps(written.result, indent=1) if as_json else written.summary
    except KeyboardInterrupt as stop:
        fail("interrupted; no model was trained, so nothing was written.", 128 + signal_of(stop))
    typer.echo(said)
    if written is not None and (interrupted := written.interrupted):
        fail(f"interrupted; {place} holds the model as it was then, marked as unfinished.", 128 + interrupted)


def predict(
    model: ModelFolder,
    path: Annotated[Path, typer.Argument(help="Examples in the format that the model was fitted to.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the predictions; - for standard output.")] = Path(
        "predictions.csv"
    ),
    backbone: ModelBackbone = None,
    text_column: TextColumn = None,
    skip_bad: SkipBad = False,
    device: DeviceName = "auto",
    allow_code: AllowCode = None,
) -> None:
    """Predict with a fitted model. The examples are read in chunks and need not fit in memory."""
    from ict.experiment.progress_line import progress_line

    with progress_line() as progress:
        from ict.fit.predict import STDOUT, predict_files

        code = find_beside_caller(allow_code)
        find_beside_caller([backbone or ""])
        summary = predict_files(
            model,
            path,
            out,
            skip_bad=skip_bad,
            progress=progress,
            allow_code=code,
            backbone=backbone,
            device=device,
            text_column=text_column,
        )
    typer.echo(summary, err=out == STDOUT)


def export(
    model: ModelFolder,
    onnx: Annotated[Path, typer.Option(metavar="FILE", help="ONNX file to write.")],
    backbone: ModelBackbone = None,
    allow_code: AllowCode = None,
) -> None:
    """Write a fitted model as one ONNX file and check it. The file takes unscaled examples."""
    from ict.experiment.progress_line import progress_line

    with progress_line() as progress:
        from ict.models.onnx import export_onnx

        progress("exporting")
        find_beside_caller([backbone or ""])
        said = export_onnx(model, onnx, find_beside_caller(allow_code), backbone)
    typer.echo(said)
