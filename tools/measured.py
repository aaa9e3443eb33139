"""The texts and pictures of docs/results.md, and the README's opening, from the files of single runs in results/h200.

Any of the files may be missing: what was not run is said to be so. tools/render.py puts the texts in place.
"""

import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from statistics import fmean

import curves
import equal_terms
import published
from published import (
    BUDGETS,
    HEADLINE,
    NOT_RUN,
    OF_ICT,
    OTHER_CELLS,
    PAPERS_TEXT,
    PUBLISHED,
    SEEDS,
    Runs,
    code,
    every,
    read_runs,
    reported,
    valid,
)
from result_files import ROOT
from training_times import busy, shared

from ict.paper import ranking
from ict.paper.difference import PAPERS_RUNS, Difference
from ict.paper.our_runs import history
from ict.paper.table import COMPARISON, compared, markdown, number, over_seeds
from ict.paper.table import table as paper_table
from ict.recipes import RECIPES
from ict.recipes.reported import TABLES

PICTURES = ROOT / "docs/img"
EVALUATED = ROOT / "results/evaluated"


def headline(runs: Runs) -> str:
    """The README's table of the paper's cells."""
    shown = [name for name in (*HEADLINE, *OTHER_CELLS) if name in runs]
    if not shown:
        return (
            "`cifar10-4000/ict-fast` and its relatives are recipes of our own for time to accuracy in the paper's "
            "cells; [docs/results.md](docs/results.md) says which of them have been run, and what came of it."
        )
    heads = [
        "recipe",
        "paper (%)",
        "test error (%), seeds",
        "difference, 95 % interval",
        "shown",
        "seconds of training",
    ]
    rows = [
        [
            code(name),
            number(reported(name)),
            _number(runs, name),
            _points(runs, name),
            _shown(runs, name),
            _seconds(runs, name),
        ]
        for name in shown
    ]
    told = (
        f"{_origin(runs, shown)}. Differences are ours less the paper's in percentage points, intervals by Welch's "
        f"t-test with {PAPERS_RUNS} runs behind the paper's number. {_told_of_sharing(runs, shown)}"
    )
    return f"{markdown(heads, rows)}\n\n{told}".rstrip()


def tuned_again(runs: Runs) -> str:
    """Which cells were tuned again after their test errors were known."""
    stages = {name: history(name) for name in OF_ICT if name in runs}
    return ", ".join(
        f"{code(name)} ({', '.join(f'{stage.mean:.2f}' for stage in of)}, now {over_seeds(runs[name]).mean:.2f})"
        for name, of in stages.items()
        if of
    )


def results(runs: Runs) -> str:
    """Seed by seed."""
    heads = ["recipe", "paper (%)", "test error (%), seeds", "each seed", "seconds a run", "updates", "run on", "files"]
    table = markdown(heads, [_run_row(runs, name) for name in OF_ICT])
    return f"{table}\n\n{_told_of_sharing(runs, OF_ICT)}".strip()


def against(runs: Runs) -> str:
    """Every recipe of ICT against the paper's number of its cell."""
    rows = [
        [code(name), number(paper), _number(runs, name), *compared(name, over_seeds(runs[name], paper))[1:]]
        for name in OF_ICT
        if name in runs and (paper := reported(name))
    ]
    if not rows:
        return f"Against the paper: {NOT_RUN}."
    heads = ["recipe", "paper (%)", "test error (%), seeds", "difference", "95 % interval", "p", "shown", "history"]
    return f"{COMPARISON}\n\n{markdown(heads, rows)}"


def networks(runs: Runs) -> str:
    """Student and teacher, after the last update and where the validation error was smallest."""
    keys = {
        "student, last": "test_error_student",
        "teacher, last": "test_error_teacher",
        "best by validation": "test_error_best",
        "validation error, last": "valid_error",
        "validation error, best": "valid_error_best",
    }
    shown = [name for name in OF_ICT if name in runs]
    if not shown:
        return f"Student and teacher: {NOT_RUN}."
    rows = [[code(name), *(ranking.percent([r[key] for r in runs[name]]) for key in keys.values())] for name in shown]
    return markdown(["recipe", *keys], rows) + (
        "\n\nAll in percent: errors on the test images, and in the last two columns on the validation images. The best "
        "is chosen by validation passes during training, in fast mode in half precision, so the last, in float32, can "
        "be below it."
    )


