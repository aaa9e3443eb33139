"""The figures of a report: SVG with the colors of the page, and small PNGs of images."""

import base64
import io
from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import NullFormatter
from numpy.typing import NDArray
from PIL import Image

from ict.engine.loop import Record
from ict.experts.temperature import Reliability
from ict.report.figures import FAINT, FIRST, LINES, SECOND, legend_above, new_axes, page_style, percent_axis, svg

_SMALL = 64  # largest side of an image that is not compressed
_NOT_LOSSES = {"step", "lr", "w", "seconds", "confidence"}


def losses(history: Sequence[Record]) -> str | None:
    """Training losses over updates, on a logarithmic axis since they differ by orders of magnitude."""
    names = [k for k in history[-1] if k not in _NOT_LOSSES and not k.startswith("valid_")] if history else []
    return _curves("losses", "Training losses over updates", history, {n: n for n in names}, "loss", log=True)


def validation(history: Sequence[Record]) -> str | None:
    """Errors of student and teacher on the validation examples over updates."""
    names = {"valid_error_student": "student", "valid_error_teacher": "teacher"}
    title = "Validation error over updates"
    return _curves("validation", title, history, names, "validation error", top=0.05)


def certainty(history: Sequence[Record]) -> str | None:
    """The mean largest probability on unlabeled examples over updates."""
    title = "Mean probability of the guesses over updates"
    return _curves("certainty", title, history, {"confidence": ""}, "mean probability of a guess", top=1.0)


def reliability_diagram(before: Reliability, after: Reliability | None) -> str:
    """Accuracy against probability; on the diagonal, probabilities are calibrated."""
    with page_style():
        figure, axes = new_axes(4.2, 3.6)
        axes.plot([0, 1], [0, 1], color=FAINT, linewidth=1.2, zorder=1)
        drawn = [("before calibration", before, SECOND, "s")]
        drawn += [("after", after, FIRST, "o")] if after else []
        for name, found, color, marker in drawn:
            label = name if after else None
            axes.plot(found.probability, found.accuracy, color=color, linewidth=1, alpha=0.7, zorder=2)
            sizes = 18 + 120 * found.counts / found.counts.sum()
            axes.scatter(
                found.probability, found.accuracy, sizes, color=color, marker=marker, label=label, alpha=0.85, zorder=3
            )
        axes.set(xlim=(0, 1.03), ylim=(-0.03, 1.03), xlabel="probability of the guess", ylabel="share that is right")
        percent_axis(axes.xaxis)
        percent_axis(axes.yaxis)
        if after:
            legend_above(axes, 2)
        return svg(figure, "reliability", "Share of right guesses against their probability")


def thumbnail(pixels: NDArray[np.uint8]) -> str:
    """An image [h, w] or [h, w, 3] as a data URL: small ones as they are, larger ones compressed."""
    content, image = io.BytesIO(), Image.fromarray(pixels)
    if max(image.size) > _SMALL:
        image.save(content, "jpeg", quality=80)
        return "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode()
    image.save(content, "png", optimize=True)
    return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()


def _curves(
    name: str,
    title: str,
    history: Sequence[Record],
    lines: dict[str, str],
    ylabel: str,
    *,
    log: bool = False,
    top: float | None = None,
) -> str | None:
    """A plot of curves, or None if there is nothing to draw. `top`: the axis shows percentages, at least up to it."""
    present = {key: label for key, label in lines.items() if any(key in record for record in history)}
    if not present:
        return None
    with page_style():
        figure, axes = new_axes(4.2, 2.7)
        for i, (key, label) in enumerate(present.items()):
            points = [(record["step"], record[key]) for record in history if key in record]
            color, dashes = LINES[i % len(LINES)]
            marker = "o" if len(points) == 1 else None
            axes.plot(*zip(*points, strict=True), color=color, linestyle=dashes, label=label or None, marker=marker)
        axes.set(xlabel="updates", ylabel=ylabel)
        axes.set_xlim(left=0)
        if log and all(record[key] > 0 for record in history for key in present if key in record):
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.yaxis.set_minor_formatter(NullFormatter())
        if top is not None:
            axes.set_ylim(0, max(axes.get_ylim()[1], top))
            percent_axis(axes.yaxis)
        if len(present) > 1 or all(present.values()):
            legend_above(axes, len(present))
        return svg(figure, name, title)
