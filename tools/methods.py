"""Write docs/methods/: a page for each method from its docstring, fields, recipes and measured error.

    python tools/methods.py [--check]

Nothing there is typed by hand. With --check nothing is written and the exit code says whether all is current.
"""

import inspect
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, fields
from importlib import import_module
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from result_files import ROOT

from ict.algorithms import ALGORITHMS
from ict.recipes import RECIPES
from ict.recipes.recipe import Component, Recipe
from ict.recipes.reported import TABLES

FOLDER = ROOT / "docs/methods"
TASK = "digits-100"
MEASURED = (ROOT / f"results/compare-{TASK}.json", ROOT / f"results/compare-{TASK}-variants.json")


class Page(NamedTuple):
    name: str
    title: str
    module: str
    fields_of: Any  # the class whose fields are the method's settings
    methods: list[str]  # the second parts of recipe names


def pages() -> list[Page]:
    methods = [name.partition("/")[2] for name in RECIPES if name.startswith(f"{TASK}/")]
    used: dict[str, list[str]] = {}
    for method in methods:
        recipe = RECIPES[f"{TASK}/{method}"]
        used.setdefault("fast-swa" if recipe.swa.start is not None else recipe.algorithm.name, []).append(method)
    made = [
        Page(name, ALGORITHMS.summary(name), ALGORITHMS[name].__module__, ALGORITHMS[name], used.get(name, []))
        for name in ALGORITHMS
    ]
    swa = import_module("ict.engine.settings").Swa
    return [
        *made,
        Page("fast-swa", "SWA and fast-SWA, averages for any method", "ict.engine.averages", swa, used["fast-swa"]),
    ]


def page(this: Page) -> str:
    source = this.module.replace(".", "/")
    doc = inspect.cleandoc(import_module(this.module).__doc__ or "")
    section = "swa" if this.name == "fast-swa" else "algorithm"
    parts = [
        f"# {this.title[0].upper()}{this.title[1:]}",
        doc,
        f"Source: [{source}.py](../../src/{source}.py).",
        "## Settings",
        "\n".join(_field_table(this.fields_of, section)) or "It has none of its own.",
        *_on_task(this.methods),
        "## Recipes of the paper's cells",
        "\n".join(_cells(this.methods)) or "The paper has none.",
    ]
    return "\n\n".join(parts) + "\n\n<!-- written by tools/methods.py -->\n"


def _on_task(methods: list[str]) -> Iterator[str]:
    if methods:
        yield f"## On {TASK}"
        yield from _measured(methods)
        yield "\n".join(_settings_table(methods))


def index(all_pages: list[Page]) -> str:
    lines = [
        "# Methods",
        "",
        "Every method is one file under `src/ict/algorithms/`; SWA and fast-SWA are averages that any method can have.",
        f"The error is that of `ict compare {TASK} --tune 2`, in percent, with settings that it chose; those of "
        "variants of ICT are of an earlier comparison without tuning, on fewer seeds. Most of these errors are not "
        "shown to differ ([comparison](../comparison.md)).",
        "",
        f"| method | page | test error on {TASK} |",
        "|---|---|---|",
    ]
    rows = _rows()
    for this in all_pages:
        for method in this.methods or [this.name]:
            lines.append(f"| {method} | [{this.title}]({this.name}.md) | {_error(rows.get(method))} |")
    return "\n".join(lines) + "\n\n<!-- written by tools/methods.py -->\n"


def _field_table(made_of: Any, section: str) -> Iterator[str]:
    comments: dict[str, str] = {}
    for base in reversed(made_of.__mro__[:-1]):
        pattern = r"^    (\w+): [^#\n]*?(?:#\s*(.*))?$"
        comments |= dict(re.findall(pattern, inspect.getsource(base), flags=re.MULTILINE))
    for i, field in enumerate(fields(made_of)):
        if i == 0:
            yield from ("| key | default | meaning |", "|---|---|---|")
        yield f"| `{section}.{field.name}` | `{_shown(field.default)}` | {comments.get(field.name, '')} |"


