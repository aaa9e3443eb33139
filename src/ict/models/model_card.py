"""The README.md of a model's folder, with the header in YAML that the Hugging Face hub reads."""

import json
from typing import Any

from ict import __version__

_TASKS = {"photos": "image-classification", "texts": "text-classification"}  # others are rows of numbers
_NAMED = ("method", "labeled", "unlabeled", "test", "folds", "validation", "verdict")


def model_card(
    *,
    made: str,
    n_classes: int,
    shape: tuple[int, ...],
    backbone: tuple[str, str] | None,
    calibration: str,
    about: dict[str, Any],
) -> str:
    """`made`: what kind of model it is, in words. `backbone`: its name and licence."""
    lines = [
        *_header(about, shape),
        "",
        "# Model card",
        "",
        f"{made}, by `ict` {__version__}.",
        "",
        f"- classes: {n_classes} (`labels.json`)",
        f"- an example: {'x'.join(map(str, shape))} numbers, scaled as `config.json` says",
        *([f"- features by {backbone[0]}, licence: {backbone[1]}"] if backbone else []),
        *(f"- {name}: {about[name]}" for name in _NAMED if name in about),
        "",
        calibration,
        "",
        "```python",
        "import ict",
        "",
        'model = ict.load("FOLDER")  # this folder; or on the command line: ict predict FOLDER DATA',
        "model.predict_proba(X)",
        "```",
    ]
    return "\n".join(lines) + "\n"


def _header(about: dict[str, Any], shape: tuple[int, ...]) -> list[str]:
    """Strings are written as JSON writes them, which YAML reads."""
    task = "image-classification" if len(shape) > 1 else _TASKS.get(about.get("items", ""), "tabular-classification")
    lines = [
        "---",
        "library_name: ict-ssl",
        f"pipeline_tag: {task}",
        "license: unknown  # of your model: choose one before you share it",
        "tags:",
        "- ict",
        "- semi-supervised-learning",
        *([f"- {_text(about['method'])}"] if "method" in about else []),
    ]
    if measured := about.get("measured"):
        lines += _metrics(measured, task)
    return [*lines, "---"]


def _metrics(measured: dict[str, Any], task: str) -> list[str]:
    """A measured score with its interval. The log loss is a score with the other sign."""
    metric = str(measured["metric"])
    values = [float(measured[key]) for key in ("value", "low", "high")]
    value, low, high = [-values[0], -values[2], -values[1]] if metric == "log_loss" else values
    where = f"{measured['n']} labels {measured['on']}"
    return [
        "metrics:",
        f"- {metric}",
        "model-index:",
        "- name: ict",
        "  results:",
        "  - task:",
        f"      type: {task}",
        "    dataset:",
        "      type: own",
        "      name: own data",
        "    metrics:",
        f"    - type: {metric}",
        f"      value: {value:.4f}",
        f"      name: {_text(f'{metric}, 95 % interval {low:.4f} to {high:.4f}, {where}')}",
    ]


def _text(value: str) -> str:
    return json.dumps(value)
