"""A table of the paper beside our own runs: what was reported, and mean and deviation over the seeds in a folder.

A cell has two recipes: the paper's own, and a fast one, which is ICT's for time to accuracy and, for any other method,
that of the comparison on equal terms.
"""

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

from ict.base.errors import UserError, unknown
from ict.recipes import RECIPES
from ict.recipes.recipe import Reported
from ict.recipes.reported import TABLES, Table

Format = Literal["text", "md", "csv", "json"]
Result = dict[str, Any]

DEFAULT_FOLDER = Path("results")
_NUMBER = int | float
_RESULT: dict[str, Any] = {
    "recipe": str, "recipe_id": str, "seed": int, "test_error": _NUMBER, "seconds": _NUMBER, "partial": bool,
}  # fmt: skip
_NOTHING = "-"
_HEADS = ("reported", "ours (seeds)", "fast (seeds; time)")


@dataclass(frozen=True)
class Ours:
    """Test error in percent over seeds; the deviation is that of a sample, so one seed has none."""

    mean: float
    std: float | None
    seeds: list[int]
    seconds: float  # of training, the mean of the runs


@dataclass(frozen=True)
class Cell:
    recipe: str | None = None
    reported: Reported | None = None
    ours: Ours | None = None
    fast_recipe: str | None = None
    fast: Ours | None = None


Rows = list[tuple[str, list[Cell]]]  # each row's title and cells


def table(name: str, format: Format = "text", folder: Path | None = None) -> str:
    """A table of the paper with the runs whose results are anywhere under `folder`, or else `results`."""
    if name not in TABLES:
        raise unknown("table", name, TABLES)
    printed = TABLES[name]
    recipes = [recipe for row in printed.rows for recipe in row.cells if recipe]
    fast = {recipe: fast_of(recipe, printed.fast) for recipe in recipes}
    runs = counted(find_results(folder), filter(None, (*fast, *fast.values())))
    rows = [(row.title, [_cell(recipe, fast, runs) for recipe in row.cells]) for row in printed.rows]
    return {"text": _text, "md": _markdown, "csv": _csv, "json": _json}[format](printed, rows)


def find_results(folder: Path | None) -> list[Result]:
    """The results of runs among the JSON files under a folder, with their `file`; only the default may be missing."""
    where = DEFAULT_FOLDER if folder is None else folder
    if folder is not None and not folder.is_dir():
        raise UserError(f"no folder {folder}: name one that holds result files.")
    contents = ((path, _read(path)) for path in sorted(where.rglob("*.json")) if path.is_file())
    return [content | {"file": path} for path, content in contents if _is_result(content)]


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as problem:
        raise UserError(f"{path} cannot be read as JSON ({problem}).") from None


def _is_result(content: Any) -> bool:
    """Whether a file tells of one finished run; other files may lie beside it."""
    return isinstance(content, dict) and all(isinstance(content.get(key), kind) for key, kind in _RESULT.items())


def fast_of(recipe: str, ict: str) -> str | None:
    """The name of a cell's fast recipe, where there is one: of ICT the one called `ict`, or else the cell's own."""
    cell, _, method = recipe.partition("/")
    names = [f"{cell}-fair/{method}"]
    if method == "ict" or method.startswith("ict-"):
        names = [f"{cell}/{fast}{method.removeprefix('ict')}" for fast in (ict, "ict-fast")]
    return next((name for name in names if name in RECIPES), None)


def counted(results: Iterable[Result], names: Iterable[str]) -> dict[str, list[Result]]:
    """Of each recipe's runs those that ran it to the end as it stands, the last one of a seed, by seed."""
    wanted = set(names)
    complete = [r for r in results if r["recipe"] in wanted and not r["partial"] and _is_whole(r)]
    # resolving a recipe needs torch, so only where there is a run to compare it with
    hashes = {name: RECIPES[name].resolved().hash for name in {r["recipe"] for r in complete}}
    runs: dict[str, dict[int, Result]] = {}
    for result in sorted(complete, key=lambda r: str(r.get("finished", ""))):
        if result["recipe_id"] == hashes[result["recipe"]]:
            runs.setdefault(result["recipe"], {})[result["seed"]] = result
    return {recipe: [by_seed[seed] for seed in sorted(by_seed)] for recipe, by_seed in runs.items()}


