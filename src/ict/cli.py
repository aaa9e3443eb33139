"""The `ict` command. Thin: each verb checks its words, calls one function and prints what came back."""

import json
import os
import shlex
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ict import __version__
from ict.errors import Diverged, RankLost, UserError

app = typer.Typer(
    name="ict",
    help="Interpolation Consistency Training: learn from few labels and many unlabeled examples.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich would swallow what stands in brackets, such as defaults
)

DataDir = Annotated[Path | None, typer.Option(help="Folder with the dataset's files. [default: $ICT_DATA]")]
DeviceName = Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="Where to compute.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change the recipe, e.g. train.steps=500."),
]
ModeName = Annotated[Literal["exact", "fast"], typer.Option(help="Bit-reproducible, or quick on a GPU.")]
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
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON alone on stdout.")]


def _version(value: bool) -> None:
    if value:
        typer.echo(f"ict {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    if os.environ.get("WORLD_SIZE", "1") != "1" and context.invoked_subcommand != "train":
        raise UserError(f"ict {context.invoked_subcommand} runs by itself: only ict train is for torchrun.")


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(help="A name that 'ict list' shows, or a JSON file.")],
    seed: Annotated[int, typer.Option(help="Decides the split, the weights and every draw.")] = 0,
    out: Annotated[Path | None, typer.Option(help="The run's folder. [default: runs/RECIPE/HASH/seedN]")] = None,
    algorithm: Annotated[
        str | None, typer.Option(help="Another algorithm: a registered name, or your own as mypackage.mine:Mine.")
    ] = None,
    settings: Settings = None,
    device: DeviceName = "auto",
    mode: ModeName = "exact",
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the newest checkpoint.")] = False,
    force: Annotated[bool, typer.Option("--force", help="With --resume: although the recipe changed.")] = False,
    data_dir: DataDir = None,
    sync_bn: Annotated[
        bool | None,
        typer.Option(help="Under torchrun: batch norm by the whole batch. [default: yes, but in fast mode]"),
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write the metrics for TensorBoard too, into the run's folder.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train by a recipe, evaluate once on the test set and write a run folder.

    Several processes share the run where torchrun starts it: torchrun --nproc-per-node 2 -m ict train ...
    """
    from ict import run
    from ict.console import progress_bar, run_summary
    from ict.recipe import change
    from ict.recipes import find

    chosen = [] if algorithm is None else [f"algorithm={algorithm}"]
    resolved = change(find(recipe), [*chosen, *(settings or [])])
    folder = out or run.default_folder(resolved, seed)
    with ExitStack() as stack:
        stack.enter_context(_interruptible("the same command with --resume"))
        logs = [stack.enter_context(progress_bar(resolved.train.steps, shown=_speaks()))]
        if tensorboard and _speaks():
            from ict.tensorboard import tensorboard as board

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
    if _speaks():
        typer.echo(json.dumps(finished.result, indent=2) if as_json else run_summary(finished.result, folder))


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")],
    device: DeviceName = "auto",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Measure the test error of a run's saved model again."""
    from ict.run import evaluate as measure

    found = measure(run, device=device, data_dir=data_dir)
    text = f"{found['recipe']} seed {found['seed']}: test error {found['test_error']:.2%} of {found['n_test']} examples"
    typer.echo(json.dumps(found, indent=2) if as_json else text)


@app.command()
def fit(
    path: Annotated[
        Path, typer.Argument(help="A folder of images in class folders, or a .npz, .npy, .csv or .parquet.")
    ],
    out: Annotated[Path, typer.Option(help="The model's folder.")] = Path("model"),
    method: Annotated[str, typer.Option(help="auto, or a method such as ict or mean-teacher.")] = "auto",
    labels: Annotated[Path | None, typer.Option(help="A CSV of paths and labels, or labels of a .npy.")] = None,
    label_column: Annotated[str | None, typer.Option(help="The column of a table that holds the labels.")] = None,
    valid: Annotated[Path | None, typer.Option(help="Labeled examples of the same kind to validate on.")] = None,
    test: Annotated[
        Path | None, typer.Option(help="Labeled examples of the same kind to test on. [default: held out of PATH]")
    ] = None,
    size: Annotated[
        int | None, typer.Option(min=4, help="Side of the square images. [default: by their sizes]")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out what cannot be read, and say so.")] = False,
    steps: Annotated[int | None, typer.Option(min=1, help="Updates. [default: by the number of examples]")] = None,
    seed: Annotated[int, typer.Option(help="Decides the held-out part, the weights and every draw.")] = 0,
    settings: Settings = None,
    device: DeviceName = "auto",
) -> None:
    """Train on your own labeled and unlabeled examples; write a model, predictions, a report and what to label next."""
    from ict.console import count_bar
    from ict.data.own_parts import read_parts
    from ict.fitted import Fitter
    from ict.own_fit import fit_files

    with count_bar("reading") as progress:
        given = read_parts(
            path,
            valid=valid,
            test=test,
            labels=labels,
            label_column=label_column,
            size=size,
            skip_bad=skip_bad,
            progress=progress,
        )
    fitter = Fitter(None, steps, tuple(settings or ()), device, verbose=1)
    typer.echo(fit_files(given, out, method, fitter, seed, command=shlex.join(["ict", *sys.argv[1:]])))


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A folder that 'ict fit' wrote.")],
    path: Annotated[Path, typer.Argument(help="Examples of the same kind.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file of predictions; - for standard output.")] = Path(
        "predictions.csv"
    ),
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out what cannot be read, and say so.")] = False,
) -> None:
    """Predict with a fitted model, however many the examples."""
    from ict.console import count_bar
    from ict.predictions import STDOUT, predict_files

    with count_bar("predicting") as progress:
        said = predict_files(model, path, out, skip_bad=skip_bad, progress=progress)
    typer.echo(said, err=out == STDOUT)


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="A folder that 'ict fit' wrote.")],
    onnx: Annotated[Path, typer.Option(metavar="FILE", help="The ONNX file.")],
) -> None:
    """Write a fitted model as one ONNX file that takes examples as they were read, and check it."""
    from ict.export import export_onnx

    typer.echo(export_onnx(model, onnx))


