"""A table of the paper with our runs: reported errors, and mean and standard deviation over the runs in a folder.

A cell has two recipes: the paper's own and a fast one. For ICT the fast one is the recipe for time to accuracy, for
other methods that of the comparison under one protocol. Only our runs of ICT are compared with the paper's number,
since its other rows come from many sources.
"""

import csv
import io
import json
import textwrap
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

from ict.base.errors import UserError, unknown
from ict.base.reading import reading
from ict.experiment.result import Result, is_result
from ict.paper import our_runs
from ict.paper.difference import PAPERS_RUNS, Difference, from_paper
from ict.recipes import RECIPES
from ict.recipes.recipe import Reported
from ict.recipes.reported import TABLES, Table

Format = Literal["text", "md", "csv", "json"]

DEFAULT_FOLDER = Path("results")
_NOTHING = "-"
_HEADS = ("reported", "ours (seeds)", "fast (seeds; time)")
_COMPARED_HEADS = ["method", "column", "recipe", "difference", "95 % interval", "p", "shown", "history"]
COMPARISON = (
    "Against the paper: the difference of the means in percentage points, ours less the paper's, its 95 % interval by "
    f"Welch's t-test with {PAPERS_RUNS} runs behind the paper's number, and what that shows."
)


@dataclass(frozen=True)
class Ours:
    """Test error in percent over seeds, with the sample standard deviation; None for one seed."""

    mean: float
    std: float | None
    seeds: list[int]
    seconds: float  # mean training time of the runs
    difference: Difference | None = None  # from the paper's number, for cells of ICT


@dataclass(frozen=True)
class Cell:
    recipe: str | None = None
    reported: Reported | None = None
    ours: Ours | None = None
    fast_recipe: str | None = None
    fast: Ours | None = None


TableRows = list[tuple[str, list[Cell]]]  # each row's title and cells


def table(name: str, format: Format = "text", folder: Path | None = None) -> str:
    """A table of the paper with the runs whose result files are anywhere under `folder`.

    Without a folder: the runs that come with the package, and those under `results`.
    """
    if name not in TABLES:
        raise unknown("table", name, TABLES)
    printed = TABLES[name]
    recipes = [recipe for row in printed.rows for recipe in row.cells if recipe]
    fast = {recipe: fast_of(recipe, printed.fast) for recipe in recipes}
    runs = _runs(folder, set(filter(None, (*fast, *fast.values()))))
    rows = [(row.title, [_cell(recipe, fast, runs) for recipe in row.cells]) for row in printed.rows]
    return {"text": _text, "md": _markdown, "csv": _csv, "json": _json}[format](printed, rows)


def _runs(folder: Path | None, names: set[str]) -> dict[str, list[Result]]:
    found = counted(find_results(folder), names)
    if folder is not None:
        return found
    packaged = our_runs.runs(names)
    return {name: last_of_each_seed([*packaged.get(name, []), *found.get(name, [])]) for name in {*packaged, *found}}


def find_results(folder: Path | None) -> list[Result]:
    """The run results among the JSON files under a folder, with their `file`. The default one may be missing."""
    where = DEFAULT_FOLDER if folder is None else folder
    if folder is not None and not folder.is_dir():
        raise UserError(f"no folder {folder}: name one that holds result files.")
    contents = ((path, _read(path)) for path in sorted(where.rglob("*.json")) if path.is_file())
    return [content | {"file": path} for path, content in contents if is_result(content)]


def _read(path: Path) -> Any:
    with reading(path, "JSON"):
        return json.loads(path.read_text("utf-8"))


def fast_of(recipe: str, ict: str) -> str | None:
    """The name of a cell's fast recipe, or None. `ict`: the preferred fast recipe of ICT."""
    cell, _, method = recipe.partition("/")
    names = [f"{cell}-fair/{method}"]
    if _is_icts(recipe):
        names = [f"{cell}/{fast}{method.removeprefix('ict')}" for fast in (ict, "ict-fast")]
    return next((name for name in names if name in RECIPES), None)


