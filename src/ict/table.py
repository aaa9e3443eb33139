"""A table of the paper beside our own runs: what was reported, and mean and deviation over the seeds in a folder."""

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

from ict.errors import UserError, unknown
from ict.recipe import Reported
from ict.recipes import RECIPES
from ict.recipes.reported import TABLES, Table

Format = Literal["text", "md", "csv", "json"]
Result = dict[str, Any]

DEFAULT_FOLDER = Path("results")
_RESULT = {"recipe": str, "recipe_id": str, "seed": int, "test_error": int | float, "partial": bool}
_NOTHING = "-"


@dataclass(frozen=True)
class Ours:
    """Test error in percent over seeds; the deviation is that of a sample, so one seed has none."""

    mean: float
    std: float | None
    seeds: list[int]


@dataclass(frozen=True)
class Cell:
    recipe: str | None
    reported: Reported | None
    ours: Ours | None


Rows = list[tuple[str, list[Cell]]]  # each row's title and cells


def table(name: str, format: Format = "text", folder: Path | None = None) -> str:
    """A table of the paper with the runs whose results are anywhere under `folder`, or else `results`."""
    if name not in TABLES:
        raise unknown("table", name, TABLES)
    printed = TABLES[name]
    ours = _ours(printed, find_results(folder))
    rows = [(row.title, [_cell(recipe, ours) for recipe in row.cells]) for row in printed.rows]
    return {"text": _text, "md": _markdown, "csv": _csv, "json": _json}[format](printed, rows)


def find_results(folder: Path | None) -> list[Result]:
    """The results of runs among the JSON files under a folder; only the default one may be missing."""
    where = DEFAULT_FOLDER if folder is None else folder
    if folder is not None and not folder.is_dir():
        raise UserError(f"no folder {folder}: name one that holds result files.")
    contents = (_read(path) for path in sorted(where.rglob("*.json")) if path.is_file())
    return [content for content in contents if _is_result(content)]


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as problem:
        raise UserError(f"{path} cannot be read as JSON ({problem}).") from None


def _is_result(content: Any) -> bool:
    """Whether a file tells of one finished run; other files may lie beside it."""
    return isinstance(content, dict) and all(isinstance(content.get(key), kind) for key, kind in _RESULT.items())


def _ours(printed: Table, results: Iterable[Result]) -> dict[str, Ours]:
    """Of each recipe's runs those that ran it to the end as it stands, the last one of a seed."""
    wanted = {recipe for row in printed.rows for recipe in row.cells if recipe}
    complete = [r for r in results if r["recipe"] in wanted and not r["partial"]]
    # resolving a recipe needs torch, so only where there is a run to compare it with
    hashes = {name: RECIPES[name].resolved().hash for name in {r["recipe"] for r in complete}}
    errors: dict[str, dict[int, float]] = {}  # by seed
    for result in sorted(complete, key=lambda r: str(r.get("finished", ""))):
        if result["recipe_id"] == hashes[result["recipe"]]:
            errors.setdefault(result["recipe"], {})[result["seed"]] = 100 * result["test_error"]
    return {recipe: _over_seeds(by_seed) for recipe, by_seed in errors.items()}


def _over_seeds(errors: dict[int, float]) -> Ours:
    values = errors.values()
    return Ours(fmean(values), stdev(values) if len(values) > 1 else None, sorted(errors))


def _cell(recipe: str | None, ours: dict[str, Ours]) -> Cell:
    if recipe is None:
        return Cell(None, None, None)
    return Cell(recipe, RECIPES[recipe].reported, ours.get(recipe))


def _number(number: Reported | Ours | None) -> str:
    if number is None:
        return _NOTHING
    deviation = "" if number.std is None else f" ± {number.std:.2f}"
    seeds = f" ({len(number.seeds)})" if isinstance(number, Ours) else ""
    return f"{number.mean:.2f}{deviation}{seeds}"


def _lines(rows: Rows) -> list[list[str]]:
    """A line of texts for each row: its title, then reported and ours for each column."""
    return [[title, *(_number(n) for cell in cells for n in (cell.reported, cell.ours))] for title, cells in rows]


def _text(printed: Table, rows: Rows) -> str:
    above = ["", *(text for column in printed.columns for text in (column, ""))]
    heads = ["method", *(["reported", "ours (seeds)"] * len(printed.columns))]
    lines = [above, heads, *_lines(rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join([printed.title, "", *(line.rstrip() for line in padded)])


def _markdown(printed: Table, rows: Rows) -> str:
    heads = ["method", *(f"{column}: {what}" for column in printed.columns for what in ("reported", "ours (seeds)"))]
    lines = [heads, ["---"] * len(heads), *_lines(rows)]
    return "\n".join([printed.title, "", *(f"| {' | '.join(line)} |" for line in lines)])


def _csv(printed: Table, rows: Rows) -> str:
    """A line a cell, with numbers alone, so that a spreadsheet can compute with them."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["method", "column", "recipe", "reported", "reported_std", "ours", "ours_std", "seeds"])
    for title, cells in rows:
        for column, cell in zip(printed.columns, cells, strict=True):
            reported, ours = cell.reported, cell.ours
            writer.writerow(
                [
                    *(title, column, cell.recipe),
                    *((reported.mean, reported.std) if reported else (None, None)),
                    *((_rounded(ours.mean), _rounded(ours.std), len(ours.seeds)) if ours else (None, None, 0)),
                ]
            )
    return out.getvalue().rstrip("\n")


def _json(printed: Table, rows: Rows) -> str:
    def cell(column: str, cell: Cell) -> dict[str, Any]:
        reported, ours = cell.reported, cell.ours
        return {
            "column": column,
            "recipe": cell.recipe,
            "reported": reported and {"mean": reported.mean, "std": reported.std},
            "ours": ours and {"mean": _rounded(ours.mean), "std": _rounded(ours.std), "seeds": ours.seeds},
        }

    made = [
        {"method": title, "cells": [cell(*pair) for pair in zip(printed.columns, cells, strict=True)]}
        for title, cells in rows
    ]
    return json.dumps(made, indent=2, ensure_ascii=False)


def _rounded(value: float | None) -> float | None:
    """To a ten-thousandth of a percent, below which a test set says nothing."""
    return None if value is None else round(value, 4)
