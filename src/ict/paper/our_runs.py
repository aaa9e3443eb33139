"""The runs behind docs/results.md, which are part of the package: our_runs.json, written by tools/package_runs.py.

It contains the complete runs of the current recipes. For a recipe that was tuned again after its test error was known,
it also contains the runs with the earlier settings.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

FILE = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class Earlier:
    """An earlier version of a recipe: the settings that differ from the current ones, and its test errors."""

    settings: dict[str, Any]
    errors: dict[int, list[float]]  # in percent, by seed, the last run of a seed last

    @property
    def mean(self) -> float:
        return fmean(errors[-1] for errors in self.errors.values())


@cache
def _content() -> Any:
    return json.loads(FILE.read_text())


def runs(names: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """The runs of these recipes, by recipe."""
    wanted = set(names)
    by_recipe: dict[str, list[dict[str, Any]]] = {}
    for run in _content()["runs"]:
        if run["recipe"] in wanted:
            by_recipe.setdefault(run["recipe"], []).append(run)
    return by_recipe


def history(name: str) -> list[Earlier]:
    """The earlier versions of a recipe, the oldest first; empty if it never changed."""
    stages: Mapping[str, Any] = _content()["earlier"]
    return [
        Earlier(stage["settings"], {int(seed): errors for seed, errors in stage["errors"].items()})
        for stage in stages.get(name, [])
    ]


def history_in_words(name: str) -> str:
    """The history of a recipe in words, or ""."""
    stages = history(name)
    if not stages:
        return ""
    texts = []
    for stage in stages:
        each = "; ".join(f"seed {seed}: {', '.join(f'{e:.2f}' for e in of)}" for seed, of in stage.errors.items())
        changed = " ".join(f"{key}={value}" for key, value in stage.settings.items())
        texts.append(f"{stage.mean:.2f} ({each}) with {changed}")
    return f"tuned again after its test error was known; before: {', then '.join(texts)}"