def _is_whole(result: Result) -> bool:
    """Whether all of its updates were by its recipe; a run that was continued by force says where they were not."""
    error = result["test_error"]
    return (
        not result.get("changed_at")
        and result.get("steps") == RECIPES[result["recipe"]].train.steps
        and error is not None
        and 0 <= error <= 1
    )


def over_seeds(runs: list[Result]) -> Ours:
    errors = [100 * run["test_error"] for run in runs]
    deviation = stdev(errors) if len(errors) > 1 else None
    return Ours(fmean(errors), deviation, [run["seed"] for run in runs], fmean(run["seconds"] for run in runs))


def _cell(recipe: str | None, fast_recipes: dict[str, str | None], runs: dict[str, list[Result]]) -> Cell:
    if recipe is None:
        return Cell()
    fast_recipe = fast_recipes[recipe]
    ours, fast = (over_seeds(runs[name]) if name in runs else None for name in (recipe, fast_recipe))
    return Cell(recipe, RECIPES[recipe].reported, ours, fast_recipe, fast)


def number(value: Reported | Ours | None) -> str:
    """Mean and deviation in percent, as all formats for people show them."""
    if value is None:
        return _NOTHING
    return f"{value.mean:.2f}" + ("" if value.std is None else f" ± {value.std:.2f}")


def _texts(cell: Cell) -> tuple[str, str, str]:
    """One for each of _HEADS."""
    ours, fast = cell.ours, cell.fast
    return (
        number(cell.reported),
        number(ours) + (f" ({len(ours.seeds)})" if ours else ""),
        number(fast) + (f" ({len(fast.seeds)}; {fast.seconds:.0f} s)" if fast else ""),
    )


def _lines(rows: Rows) -> list[list[str]]:
    """A line of texts for each row: its title, then those of each column."""
    return [[title, *(text for cell in cells for text in _texts(cell))] for title, cells in rows]


def _text(printed: Table, rows: Rows) -> str:
    above = ["", *(text for column in printed.columns for text in (column, "", ""))]
    heads = ["method", *(_HEADS * len(printed.columns))]
    lines = [above, heads, *_lines(rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join([printed.title, "", *(line.rstrip() for line in padded)])


def _markdown(printed: Table, rows: Rows) -> str:
    heads = ["method", *(f"{column}: {what}" for column in printed.columns for what in _HEADS)]
    return f"{printed.title}\n\n{markdown(heads, _lines(rows))}"


def markdown(heads: list[str], rows: list[list[str]]) -> str:
    """A table of texts."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _csv(printed: Table, rows: Rows) -> str:
    """A line a cell, with numbers alone, so that a spreadsheet can compute with them."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    numbers = ["", "_std", "_seeds", "_seconds"]
    heads = [f"{whose}{what}" for whose in ("ours", "fast") for what in numbers]
    writer.writerow(["method", "column", "recipe", "reported", "reported_std", *heads, "fast_recipe"])

    def ours(found: Ours | None) -> tuple[float | None, ...]:
        if found is None:
            return (None, None, 0, None)
        return (_rounded(found.mean), _rounded(found.std), len(found.seeds), _rounded(found.seconds))

    for title, cells in rows:
        for column, cell in zip(printed.columns, cells, strict=True):
            reported = (cell.reported.mean, cell.reported.std) if cell.reported else (None, None)
            values = (*reported, *ours(cell.ours), *ours(cell.fast))
            writer.writerow([title, column, cell.recipe, *values, cell.fast_recipe])
    return out.getvalue().rstrip("\n")


def _json(printed: Table, rows: Rows) -> str:
    def ours(found: Ours | None) -> dict[str, Any] | None:
        if found is None:
            return None
        numbers = {key: _rounded(getattr(found, key)) for key in ("mean", "std", "seconds")}
        return {**numbers, "seeds": found.seeds}

    def cell(column: str, cell: Cell) -> dict[str, Any]:
        reported = cell.reported
        return {
            "column": column,
            "recipe": cell.recipe,
            "reported": reported and {"mean": reported.mean, "std": reported.std},
            "ours": ours(cell.ours),
            "fast_recipe": cell.fast_recipe,
            "fast": ours(cell.fast),
        }

    made = [
        {"method": title, "cells": [cell(*pair) for pair in zip(printed.columns, cells, strict=True)]}
        for title, cells in rows
    ]
    return json.dumps(made, indent=2, ensure_ascii=False)


def _rounded(value: float | None) -> float | None:
    """To a ten-thousandth, of a percent below which a test set says nothing."""
    return None if value is None else round(value, 4)