def _comparisons() -> list[tuple[Path, dict[str, Any], dict[str, dict[str, Any]]]]:
    """Each file with its content and the methods that it is the first to measure."""
    found, known = [], set[str]()
    for path in MEASURED:
        content = json.loads(path.read_text())
        rows = {row["method"]: row for row in content["rows"] if row["method"] not in known}
        known |= rows.keys()
        found.append((path, content, rows))
    return found


def _rows() -> dict[str, dict[str, Any]]:
    """The measurement of each method."""
    return {method: row for _, _, rows in _comparisons() for method, row in rows.items()}


def _error(row: dict[str, Any] | None) -> str:
    errors = [100 * e for e in row["test_error"] if e is not None] if row else []
    if not errors:
        return "not measured"
    return f"{fmean(errors):.2f}" + (f" ± {stdev(errors):.2f}" if len(errors) > 1 else "")


def _measured(methods: list[str]) -> Iterator[str]:
    for path, content, rows in _comparisons():
        measured = [method for method in methods if method in rows]
        for method in measured:
            count = len(rows[method]["test_error"])
            yield f"`{TASK}/{method}`: test error **{_error(rows[method])} %** over {count} seeds."
        if measured:
            tuned = " --tune 2`, which chose the settings," if "tuning" in content else "`"
            yield (
                f"Measured by `ict compare {TASK}{tuned} with {content['budget']} updates a run on the same splits "
                f"and network ([results](../../results/{path.name}), {content['finished'][:10]})."
            )


def _settings_table(methods: list[str]) -> Iterator[str]:
    yield from ("| recipe | algorithm | training | optimizer | average |", "|---|---|---|---|---|")
    for method in methods:
        recipe = RECIPES[f"{TASK}/{method}"]
        columns = (
            _options(recipe.algorithm),
            [*_changed(recipe, "train", "steps"), *_changed(recipe, "anchor")],
            _changed(recipe, "optimizer") + _changed(recipe, "rate"),
            _changed(recipe, "average") + _changed(recipe, "swa"),
        )
        yield f"| `{TASK}/{method}` | " + " | ".join(", ".join(c) or "-" for c in columns) + " |"


def _options(component: Component) -> list[str]:
    return [f"{name}={_shown(value)}" for name, value in component.options.items()]


def _changed(recipe: Recipe, section: str, *left_out: str) -> list[str]:
    """The section's values that are not its defaults."""
    values = getattr(recipe, section)
    default = asdict(type(values)())
    return [f"{section}.{k}={_shown(v)}" for k, v in asdict(values).items() if v != default[k] and k not in left_out]


def _cells(methods: list[str]) -> Iterator[str]:
    """Reported numbers, and below them the recipes' notes, each of them once."""
    rows = {cell: row.title for table in TABLES.values() for row in table.rows for cell in row.cells if cell}
    cells = {
        name: recipe
        for method in methods
        for name, recipe in RECIPES.items()
        if name.partition("/")[2] == method and recipe.note
    }
    if not cells:
        return
    notes = list(dict.fromkeys(recipe.note for recipe in cells.values()))
    yield from ("| recipe | row of the paper | reported (%) | note |", "|---|---|---|---|")
    for name, recipe in cells.items():
        reported = recipe.reported
        number = "-" if reported is None else f"{reported.mean}" + (f" ± {reported.std}" if reported.std else "")
        yield f"| `{name}` | {rows.get(name, '-')} | {number} | {notes.index(recipe.note) + 1} |"
    yield ""
    yield from (f"{i}. {note}" for i, note in enumerate(notes, 1))


def _shown(value: Any) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool) or value is None
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def main() -> None:
    all_pages = pages()
    wanted = {f"{this.name}.md": page(this) for this in all_pages} | {"README.md": index(all_pages)}
    found = {path.name: path.read_text() for path in FOLDER.glob("*.md")}
    stale = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    if stale:
        print("changed: " + ", ".join(stale))
    if "--check" in sys.argv:
        sys.exit(bool(stale))
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in stale:
        if name in wanted:
            (FOLDER / name).write_text(wanted[name])
        else:
            (FOLDER / name).unlink()


if __name__ == "__main__":
    main()
