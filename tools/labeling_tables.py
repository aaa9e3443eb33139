"""The tables and the picture of docs/labeling.md, from results/labeling.json. tools/render.py puts them in place."""

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np
from matplotlib.figure import Figure
from result_files import ROOT, origin, read
from scipy.stats import t

from ict.base.files import write_atomic
from ict.estimators.verdict import wilson
from ict.paper.table import markdown

_FILE = "File: [labeling.json](../results/labeling.json), written by `benchmarks/labeling.py`."
_SETS = {"photos": "CIFAR-10", "texts": "descriptions of Debian packages"}
_MODELS = {"page": "the page's model", "logistic": "logistic regression", "anchored": "anchored ICT"}
_CHOSEN, _RANDOM = "session", "random"


def curves() -> str:
    """Accuracies with chosen and with random labels, and their difference."""
    result = read("labeling")
    rows = []
    for data, name in _SETS.items():
        for n in _numbers(data):
            row = [name, str(n)]
            for model in ("page", "anchored"):
                chosen, random = (_accuracies(data, choice, n, model) for choice in (_CHOSEN, _RANDOM))
                row += [f"{fmean(chosen):.1f}", f"{fmean(random):.1f}", _difference(chosen, random)]
            rows.append(row)
    heads = ["data", "labels"]
    for model in ("page", "anchored"):
        heads += [f"{_MODELS[model]}: chosen", "random", "difference"]
    one = result["curves"][0]
    seeds = len({cell["seed"] for cell in result["curves"]})
    return f"![accuracy over the number of labels](img/labeling.png)\n\n{markdown(heads, rows)}\n\n" + (
        f"Accuracy in percent on other rows that nobody is asked about, means of {seeds} seeds, each with a pool of "
        f"{one['pool']:,}; differences with 95 % intervals (paired t). Labels are those that are learned from; the "
        f"random checks come on top. A simulated person answers with the true class. {origin(result)}. {_FILE}"
    )


def answers() -> str:
    """The same if checks count as labels too, against random labels that are all learned from."""
    parts = []
    for data, name in _SETS.items():
        for n in (40, 100):
            chosen, random = _accuracies(data, _CHOSEN, n, "anchored", "answers"), _accuracies(data, _RANDOM, n)
            parts.append(f"{_difference(chosen, random)} with {n} on {name}")
    return (
        "If the checks count as labels too, so that the session learns from four fifths of them and random choice from "
        f"all, without a check, anchored ICT gains: {'; '.join(parts)}."
    )


def coverage() -> str:
    rows = []
    result = read("labeling")
    for data, of in result["coverage"].items():
        moments = [(f"{one['checks']}", one) for one in of["moments"]]
        moments.append((f"any, as soon as the interval is above {result['target']:.0%}", of["stopped"]))
        for checks, one in moments:
            low, high = wilson(one["covered"], one["runs"])
            rows.append(
                [
                    *(_SETS[data], checks, f"{one['labels']:.0f}"),
                    f"{one['covered'] / one['runs']:.1%} ({low:.1%} to {high:.1%}) of {one['runs']}",
                    *(f"{one[name]:.1%}" for name in ("by_chance", "estimate", "truth")),
                ]
            )
    heads = ["data", "checks", "labels", "contained the truth", "expected", "mean estimate", "mean truth"]
    of = next(iter(result["coverage"].values()))
    always = ", ".join(f"{one['always'] / one['runs']:.0%} ({_SETS[data]})" for data, one in result["coverage"].items())
    return f"{markdown(heads, rows)}\n\n" + (
        f"{sum(one['runs'] for one in result['coverage'].values())} sessions, each on a pool of {of['pool']:,} of its "
        f'own. The truth is the accuracy of the model at that moment on {of["others"]:,} other rows. "Expected" is '
        "what 95 % intervals of Wilson's kind give for random checks of that truth, since so few checks take few "
        "values. The model changes between checks, and every interval is about the last model on all checks so far; "
        f"it contained the truth at every single moment from 10 checks on in {always} of the sessions. {_FILE}"
    )


def cost() -> str:
    """A round between answers, and all rounds of a session, beside a whole fit."""
    rows = []
    for one in read("labeling")["cost"]:
        most, every = max(one["rounds"]), one["start"] + sum(one["rounds"])
        rows.append(
            [
                _SETS[one["data"]],
                f"{np.median(one['rounds']):.2f} ({most:.2f})",
                f"{every:.1f} ({len(one['rounds'])} rounds)",
                f"{one['fit']:.0f}",
                f"{most / one['fit']:.1%}",
                f"{every / one['fit']:.1%}",
            ]
        )
    pool, labels = one["pool"], one["labels"]
    heads = ["data", "a round (the longest)", f"{labels} labels", "`ict fit`", "a round costs at most", "all rounds"]
    return f"{markdown(heads, rows)}\n\nCPU seconds, {pool:,} examples, without reading and embedding. {_FILE}"