def counted(results: Iterable[Result], names: Iterable[str]) -> dict[str, list[Result]]:
    """The runs that count, per recipe and ordered by seed: complete, of the current recipe, the last of each seed."""
    wanted = set(names)
    complete = [r for r in results if r["recipe"] in wanted and not r["partial"] and _is_whole(r)]
    # resolving a recipe needs torch, so it is done only for recipes with runs
    hashes = {name: RECIPES[name].resolved().hash for name in {r["recipe"] for r in complete}}
    runs: dict[str, list[Result]] = {}
    for result in complete:
        if result["recipe_id"] == hashes[result["recipe"]]:
            runs.setdefault(result["recipe"], []).append(result)
    return {recipe: last_of_each_seed(of_recipe) for recipe, of_recipe in runs.items()}


def last_of_each_seed(runs: Iterable[Result]) -> list[Result]:
    by_seed = {run["seed"]: run for run in sorted(runs, key=lambda run: str(run.get("finished", "")))}
    return [by_seed[seed] for seed in sorted(by_seed)]


def _is_whole(result: Result) -> bool:
    """Whether all updates of a run followed its recipe. A run continued with --force lists the steps of changes."""
    error = result["test_error"]
    return (
        not result.get("changed_at")
        and result.get("steps") == RECIPES[result["recipe"]].train.steps
        and error is not None
        and 0 <= error <= 1
    )


def over_seeds(runs: list[Result], paper: Reported | None = None) -> Ours:
    errors = [100 * run["test_error"] for run in runs]
    deviation = stdev(errors) if len(errors) > 1 else None
    seeds, seconds = [run["seed"] for run in runs], fmean(run["seconds"] for run in runs)
    return Ours(fmean(errors), deviation, seeds, seconds, from_paper(errors, paper) if paper else None)


def _cell(recipe: str | None, fast_recipes: dict[str, str | None], runs: dict[str, list[Result]]) -> Cell:
    if recipe is None:
        return Cell()
    fast_recipe, reported = fast_recipes[recipe], RECIPES[recipe].reported
    paper = reported if _is_icts(recipe) else None
    ours, fast = (over_seeds(runs[name], paper) if name in runs else None for name in (recipe, fast_recipe))
    return Cell(recipe, reported, ours, fast_recipe, fast)


def _is_icts(recipe: str) -> bool:
    method = recipe.partition("/")[2]
    return method == "ict" or method.startswith("ict-")


def number(value: Reported | Ours | None) -> str:
    """Mean and standard deviation in percent, for the text and Markdown formats."""
    if value is None:
        return _NOTHING
    return f"{value.mean:.2f}" + ("" if value.std is None else f" ± {value.std:.2f}")


def compared(name: str, ours: Ours) -> list[str]:
    """A recipe, its difference from the paper, the interval, p, the verdict and the recipe's history."""
    d = ours.difference
    assert d
    p = _NOTHING if d.p is None else f"{d.p:.3f}"
    return [name, f"{d.points:+.2f}", d.interval, p, d.verdict, our_runs.history_in_words(name)]


def _comparisons(printed: Table, rows: TableRows) -> list[list[str]]:
    return [
        [title, column, *compared(recipe, ours)]
        for title, cells in rows
        for column, cell in zip(printed.columns, cells, strict=True)
        for recipe, ours in ((cell.recipe, cell.ours), (cell.fast_recipe, cell.fast))
        if recipe and ours and ours.difference
    ]


def _texts(cell: Cell) -> tuple[str, str, str]:
    """The strings of a cell, one for each of _HEADS."""
    ours, fast = cell.ours, cell.fast
    return (
        number(cell.reported),
        number(ours) + (f" ({len(ours.seeds)})" if ours else ""),
        number(fast) + (f" ({len(fast.seeds)}; {fast.seconds:.0f} s)" if fast else ""),
    )


def _lines(rows: TableRows) -> list[list[str]]:
    """The strings of each row: its title, then its cells."""
    return [[title, *(text for cell in cells for text in _texts(cell))] for title, cells in rows]


