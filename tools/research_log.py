"""The tables of research/LOG.md: what the short runs by validation images said. tools/render.py puts them in place."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from result_files import ROOT, origin, read, read_lines

from ict.paper.table import markdown
from ict.recipes.fair import OWN

TUNING = sorted((ROOT / "results").glob("*/tuning/*.jsonl"))
FAIR = ROOT / "results/h200/tuning/fair"
FAIR_CELLS = {"cifar10": "cifar10-4000-fair", "svhn": "svhn-1000-fair"}


def tuning(path: Path) -> str:
    """Every variant that was tried, by its validation error."""
    error = "validation error (%) of the evaluated network, last"
    heads = ["id", "updates", "seconds", error, "of the student", "recipe", "settings"]
    rows = []
    for run in sorted(read_lines(path), key=lambda run: float(run["valid_error"])):
        evaluated, student = 100 * run["valid_error"], 100 * run["curve"][-1]["valid_error_student"]
        chosen = dict(setting.split("=", 1) for setting in run["set"])  # of two settings of one key the last one holds
        settings = " ".join(f"{k}={v}" for k, v in chosen.items() if not k.startswith(("train.steps", "eval.")))
        cells = (run["id"], f"{run['steps']:,}", f"{run['seconds']:.0f}", f"{evaluated:.2f}", f"{student:.2f}")
        rows.append([*cells, f"`{run['recipe']}`", f"`{settings}`"])
    return f"`{path.relative_to(ROOT)}`\n\n{markdown(heads, rows)}"


def fair_runs() -> list[dict[str, Any]]:
    """The runs by which research/fair.py chose each method's own setting."""
    return [row for dataset in FAIR_CELLS for row in read_lines(FAIR / f"{dataset}.jsonl")]


def fair_tuning() -> str:
    """Each value with its validation error, the one that the recipe has in bold."""
    parts = []
    heads = ["method", "setting", *(f"value {i}: validation error (%)" for i in (1, 2, 3))]
    for dataset, cell in FAIR_CELLS.items():
        of_method: dict[str, list[dict[str, Any]]] = {}
        for row in fair_runs():
            if row["dataset"] == dataset:
                of_method.setdefault(row["method"], []).append(row)
        lines = [[f"`{name}`", f"`{OWN[name][0]}`", *map(_fair_value, rows)] for name, rows in of_method.items()]
        parts.append(f"`{cell}` (`{(FAIR / dataset).relative_to(ROOT)}.jsonl`)\n\n{markdown(heads, lines)}")
    return "\n\n".join(parts)


def _fair_value(row: dict[str, Any]) -> str:
    error = f"{row['value']:g}: {100 * row['valid_error']:.2f}"
    return f"**{error}**" if row["value"] == OWN[row["method"]][1][row["dataset"]] else error


def confused() -> str:
    """The most frequent confusion of each run, and its share of the errors."""
    name = "svhn-250-confused"
    result = read(name)
    rows = []
    for run in result["runs"]:
        table = torch.tensor(run["table"])
        wrong = table - table.diag().diag()
        true, guess = divmod(int(wrong.argmax()), len(table))
        most = f"{wrong[true, guess]} of {table[true].sum()} {true}s are taken for {guess}s"
        share = f"{wrong.sum()} of {table.sum():,}"
        rows.append([f"`{run['recipe']}`", str(run["seed"]), f"{run['steps']:,} of {run['of']:,}", share, most])
    heads = ["recipe", "seed", "updates", "wrong validation images", "most frequent"]
    file = f"File: [{name}.json](../results/{name}.json), written by `research/confused.py`."
    return f"{markdown(heads, rows)}\n\n{origin(result)}. {file}"


BLOCKS: dict[str, Callable[[], str]] = {
    **{f"tuning-{path.stem}": partial(tuning, path) for path in TUNING},
    "fair-tuning": fair_tuning,
    "confused": confused,
}