def page() -> str:
    """What a person waits for."""
    if not (ROOT / "results/labeling-page.json").exists():
        return "Not measured yet: `benchmarks/labeling.py --parts page` writes results/labeling-page.json."
    result = read("labeling-page")
    (one,) = result["page"]
    first, second, loop = one["first"], one["second"], one["plain loop"]
    rows = [
        [f"while {what} runs" if what != "a picture" else "the picture of a question", str(of["n"])]
        + [f"{of[name]:.0f}" for name in ("median", "p95", "largest")]
        for what, of in second["milliseconds"].items()
    ]
    wide, high = one["side"]
    return f"{markdown(['milliseconds', 'times', 'median', '95th percentile', 'largest'], rows)}\n\n" + (
        f"From an answer's request to the next question. {one['photos']:,} made-up JPEG files of {wide}x{high} pixels. "
        f"The first start takes {first['seconds']['to the first question']:.1f} s to the first question and "
        f"{first['seconds']['to a chosen one']:.0f} s ({first['cpu_seconds']:.0f} CPU seconds) to the first one that "
        f"the features chose; the plain loop that decodes and embeds one photo after the other takes "
        f"{loop['seconds']:.0f} s ({loop['cpu_seconds']:.0f}). The second start takes "
        f"{second['seconds']['to a chosen one']:.1f} s. Both processes together use {first['gigabytes']:.2f} GB at "
        f"most. {origin(result)}. File: [labeling-page.json](../results/labeling-page.json)."
    )


def draw(folder: Path) -> None:
    """A panel for each data set: the accuracy over the number of labels, by anchored ICT and by the page's model."""
    if not (ROOT / "results/labeling.json").exists():
        return
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    (panels,) = figure.subplots(1, len(_SETS), squeeze=False)
    for axes, (data, name) in zip(panels, _SETS.items(), strict=True):
        for color, choice, words in (("#0072b2", _CHOSEN, "chosen"), ("#c8540a", _RANDOM, "random")):
            for line, marker, model in (("-", "o", "anchored"), ("--", "s", "page")):
                points = [(n, _accuracies(data, choice, n, model)) for n in _numbers(data)]
                numbers, means = zip(*((n, fmean(some)) for n, some in points), strict=True)
                style = {"color": color, "linestyle": line, "marker": marker, "markersize": 4}
                axes.plot(numbers, means, label=f"{words} labels, {_MODELS[model]}", **style)
                if model == "anchored":
                    low, high = zip(*((min(some), max(some)) for _, some in points), strict=True)
                    axes.fill_between(numbers, low, high, color=color, alpha=0.12, linewidth=0)
        axes.set(xlabel="labels", title=name, xticks=_numbers(data))
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("accuracy on other rows (%)")
    panels[0].legend(fontsize=7.5, frameon=False, loc="lower right")
    picture = io.BytesIO()
    figure.savefig(picture, dpi=120, format="png")
    write_atomic(folder / "labeling.png", picture.getvalue())


def _numbers(data: str) -> list[int]:
    cells = [cell for cell in read("labeling")["curves"] if cell["data"] == data and cell["choice"] == _RANDOM]
    return [point["n"] for point in cells[0]["points"]]


def _accuracies(data: str, choice: str, n: int, model: str = "anchored", counted: str = "labels") -> list[float]:
    """In percent, by seed."""
    cells = [cell for cell in read("labeling")["curves"] if (cell["data"], cell["choice"]) == (data, choice)]
    return [
        100 * point["accuracy"][model]
        for cell in sorted(cells, key=lambda cell: cell["seed"])
        for point in cell["points"]
        if (point["counted"], point["n"]) == (counted, n)
    ]


def _difference(chosen: list[float], random: list[float]) -> str:
    """The mean of the paired differences with its interval."""
    found = np.subtract(chosen, random)
    half = t.ppf(0.975, len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found))
    return f"{found.mean():+.1f} ({found.mean() - half:+.1f} to {found.mean() + half:+.1f})"


def _measured(block: Callable[[], str]) -> str:
    if not (ROOT / "results/labeling.json").exists():
        return "Not measured yet: `benchmarks/labeling.py` writes results/labeling.json."
    return block()


BLOCKS: dict[str, Callable[[], str]] = {
    "labeling": partial(_measured, curves),
    "labeling-answers": partial(_measured, answers),
    "labeling-coverage": partial(_measured, coverage),
    "labeling-cost": partial(_measured, cost),
    "labeling-page": page,
}
