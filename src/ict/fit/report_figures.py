"""The figures of a report: SVG with the colors of the page, and small PNGs of images."""

import base64
import io
import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from numpy.typing import NDArray
from PIL import Image

from ict.engine.loop import Record
from ict.experts.temperature import Reliability

# Placeholders that become the page's variables, so that a figure is readable in light and dark mode.
_INK, _FAINT, _PAPER, _FIRST, _SECOND, _THIRD = (f"#00000{i}" for i in range(1, 7))
_VARIABLES = {
    _INK: "var(--ink)",
    _FAINT: "var(--line)",
    _PAPER: "var(--paper)",
    _FIRST: "var(--first)",
    _SECOND: "var(--second)",
    _THIRD: "var(--third)",
}
_LINES = ((_FIRST, "-"), (_SECOND, "--"), (_THIRD, ":"))  # distinguishable without color too
_STYLE: dict[Any, Any] = {
    "axes.edgecolor": _FAINT,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": _INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.size": 9,
    "grid.color": _FAINT,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "ict",  # the same picture is the same file
    "text.color": _INK,
    "text.parse_math": False,
    "xtick.color": _INK,
    "ytick.color": _INK,
}
_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_NOT_LOSSES = {"step", "lr", "w", "seconds", "confidence"}


def losses(history: Sequence[Record]) -> str | None:
    """Training losses over updates, on a logarithmic axis since they differ by orders of magnitude."""
    names = [k for k in history[-1] if k not in _NOT_LOSSES and not k.startswith("valid_")] if history else []
    return _curves("losses", "Training losses over updates", history, {n: n for n in names}, "loss", log=True)


def validation(history: Sequence[Record]) -> str | None:
    """Errors of student and teacher on the validation examples over updates."""
    names = {"valid_error_student": "student", "valid_error_teacher": "teacher"}
    title = "Error on the validation examples over updates"
    return _curves("validation", title, history, names, "error on validation examples", top=0.05)


def certainty(history: Sequence[Record]) -> str | None:
    """The mean largest probability on unlabeled examples over updates."""
    title = "Mean probability of the guesses for unlabeled examples over updates"
    return _curves("certainty", title, history, {"confidence": ""}, "mean probability of a guess", top=1.0)


def reliability_diagram(before: Reliability, after: Reliability | None) -> str:
    """Accuracy against probability; on the diagonal, probabilities are calibrated."""
    with matplotlib.rc_context(_STYLE):
        figure, axes = _axes(4.2, 3.6)
        axes.plot([0, 1], [0, 1], color=_FAINT, linewidth=1.2, zorder=1)
        drawn = [("before calibration", before, _SECOND, "s")]
        drawn += [("after", after, _FIRST, "o")] if after else []
        for name, found, color, marker in drawn:
            label = name if after else None
            axes.plot(found.probability, found.accuracy, color=color, linewidth=1, alpha=0.7, zorder=2)
            sizes = 18 + 120 * found.counts / found.counts.sum()
            axes.scatter(
                found.probability, found.accuracy, sizes, color=color, marker=marker, label=label, alpha=0.85, zorder=3
            )
        axes.set(xlim=(0, 1.03), ylim=(-0.03, 1.03), xlabel="probability of the guess", ylabel="share that is right")
        _percent(axes.xaxis)
        _percent(axes.yaxis)
        if after:
            _legend(axes, 2)
        return _svg(figure, "reliability", "Share of right guesses against their probability")


def thumbnail(pixels: NDArray[np.uint8]) -> str:
    """An image [h, w] or [h, w, 3] as a data URL."""
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "png", optimize=True)
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
    with matplotlib.rc_context(_STYLE):
        figure, axes = _axes(4.2, 2.7)
        for i, (key, label) in enumerate(present.items()):
            points = [(record["step"], record[key]) for record in history if key in record]
            color, dashes = _LINES[i % len(_LINES)]
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
            _percent(axes.yaxis)
        if len(present) > 1 or all(present.values()):
            _legend(axes, len(present))
        return _svg(figure, name, title)


def _axes(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.tick_params(which="both", length=0)
    return figure, axes


def _legend(axes: Axes, columns: int) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.2)  # above everything drawn


def _percent(axis: Any) -> None:
    axis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")


def _svg(figure: Figure, name: str, title: str) -> str:
    """A figure as an element of the page, with unique identifiers and the page's font and colors."""
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _LINK)
    root = ElementTree.fromstring(written.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):  # its style would hold for the whole page
                parent.remove(child)
    for element in root.iter():
        for key, value in element.attrib.items():
            element.set(key, _owned(key, value, name))
    for key in ("width", "height"):
        del root.attrib[key]
    root.set("role", "img")
    root.set("aria-label", title)
    return ElementTree.tostring(root, encoding="unicode")


def _owned(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == f"{{{_LINK}}}href":
        return value.replace("#", f"#{name}-", 1)
    value = value.replace("url(#", f"url(#{name}-")
    for stand_in, variable in _VARIABLES.items():
        value = value.replace(stand_in, variable)
    return re.sub(r"font-family: [^;]*", "font-family: inherit", value)
