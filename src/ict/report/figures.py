"""What the figures of all reports share: SVG elements with the colors and the font of the page."""

import io
import re
from contextlib import AbstractContextManager
from typing import Any
from xml.etree import ElementTree

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Placeholders that become the page's variables, so that a figure is readable in light and dark mode.
INK, FAINT, PAPER, FIRST, SECOND, THIRD = (f"#00000{i}" for i in range(1, 7))
_VARIABLES = {
    INK: "var(--ink)",
    FAINT: "var(--line)",
    PAPER: "var(--paper)",
    FIRST: "var(--first)",
    SECOND: "var(--second)",
    THIRD: "var(--third)",
}
LINES = ((FIRST, "-"), (SECOND, "--"), (THIRD, ":"))  # distinguishable without color too
_STYLE: dict[Any, Any] = {
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.size": 9,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "ict",  # the same picture is the same file
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}
_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"


def page_style() -> AbstractContextManager[None]:
    """Within it, matplotlib draws in the colors of the page."""
    context: AbstractContextManager[None] = matplotlib.rc_context(_STYLE)
    return context


def new_axes(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.tick_params(which="both", length=0)
    return figure, axes


def legend_above(axes: Axes, columns: int) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.2)  # above everything drawn


def percent_axis(axis: Any) -> None:
    axis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")


def svg(figure: Figure, name: str, title: str) -> str:
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
