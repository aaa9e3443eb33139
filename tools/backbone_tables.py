"""The tables of docs/backbones.md, from results/backbones.json. tools/render.py puts them in place."""

from collections.abc import Callable
from statistics import fmean
from typing import Any

from result_files import origin, read

_FILE = "File: [backbones.json](../results/backbones.json), written by `benchmarks/backbones.py`."
_FEATURES, _ANCHORED = "logistic regression on features", "anchored ICT on features"
_DEFAULT = "ict fit"
_RAW, _BOTH = "logistic regression on pixels or words", "anchored ICT on features and pixels"


def _rows(part: str) -> list[dict[str, Any]]:
    return [row for row in read("backbones")["rows"] if row["part"] == part]


def _tasks() -> list[tuple[str, int, int]]:
    return sorted({(row["data"], row["classes"], row["labels"]) for row in _rows("accuracy")})


def _cells(task: tuple[str, int, int]) -> list[dict[str, Any]]:
    return [row for row in _rows("accuracy") if (row["data"], row["classes"], row["labels"]) == task]


def _mean(cells: list[dict[str, Any]], name: str) -> float:
    """The accuracy in percent; of logistic regression on pixels the better of its two strengths."""
    names = [key for key in cells[0]["accuracy"] if key == name or key.startswith(f"{name}, C=")]
    return max(100 * fmean(cell["accuracy"][key] for cell in cells) for key in names)


def means(data: str, labels: int) -> dict[str, float]:
    """Accuracies in percent with all classes, for the README."""
    cells = _cells((data, 10, labels))
    names = {"pixels": _RAW, "features": _FEATURES, "anchored": _ANCHORED}
    return {short: _mean(cells, name) for short, name in names.items()}


def accuracy() -> str:
    result, measured = read("backbones"), _rows("accuracy")
    heads = {
        _RAW: "logistic regression on pixels or words",
        _FEATURES: "the same on features",
        _ANCHORED: "anchored ICT on features",
    }
    if all(_DEFAULT in cell["accuracy"] for cell in measured):
        heads[_DEFAULT] = "`ict fit`"
    lines = [
        f"| data | classes | labels a class | {' | '.join(heads.values())} |",
        "|---|---|---|" + "---|" * len(heads),
    ]
    for task in _tasks():
        found = (_mean(_cells(task), name) for name in heads)
        lines.append(f"| {task[0]} | {task[1]} | {task[2]} | " + " | ".join(f"{value:.1f}" for value in found) + " |")
    seconds, last = fmean(cell["seconds"][_ANCHORED] for cell in measured), max(cell["seed"] for cell in measured)
    return "\n".join(lines) + (
        f"\n\nTest accuracy in percent, mean over seeds 0 to {last}, at most {result['pool']:,} examples to train on; "
        f"a fit took {seconds:.0f} s of one core; {origin(result)}. {_FILE}"
    )


def beside() -> str:
    lines = ["| data | labels a class | features alone | features and pixels |", "|---|---|---|---|"]
    for task in _tasks():
        cells = [cell for cell in _cells(task) if _BOTH in cell["accuracy"]]
        if cells:
            alone, both = _mean(cells, _ANCHORED), _mean(cells, _BOTH)
            lines.append(f"| {task[0]} | {task[2]} | {alone:.1f} | {both:.1f} |")
    return "\n".join(lines) + f"\n\nAnchored ICT, accuracy in percent. {_FILE}"


def fit_of_files() -> str:
    """What a fit of many photos costs, in words for the README."""
    (files,) = _rows("files")
    fit, (wide, high) = files["cost"]["fit"], files["side"]
    return (
        f"`ict fit` of {files['n']:,} photos of {wide}x{high} pixels takes {fit['cpu_seconds']:.0f} CPU seconds and "
        f"{fit['gigabytes']:.1f} GB"
    )


def cost() -> str:
    (rate,) = _rows("rate")
    (files,) = _rows("files")
    lines = ["| | CPU seconds | largest memory |", "|---|---|---|"]
    for name, of in files["cost"].items():
        lines.append(f"| {name} | {of['cpu_seconds']:.0f} | {of['gigabytes']:.1f} GB |")
    wide, high = files["side"]
    speed = rate["images_a_second"]
    return "\n".join(lines) + (
        f"\n\n{files['n']:,} made-up JPEG files of {wide}x{high} pixels, 40 of them labeled, in one thread. The whole "
        f"`ict fit` costs {files['ratio']:.1f} times as much as the plain loop that decodes and embeds one image after "
        f"the other. The cache takes {files['cache_bytes'] / 1e6:.0f} MB. The packaged network embeds "
        f"{speed['onnxruntime']:.0f} images a second by onnxruntime, {rate['ratio']:.1f} times as many as by torch. "
        f"{_FILE}"
    )


BLOCKS: dict[str, Callable[[], str]] = {
    "backbones-accuracy": accuracy,
    "backbones-beside": beside,
    "backbones-cost": cost,
}