@app.command()
def show(
    recipe: Annotated[str, typer.Argument(help="A name that 'ict list' shows, or a JSON file.")],
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Print a recipe: every value it sets, where they come from and what the paper reports."""
    from ict.recipe import change
    from ict.recipes import find

    resolved = change(find(recipe), settings or [])
    content = resolved.to_dict()
    if as_json:
        typer.echo(json.dumps(content, indent=2))
        return
    lines = [resolved.name, _reported(resolved.reported), resolved.note]
    lines += [f"{section}.{key}={value}" for section, values in content.items() for key, value in values.items()]
    typer.echo("\n".join(line for line in lines if line))


@app.command("list")
def list_names(
    what: Annotated[
        Literal["recipes", "algorithms", "networks", "datasets"], typer.Argument(help="What to list.")
    ] = "recipes",
) -> None:
    """Show what there is: one name a line when piped."""
    from ict.algorithms import ALGORITHMS
    from ict.data import DATASETS
    from ict.networks import NETWORKS
    from ict.recipes import RECIPES

    if what == "recipes":
        rows = {name: _reported(recipe.reported) for name, recipe in RECIPES.items()}
    else:
        registry = {"algorithms": ALGORITHMS, "networks": NETWORKS, "datasets": DATASETS}[what]
        rows = {name: registry.summary(name) for name in registry}
    width = max(map(len, rows))
    for name, remark in rows.items():
        typer.echo(f"{name:{width}}  {remark}".rstrip() if sys.stdout.isatty() else name)


def _reported(reported: Any) -> str:
    if reported is None:
        return ""
    deviation = "" if reported.std is None else f" ± {reported.std}"
    return f"paper: {reported.mean}{deviation} % test error"


@app.command()
def data(
    name: Annotated[str, typer.Argument(help="cifar10 or svhn.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the files go.")],
    url: Annotated[str | None, typer.Option(help="Another server that holds the same files.")] = None,
) -> None:
    """Download a dataset from its official address; a broken download goes on where it stopped."""
    from ict.data.download import download

    download(name, folder, base_url=url, report=typer.echo)


@app.command()
def shard(
    source: Annotated[
        str, typer.Argument(metavar="PATH", help="A folder of images, arrays, a table, or the name of a dataset.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder of shards.")],
    size: Annotated[int, typer.Option(min=1, help="Examples in a shard.")] = 65_536,
    side: Annotated[
        int | None, typer.Option(min=4, help="Side of the square images of a folder. [default: by their sizes]")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="A CSV of paths and labels, or labels of a .npy.")] = None,
    label_column: Annotated[str | None, typer.Option(help="The column of a table that holds the labels.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out what cannot be read, and say so.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Write examples as a folder of shards, which 'ict train --set dataset=shards' reads without holding them."""
    from ict.data import DATASETS
    from ict.data.own import read_own
    from ict.data.write_shards import shard_dataset, shard_own

    path = Path(source)
    if source in DATASETS and not path.exists():
        where = data_dir or os.environ.get("ICT_DATA")
        typer.echo(shard_dataset(DATASETS[source](Path(where) if where else None, 0), out, size))
        return
    data = read_own(path, labels=labels, label_column=label_column, size=side, skip_bad=skip_bad)
    typer.echo("\n".join([*data.remarks, shard_own(data, out, size)]))


@app.command()
def figure(
    name: Annotated[Literal["moons"], typer.Argument(help="Which figure.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture's file.")] = Path("moons.png"),
    recipe: Annotated[str, typer.Option(help="What is drawn against supervised.")] = "moons/ict-sharpened",
    seed: Annotated[int, typer.Option(help="The seed that is drawn.")] = 4,
    seeds: Annotated[int | None, typer.Option(min=1, help="Count successes over seeds 0 to this less one.")] = None,
) -> None:
    """Draw the paper's two-moons figure, and write its numbers beside it."""
    from ict import figure as figures

    draw = {"moons": figures.moons}[name]
    typer.echo(draw(out, recipe, seed, seeds))


@app.command()
def demo(
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds.")] = 3,
    out: Annotated[Path, typer.Option(help="Folder for runs, table and picture.")] = Path("runs/demo"),
    settings: Settings = None,
) -> None:
    """Compare supervised training, LabelSpreading and ICT on handwritten digits with ten labels a class."""
    from ict.demo import demo as run_demo

    with _interruptible("the same command"):
        typer.echo(run_demo(out, seeds, settings or []))


@app.command()
def table(
    name: Annotated[Literal["cifar10", "svhn", "wrn", "ablations"], typer.Argument(help="Which table.")],
    format: Annotated[Literal["text", "md", "csv", "json"], typer.Option(help="How to print it.")] = "text",
    results: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder with result files of runs.", show_default="results")
    ] = None,
) -> None:
    """Show a table of the paper: its numbers beside our runs of its recipes and of fast ones, with their seconds."""
    from ict.table import table as paper_table

    typer.echo(paper_table(name, format, results))


