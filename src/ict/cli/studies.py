"""Many runs that share a study: a search over settings, or recipes over seeds."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from ict.cli.messages import fail, interruptible
from ict.cli.options import (
    AllowCode,
    AsJson,
    DataDir,
    DeviceName,
    Grace,
    ModeName,
    RecipeName,
    Settings,
    StorageAddress,
    StudyName,
    Workers,
)
from ict.cli.outside import find_beside_caller


def search(
    recipe: RecipeName,
    params: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            metavar="KEY=VALUES",
            help="Values to try: KEY=1,10,100 or KEY=log:0.05:2, lin:0:1, int:1:8. [default: the paper's grid]",
        ),
    ] = None,
    sampler: Annotated[
        Literal["grid", "tpe", "random"] | None,
        typer.Option(help="How to choose settings. [default: grid where all values are listed, else tpe]"),
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Number of trials, over all workers. [default: 20]")] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, help="Start no new trial on this machine after this many seconds.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every trial and of the sampler.")] = 0,
    prune: Annotated[bool, typer.Option("--prune/--no-prune", help="Stop bad trials early.")] = True,
    storage: StorageAddress = None,
    study: StudyName = None,
    workers: Workers = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the trials and the report. [default: runs/search/RECIPE/STUDY]")
    ] = None,
    settings: Settings = None,
    allow_code: AllowCode = None,
    device: DeviceName = "auto",
    mode: ModeName = "exact",
    data_dir: DataDir = None,
    grace: Grace = 60.0,
    report: Annotated[
        bool, typer.Option("--report", help="Run nothing; write the report of the trials so far.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Search for a recipe's best settings on its validation split. The test set is never read."""
    from ict.studies.storage import require_optuna

    require_optuna()
    from ict.recipes import find
    from ict.recipes.recipe import change
    from ict.studies import search as searching
    from ict.studies.workers import Place

    place = Place(storage or "", workers, device, mode, data_dir, grace, timeout)
    plan = searching.plan_search(
        change(find(recipe, find_beside_caller(allow_code, settings)), settings or []),
        place,
        params=params or [],
        sampler=sampler,
        trials=trials,
        seed=seed,
        prune=prune,
        study=study,
        out=out,
    )
    with interruptible("the same command"):
        summary = searching.report(plan) if report else searching.search(plan)
    typer.echo(json.dumps(summary, indent=2) if as_json else searching.text(summary, plan.out))
    if summary["winner"] is None:
        fail("no trial is complete.", 1)


def trials(
    recipes: Annotated[
        list[str],
        typer.Argument(metavar="RECIPE...", help="Recipe names ('ict list' shows them) or JSON files."),
    ],
    seeds: Annotated[str, typer.Option(help="Seeds, e.g. 0-2 or 0,3,5.")] = "0-2",
    storage: StorageAddress = None,
    study: StudyName = None,
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the runs. [default: runs/trials]")] = None,
    results: Annotated[Path, typer.Option(help="Folder for one result file per run.")] = Path("results/trials"),
    settings: Settings = None,
    allow_code: AllowCode = None,
    device: DeviceName = "auto",
    mode: ModeName = "exact",
    data_dir: DataDir = None,
    grace: Grace = 60.0,
    as_json: AsJson = False,
) -> None:
    """Run recipes over seeds, spread over workers, GPUs and machines. Complete runs are not repeated."""
    from ict.studies.storage import require_optuna

    require_optuna()
    from ict.studies import trials as running
    from ict.studies.workers import Place

    place = Place(storage or "", workers, device, mode, data_dir, grace)
    plan = running.plan_trials(
        recipes,
        place,
        seeds=seeds,
        settings=settings or [],
        allow_code=find_beside_caller(allow_code, settings),
        study=study,
        out=out,
        results=results,
    )
    with interruptible("the same command"):
        ended = running.run_trials(plan)
    complete = [trial.notes["result"] for trial in ended if trial.outcome == "complete"]
    typer.echo(json.dumps(complete, indent=2) if as_json else running.text(plan, ended))
    if len(complete) < len(ended):
        fail(f"{len(ended) - len(complete)} of {len(ended)} runs failed.", 1)