def evaluated(runs: Runs) -> str:
    """What `ict evaluate` says of the saved models on another device; not of a run that was made again since."""
    trained = {(run["recipe_id"], run["seed"]): run for run in every(runs)}
    rows, differences = [], []
    for path in sorted(EVALUATED.glob("*.json")):
        found = json.loads(path.read_text())
        run = trained.get((found["recipe_id"], found["seed"]))
        if run and run["finished"] <= found["finished"]:
            again, first = 100 * found["test_error"], 100 * run["test_error"]
            differences.append(abs(again - first))
            errors = (f"{error:.2f} ({how['device']})" for error, how in ((first, run), (again, found)))
            rows.append([code(run["recipe"]), str(run["seed"]), *errors, f"[file](../results/evaluated/{path.name})"])
    if not rows:
        return f"Saved models on another device: {NOT_RUN}."
    return (
        f"Saved models, evaluated again by `ict evaluate`: the largest difference is {max(differences):.2f} points.\n\n"
    ) + markdown(["recipe", "seed", "test error (%) of the run", "evaluated again", "file"], rows)


def time_to_accuracy(runs: Runs) -> str:
    heads = ["seconds allowed", "recipe", "optimizer", "updates", "seconds a run", "test error (%), seeds"]
    rows = []
    for name, budget in BUDGETS.items():
        rows.append(
            [
                str(budget),
                code(name),
                _optimizer(name),
                _updates(name),
                _seconds(runs, name),
                _number(runs, name),
                f"{_points(runs, name)}: {_shown(runs, name)}" if name in runs else "-",
                _until(runs, name),
            ]
        )
    heads += ["against the paper", "seconds until the validation error is the paper's test error"]
    own = ""
    if PAPERS_TEXT in runs:
        own = f" The recipe of the paper's text took {over_seeds(runs[PAPERS_TEXT]).seconds:.0f} s"
        own += ", beside other runs on the GPU." if shared(runs, PAPERS_TEXT) else "."
    return f"{markdown(heads, rows)}\n\n{authors_time()}{own}"


def cells() -> str:
    """The paper's four tables."""
    return "\n\n".join(_titled(paper_table(name, "md", published.FOLDER)) for name in TABLES)


def rerun(runs: Runs) -> str:
    """The command for all of it, and what it costs."""
    hours = sum(len(SEEDS) * over_seeds(of_recipe).seconds for of_recipe in runs.values()) / 3600
    trained = busy(runs).total_seconds() / 3600
    command = "ict trials --seeds 0-2 --mode fast --data-dir DIR --results results/h200"
    left = len(PUBLISHED) - len(runs)
    which = f"The {len(runs)} of these {len(PUBLISHED)} recipes that have been run" if left else "These recipes"
    cost = (
        f"{which} take at most {hours:.1f} GPU hours of training with {len(SEEDS)} seeds each; the runs behind this "
        f"page took {trained:.1f}."
    )
    if left:
        cost += " What the others take is not measured yet."
    lines = " \\\n    ".join([command, *PUBLISHED])
    return f"```sh\n{lines}\n```\n\n{cost if runs else 'No run says yet what that costs.'}"


def missing(runs: Runs) -> str:
    """But for the comparison, which says it itself."""
    never = [code(name) for name in OF_ICT if name not in runs]
    lacking = {
        name: set(SEEDS[:1] if name == PAPERS_TEXT else SEEDS) - {run["seed"] for run in runs[name]}
        for name in OF_ICT
        if name in runs
    }
    short = [f"{code(name)} with seed {', '.join(map(str, sorted(seeds)))}" for name, seeds in lacking.items() if seeds]
    return f"{', '.join([*never, *short])}." if never or short else "Nothing."


def svhn() -> str:
    facts = json.loads((ROOT / "results/svhn.json").read_text())
    *most, last = facts["equal"]
    return (
        f"The SVHN of these runs was rebuilt from {facts['made_from']}: {', '.join(most)} and {last} equal the "
        f"published ones, and of {facts['compared']:,} crops that could be compared {facts['identical']:,} are "
        "identical bit for bit ([svhn.json](../results/svhn.json))."
    )