@app.command()
def compare(
    task: Annotated[str, typer.Argument(help="What stands before the slash in a recipe's name, e.g. digits-100.")],
    methods: Annotated[
        str | None, typer.Option(help="Names with commas between, or 'all'. [default: those of the paper's tables]")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds.")] = 3,
    budget: Annotated[int | None, typer.Option(min=1, help="Updates a run. [default: by task]")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for runs, tables and picture. [default: runs/compare/TASK]")
    ] = None,
    settings: Settings = None,
    device: DeviceName = "auto",
    mode: ModeName = "exact",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Train several methods on the same data, network and number of updates, and rank them."""
    from ict.compare import compare as run_comparison
    from ict.ranking import table

    folder = out or Path("runs/compare") / task
    with _interruptible("the same command"):
        summary = run_comparison(
            task,
            folder,
            methods,
            n_seeds=seeds,
            budget=budget,
            settings=settings or [],
            device=device,
            mode=mode,
            data_dir=data_dir,
        )
    files = ", ".join(f"{folder / name}" for name in ("compare.json", "compare.md", "compare.png"))
    typer.echo(json.dumps(summary, indent=2) if as_json else f"{table(summary)}\n\n{files}")


@app.command()
def search(
    recipe: Annotated[str, typer.Argument(help="A name that 'ict list' shows, or a JSON file.")],
    params: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            metavar="KEY=VALUES",
            help="What to search: KEY=1,10,100 or KEY=log:0.05:2, lin:0:1, int:1:8. [default: the paper's grid]",
        ),
    ] = None,
    sampler: Annotated[
        Literal["grid", "tpe", "random"] | None,
        typer.Option(help="How to choose. [default: grid where all values are listed, else tpe]"),
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Trials of all workers together. [default: 20]")] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, help="Seconds after which no further trial is begun here.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of every trial, and of the sampler.")] = 0,
    prune: Annotated[bool, typer.Option("--prune/--no-prune", help="End bad trials early.")] = True,
    storage: StorageAddress = None,
    study: StudyName = None,
    workers: Workers = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for trials and report. [default: runs/search/RECIPE/STUDY]")
    ] = None,
    settings: Settings = None,
    device: DeviceName = "auto",
    mode: ModeName = "exact",
    data_dir: DataDir = None,
    grace: Grace = 60.0,
    report: Annotated[bool, typer.Option("--report", help="Run nothing: write the report of what there is.")] = False,
    as_json: AsJson = False,
) -> None:
    """Search a recipe's best settings on its validation split; the test set is never read."""
    from ict.storage import require_optuna

    require_optuna()
    from ict import search as searching
    from ict.recipe import change
    from ict.recipes import find
    from ict.workers import Place

    place = Place(storage or "", workers, device, mode, data_dir, grace, timeout)
    plan = searching.plan_search(
        change(find(recipe), settings or []),
        place,
        params=params or [],
        sampler=sampler,
        trials=trials,
        seed=seed,
        prune=prune,
        study=study,
        out=out,
    )
    with _interruptible("the same command"):
        summary = searching.report(plan) if report else searching.search(plan)
    typer.echo(json.dumps(summary, indent=2) if as_json else searching.text(summary, plan.out))
    if summary["winner"] is None:
        _fail("no trial is complete.", 1)


@app.command()
def trials(
    recipes: Annotated[list[str], typer.Argument(metavar="RECIPE...", help="Names that 'ict list' shows, JSON files.")],
    seeds: Annotated[str, typer.Option(help="Such as 0-2 or 0,3,5.")] = "0-2",
    storage: StorageAddress = None,
    study: StudyName = None,
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the runs. [default: runs/trials]")] = None,
    results: Annotated[Path, typer.Option(help="Folder for a result file of each run.")] = Path("results/trials"),
    settings: Settings = None,
    device: DeviceName = "auto",
    mode: ModeName = "exact",
    data_dir: DataDir = None,
    grace: Grace = 60.0,
    as_json: AsJson = False,
) -> None:
    """Run recipes over seeds, spread over workers, GPUs and machines; what is complete is not run again."""
    from ict.storage import require_optuna

    require_optuna()
    from ict import trials as running
    from ict.workers import Place

    place = Place(storage or "", workers, device, mode, data_dir, grace)
    plan = running.plan_trials(
        recipes, place, seeds=seeds, settings=settings or [], study=study, out=out, results=results
    )
    with _interruptible("the same command"):
        ended = running.run_trials(plan)
    complete = [trial.notes["result"] for trial in ended if trial.outcome == "complete"]
    typer.echo(json.dumps(complete, indent=2) if as_json else running.text(plan, ended))
    if len(complete) < len(ended):
        _fail(f"{len(ended) - len(complete)} of {len(ended)} runs failed.", 1)


def main() -> None:
    """Run the command; a mistake is one sentence on stderr and exit code 2."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)  # so that 'module:Class' finds a file beside the caller
    warnings.showwarning = _warn
    try:
        app()
    except UserError as problem:
        _fail(str(problem), 2)
    except Diverged as problem:
        _fail(f"{problem} The last good checkpoint is kept.", 1)
    except RankLost as problem:
        _fail(f"{problem} The same command with --resume goes on from the last checkpoint.", 1)
    except OSError as problem:
        if problem.filename is None and problem.strerror is None:
            raise
        _fail(f"{problem.filename or 'file'}: {problem.strerror}.", 1)


@contextmanager
def _interruptible(how: str) -> Iterator[None]:
    """Ctrl-C and SIGTERM, told before typer would end the command without a word."""
    try:
        yield
    except KeyboardInterrupt:
        _fail(f"interrupted; {how} goes on from the last checkpoint.", 130)


def _speaks() -> bool:
    """Whether this process is the only one of its run, or the first."""
    return os.environ.get("RANK", "0") == "0"


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    if _speaks():
        typer.echo(f"warning: {message}", err=True)


def _fail(message: str, code: int) -> None:
    if _speaks():
        typer.echo(f"error: {message}", err=True)
    else:
        time.sleep(1)  # torchrun ends all ranks once one has ended, and the first has something to say
    sys.exit(code)
