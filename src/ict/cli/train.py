"""A single run: train it, or evaluate its saved model again."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from ict.cli.messages import interruptible, speaks
from ict.cli.options import AllowCode, AsJson, DataDir, DeviceName, ModeName, RecipeName, Settings
from ict.cli.outside import find_beside_caller


def train(
    recipe: RecipeName,
    seed: Annotated[int, typer.Option(help="Seed of the split, the weights and all random draws.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the run. [default: runs/RECIPE/HASH/seedN]")] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(help="Use another algorithm: a registered name, or your own class as mypackage.mine:Mine."),
    ] = None,
    network: Annotated[str | None, typer.Option(help="Use another network, named in the same way.")] = None,
    settings: Settings = None,
    allow_code: AllowCode = None,
    device: DeviceName = "auto",
    mode: ModeName = "exact",
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the newest checkpoint.")] = False,
    force: Annotated[bool, typer.Option("--force", help="With --resume: continue even if the recipe changed.")] = False,
    data_dir: DataDir = None,
    sync_bn: Annotated[
        bool | None,
        typer.Option(
            help="Under torchrun: batch norm over the whole batch, not each process's part. "
            "[default: yes, except in fast mode]"
        ),
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write the metrics for TensorBoard, into the run's folder.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a recipe, evaluate the model once on the test set and write a run folder.

    To share one run among several processes: torchrun --nproc-per-node 2 -m ict train ...
    """
    from ict.experiment import run
    from ict.experiment.console import progress_bar, run_summary
    from ict.recipes import find
    from ict.recipes.recipe import change

    parts = {"algorithm": algorithm, "network": network}
    changes = [*(f"{part}={name}" for part, name in parts.items() if name is not None), *(settings or [])]
    resolved = change(find(recipe, find_beside_caller(allow_code, changes)), changes)
    folder = out or run.default_folder(resolved, seed)
    with ExitStack() as stack:
        stack.enter_context(interruptible("the same command with --resume"))
        logs = [stack.enter_context(progress_bar(resolved.train.steps, shown=speaks()))]
        if tensorboard and speaks():
            from ict.experiment.tensorboard import tensorboard as board

            logs.append(stack.enter_context(board(folder)))

        def log(record: dict[str, Any]) -> None:
            for take in logs:
                take(record)

        finished = run.train(
            resolved,
            seed=seed,
            out=folder,
            device=device,
            mode=mode,
            resume=resume,
            force=force,
            data_dir=data_dir,
            log=log,
            sync_bn=sync_bn,
        )
    if speaks():
        typer.echo(json.dumps(finished.result, indent=2) if as_json else run_summary(finished.result, folder))


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    device: DeviceName = "auto",
    data_dir: DataDir = None,
    allow_code: AllowCode = None,
    as_json: AsJson = False,
) -> None:
    """Measure the test error of a run's saved model again."""
    from ict.experiment.run import evaluate as measure

    result = measure(run, device=device, data_dir=data_dir, allow_code=find_beside_caller(allow_code))
    text = "{recipe} seed {seed}: test error {test_error:.2%} of {n_test} examples".format(**result)
    typer.echo(json.dumps(result, indent=2) if as_json else text)