def _text(printed: Table, rows: TableRows) -> str:
    above = ["", *(text for column in printed.columns for text in (column, "", ""))]
    heads = ["method", *(_HEADS * len(printed.columns))]
    lines = [above, heads, *_lines(rows)]
    text = [printed.title, "", *_aligned(lines)]
    if compared := _comparisons(printed, rows):
        text += [
            "",
            *textwrap.wrap(COMPARISON, 100),
            "",
            *_aligned([_COMPARED_HEADS[:-1], *(c[:-1] for c in compared)]),
        ]
        histories = {recipe: history for _, _, recipe, *_, history in compared if history}
        text += [line for recipe, past in histories.items() for line in ("", *textwrap.wrap(f"{recipe}: {past}", 100))]
    return "\n".join(text)


def _aligned(lines: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in lines)
    return [line.rstrip() for line in padded]


def _markdown(printed: Table, rows: TableRows) -> str:
    heads = ["method", *(f"{column}: {what}" for column in printed.columns for what in _HEADS)]
    parts = [printed.title, markdown(heads, _lines(rows))]
    if compared := _comparisons(printed, rows):
        parts += [COMPARISON, markdown(_COMPARED_HEADS, compared)]
    return "\n\n".join(parts)


def markdown(heads: list[str], rows: list[list[str]]) -> str:
    """A Markdown table of strings."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _csv(printed: Table, rows: TableRows) -> str:
    """One line per cell, with plain numbers for a spreadsheet."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    numbers = ["", "_std", "_seeds", "_seconds", "_difference", "_low", "_high", "_shown"]
    heads = [f"{whose}{what}" for whose in ("ours", "fast") for what in numbers]
    writer.writerow(["method", "column", "recipe", "reported", "reported_std", *heads, "fast_recipe"])

    def ours(found: Ours | None) -> tuple[float | str | None, ...]:
        if found is None:
            return (None, None, 0, *[None] * 5)
        numbers = (_rounded(found.mean), _rounded(found.std), len(found.seeds), _rounded(found.seconds))
        if (d := found.difference) is None:
            return (*numbers, *[None] * 4)
        return (*numbers, _rounded(d.points), _rounded(d.low), _rounded(d.high), d.verdict)

    for title, cells in rows:
        for column, cell in zip(printed.columns, cells, strict=True):
            reported = (cell.reported.mean, cell.reported.std) if cell.reported else (None, None)
            values = (*reported, *ours(cell.ours), *ours(cell.fast))
            writer.writerow([title, column, cell.recipe, *values, cell.fast_recipe])
    return out.getvalue().rstrip("\n")


def _json(printed: Table, rows: TableRows) -> str:
    def ours(found: Ours | None) -> dict[str, Any] | None:
        if found is None:
            return None
        numbers = {key: _rounded(getattr(found, key)) for key in ("mean", "std", "seconds")}
        return {**numbers, "seeds": found.seeds, "against_paper": against(found.difference)}

    def against(d: Difference | None) -> dict[str, Any] | None:
        if d is None:
            return None
        return {**{key: _rounded(value) for key, value in asdict(d).items()}, "shown": d.verdict}

    def cell(column: str, cell: Cell) -> dict[str, Any]:
        reported = cell.reported
        return {
            "column": column,
            "recipe": cell.recipe,
            "reported": reported and {"mean": reported.mean, "std": reported.std},
            "ours": ours(cell.ours),
            "fast_recipe": cell.fast_recipe,
            "fast": ours(cell.fast),
            "history": our_runs.history_in_words(cell.fast_recipe or ""),
        }

    made = [
        {"method": title, "cells": [cell(*pair) for pair in zip(printed.columns, cells, strict=True)]}
        for title, cells in rows
    ]
    return json.dumps(made, indent=2, ensure_ascii=False)


def _rounded(value: float | None) -> float | None:
    """Rounded to a ten-thousandth of a percent, far below the resolution of a test set."""
    return None if value is None else round(value, 4)
