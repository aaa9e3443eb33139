"""Compare methods: the demo, and any methods on any task."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ict.cli.messages import interruptible
from ict.cli.options import AsJson, DataDir, DeviceName, ModeName, SeedCount, Settings
from ict.cli.outside import find_beside_caller


def demo(
    seeds: SeedCount = 3,
    out: Annotated[Path, typer.Option(help="Folder for the runs, the table and the plot.")] = Path("runs/demo"),
    settings: Settings = None,
) -> None:
    """Compare supervised training, LabelSpreading and ICT on handwritten digits with ten labels per class."""
    from ict.paper.demo import demo as run_demo

    find_beside_caller(None, settings)
    with interruptible("the same command"):
        typer.echo(run_demo(out, seeds, settings or []))


def compare(
    task: Annotated[str, typer.Argument(help="The part of a recipe's name before the slash, e.g. digits-100.")],
    methods: Annotated[
        str | None, typer.Option(help="Names separated by commas, or 'all'. [default: those in the paper's tables]")
    ] = None,
    seeds: SeedCount = 3,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Number of updates in each run. [default: depends on the task]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the runs, the tables and the plot. [default: runs/compare/TASK]")
    ] = None,
    settings: Settings = None,
    tune: Annotated[
        int,
        typer.Option(
            min=0, max=10_000, help="Number of other seeds on whose validation data each method is tuned first."
        ),
    ] = 0,
    grids: Annotated[
        list[str] | None,
        typer.Option(
            "--grid",
            metavar="[METHOD:]KEY=V,V,V",
            help="Values to try, extended while the best is at an edge. [default: three of each method's main setting, "
            "then of its learning rate]",
        ),
    ] = None,
    device: DeviceName = "auto",
    mode: ModeName = "exact",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of processes. [default: one per core, on a GPU one]")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Train methods on the same data with the same network and number of updates; print their paired differences."""
    from ict.paper.compare import compare as run_comparison
    from ict.paper.ranking import table

    folder = out or Path("runs/compare") / task
    find_beside_caller(None, settings)
    with interruptible("the same command"):
        summary = run_comparison(
            task,
            folder,
            methods,
            n_seeds=seeds,
            budget=budget,
            settings=settings or [],
            tune=tune,
            grids=grids or [],
            workers=workers,
            device=device,
            mode=mode,
            data_dir=data_dir,
        )
    files = ", ".join(f"{folder / name}" for name in ("compare.json", "compare.md", "compare.png"))
    typer.echo(json.dumps(summary, indent=2) if as_json else f"{table(summary)}\n\n{files}")
