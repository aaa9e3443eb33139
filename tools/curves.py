"""The curves of the headline's recipes: validation error over seconds of training."""

import io
from pathlib import Path

from matplotlib.figure import Figure
from published import HEADLINE, NOT_RUN, TASKS, Runs, code, valid
from training_times import shared

from ict.base.files import write_atomic
from ict.recipes import RECIPES


def text(runs: Runs) -> str:
    """The picture, where there is something to draw."""
    if not _drawn(runs):
        return f"Curves: {NOT_RUN}."
    picture = "![validation error over seconds of training](img/results.png)"
    slowed = [code(name) for name in _drawn(runs) if shared(runs, name)]
    return picture + (f"\n\nShared the GPU, so that its seconds are too many: {', '.join(slowed)}." if slowed else "")


def draw(folder: Path, runs: Runs) -> None:
    """A panel for each cell with runs: the evaluated network's validation error, a line for each seed."""
    if not _drawn(runs):
        return
    names_of: dict[str, list[str]] = {}
    for name in _drawn(runs):
        names_of.setdefault(name.partition("/")[0], []).append(name)
    figure = Figure(figsize=(6 * len(names_of), 4), layout="constrained")
    (panels,) = figure.subplots(1, len(names_of), squeeze=False)
    for axes, (cell, names) in zip(panels, names_of.items(), strict=True):
        for i, name in enumerate(names):
            for k, run in enumerate(runs[name]):
                looks = [(look["seconds"], 100 * valid(look)) for look in run["curve"]]
                axes.plot(*zip(*looks, strict=True), color=f"C{i}", alpha=0.7, label=None if k else name)
        if reported := RECIPES[f"{cell}/ict"].reported:
            axes.axhline(reported.mean, color="black", linestyle=":", label="the paper's test error")
        axes.set(
            xlabel="seconds of training",
            ylabel="validation error (%)",
            title=TASKS[f"{cell}-fair"],
            xscale="log",
            yscale="log",
        )
        for axis, ticks in ((axes.xaxis, (15, 30, 60, 120, 240, 480, 960)), (axes.yaxis, (3, 5, 7, 10, 20, 40, 80))):
            axis.set_ticks(ticks, map(str, ticks))
            axis.set_ticks([], minor=True)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    picture = io.BytesIO()
    figure.savefig(picture, dpi=120, format="png")
    write_atomic(folder / "results.png", picture.getvalue())


def _drawn(runs: Runs) -> list[str]:
    """The recipes whose curves are drawn."""
    return [name for name in HEADLINE if name in runs and all(run.get("curve") for run in runs[name])]