OF_RUNS: dict[str, Callable[[Runs], str]] = {
    "headline": headline,
    "results": results,
    "against": against,
    "networks": networks,
    "evaluated": evaluated,
    "time-to-accuracy": time_to_accuracy,
    "fair": equal_terms.text,
    "curves": curves.text,
    "rerun": rerun,
    "missing": missing,
}
BLOCKS: dict[str, Callable[[], str]] = {
    **{name: partial(lambda block: block(read_runs()), block) for name, block in OF_RUNS.items()},
    "cells": cells,
    "svhn": svhn,
}


def draw_pictures(runs: Runs, folder: Path = PICTURES) -> None:
    curves.draw(folder, runs)
    equal_terms.draw(folder, runs)


def _difference(runs: Runs, name: str) -> Difference | None:
    return over_seeds(runs[name], reported(name)).difference if name in runs else None


def _points(runs: Runs, name: str) -> str:
    d = _difference(runs, name)
    return "-" if d is None else f"{d.points:+.2f}" + ("" if d.low is None else f" ({d.interval})")


def _shown(runs: Runs, name: str) -> str:
    d = _difference(runs, name)
    return "-" if d is None else d.verdict


def authors_time() -> str:
    """How long their own program takes."""
    found = json.loads((published.FOLDER / "authors.json").read_text())
    hours = found["ms"] * found["updates"] / 3.6e6
    return (
        f"The authors' own program would take {hours:.1f} hours on the same kind of GPU for its {found['updates']:,} "
        f"updates on CIFAR-10: it was timed at {found['ms']} ms an update ({found['ms_least']} to "
        f"{found['ms_most']}) outside this repository, not run to its end."
    )


def _until(runs: Runs, name: str) -> str:
    """The mean time after which the evaluated network's validation error is at most the paper's test error.

    Only where every run comes that far.
    """
    paper = reported(name)
    if name not in runs or paper is None or not all(run.get("curve") for run in runs[name]):
        return "-"
    first = [
        next((look["seconds"] for look in run["curve"] if 100 * valid(look) <= paper.mean), None) for run in runs[name]
    ]
    taken = [seconds for seconds in first if seconds is not None]
    if len(taken) < len(first):
        return f"reached by {len(taken)} of {len(first)}"
    return f"{fmean(taken):.0f}"


def _run_row(runs: Runs, name: str) -> list[str]:
    paper = number(reported(name))
    if name not in runs:
        return [code(name), paper, NOT_RUN, "-", "-", _updates(name), "-", "-"]
    files = ", ".join(f"[{run['seed']}]({_from_docs(run['file'])})" for run in runs[name])
    return [
        *(code(name), paper, _number(runs, name), _each(runs, name), _seconds(runs, name), _updates(name)),
        *(_origin(runs, [name]), files),
    ]


def _from_docs(path: Path) -> str:
    return f"../{path.relative_to(ROOT)}"


def _number(runs: Runs, name: str) -> str:
    if name not in runs:
        return NOT_RUN
    ours = over_seeds(runs[name])
    return f"{number(ours)} ({', '.join(map(str, ours.seeds))})"


def _each(runs: Runs, name: str) -> str:
    return ", ".join(f"{100 * run['test_error']:.2f}" for run in runs[name])


def _seconds(runs: Runs, name: str) -> str:
    if name not in runs:
        return "-"
    return f"{over_seeds(runs[name]).seconds:.0f}" + (" (shared)" if shared(runs, name) else "")


def _told_of_sharing(runs: Runs, names: Iterable[str]) -> str:
    if not any(name in runs and shared(runs, name) for name in names):
        return ""
    return 'Seconds that are "shared" are of runs beside others on the same GPU, which slows both. '


def _optimizer(name: str) -> str:
    return {"sgd": "SGD", "adam": "Adam", "muon": "Muon"}[RECIPES[name].optimizer.name]


def _updates(name: str) -> str:
    return f"{RECIPES[name].train.steps:,}"


def _origin(runs: Runs, names: Iterable[str]) -> str:
    """Machines, modes and days of these recipes' runs."""
    found = [run for name in names for run in runs[name]]
    machines = ", ".join(sorted({run["machine"] for run in found}))
    days = sorted({run["finished"][:10] for run in found})
    return f"{machines}, {days[0]}" + (f" to {days[-1]}" if len(days) > 1 else "")


def _titled(text: str) -> str:
    title, _, rest = text.partition("\n")
    return f"### {title}\n{rest}"
