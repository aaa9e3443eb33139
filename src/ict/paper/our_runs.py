"""The runs behind docs/results.md, as the package carries them: our_runs.json, which tools/package_runs.py writes.

It holds those that ran today's recipe to its end, and for each recipe that was tuned again after its test error was
known the runs of its earlier settings.
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
    """What a recipe once was, by the settings that differ from today's, and the test errors that it had."""

    settings: dict[str, Any]
    errors: dict[int, list[float]]  # in percent, by seed, the last run of a seed last

    @property
    def mean(self) -> float:
        return fmean(errors[-1] for errors in self.errors.values())


@cache
def _content() -> Any:
    return json.loads(FILE.read_text())


def runs(names: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Of these recipes, by seed."""
    wanted = set(names)
    found: dict[str, list[dict[str, Any]]] = {}
    for run in _content()["runs"]:
        if run["recipe"] in wanted:
            found.setdefault(run["recipe"], []).append(run)
    return found


def history(name: str) -> list[Earlier]:
    """The oldest settings first; nothing for a recipe that was run as it was first written."""
    stages: Mapping[str, Any] = _content()["earlier"]
    return [
        Earlier(stage["settings"], {int(seed): errors for seed, errors in stage["errors"].items()})
        for stage in stages.get(name, [])
    ]


def told(name: str) -> str:
    """The history in words, or nothing."""
    stages = history(name)
    if not stages:
        return ""
    texts = []
    for stage in stages:
        each = "; ".join(f"seed {seed}: {', '.join(f'{e:.2f}' for e in of)}" for seed, of in stage.errors.items())
        changed = " ".join(f"{key}={value}" for key, value in stage.settings.items())
        texts.append(f"{stage.mean:.2f} ({each}) with {changed}")
    return f"tuned again after its test error was known; before: {', then '.join(texts)}"
