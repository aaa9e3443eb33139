"""Write src/ict/paper/our_runs.json, which `ict table` shows to whoever has the package and not the result files.

    python tools/package_runs.py [--check]

With --check nothing is written and the exit code says whether the file is current.
"""

import json
import sys
from typing import Any

from published import PUBLISHED, read_runs
from result_files import ROOT, read_lines

from ict.paper.our_runs import FILE
from ict.recipes import RECIPES

KEPT = ("recipe", "recipe_id", "seed", "steps", "test_error", "seconds", "finished")
SUPERSEDED = ROOT / "results/superseded.jsonl"


def content() -> str:
    of_recipe = read_runs()
    runs = [{key: run[key] for key in KEPT} for name in sorted(of_recipe) for run in of_recipe[name]]
    lines = ",\n  ".join(json.dumps(run) for run in runs)
    stages = {name: earlier(name) for name in PUBLISHED}
    histories = ",\n  ".join(f"{json.dumps(name)}: {json.dumps(of)}" for name, of in stages.items() if of)
    return f'{{"runs": [\n  {lines}\n],\n"earlier": {{\n  {histories}\n}}}}\n'


def earlier(name: str) -> list[dict[str, Any]]:
    """The settings that a recipe had before today's, with their runs, by when they were first run."""
    runs = [run for run in read_lines(SUPERSEDED) if run["recipe"] == name and run["file"].startswith("results/h200")]
    today = flat(RECIPES[name].resolved().to_dict())
    stages: dict[str, dict[str, Any]] = {}
    for run in sorted(runs, key=lambda run: str(run["finished"])):
        before = flat(run["settings"])
        changed = {key: value for key, value in before.items() if value != today.get(key)}
        stage = stages.setdefault(run["recipe_id"], {"settings": changed, "errors": {}})
        stage["errors"].setdefault(run["seed"], []).append(round(100 * run["test_error"], 4))
    return [stage | {"errors": dict(sorted(stage["errors"].items()))} for stage in stages.values()]


def flat(settings: dict[str, Any]) -> dict[str, Any]:
    return {f"{section}.{key}": value for section, values in settings.items() for key, value in values.items()}


def main() -> None:
    wanted = content()
    if "--check" in sys.argv:
        sys.exit(FILE.read_text() != wanted and f"{FILE.relative_to(ROOT)} is out of date: python {sys.argv[0]}")
    FILE.write_text(wanted)


if __name__ == "__main__":
    main()
