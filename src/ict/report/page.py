"""The skeleton of an HTML report, and the elements that reports have in common.

A page loads nothing and runs no script; its content security policy forbids both, whatever names the data contains.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from html import escape

from ict.report.style import STYLE

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_LONGEST = 80  # characters of a name
_TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}  # Unicode's bidirectional controls


def page(title: str, sections: Iterable[str]) -> str:
    """A whole page, readable in light and dark mode. `sections` are HTML already, `title` is a string."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{shown(title)}</title>",
            '<link rel="icon" href="data:,">',
            f"<style>{STYLE}</style>",
            "</head>",
            "<body>",
            "<main>",
            *sections,
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


def shown(text: str) -> str:
    """A string from a user's data, safe for the page: without markup, control or bidirectional characters."""
    return escape(printable(text))


def printable(text: str) -> str:
    """A string with a replacement character for each control and bidirectional character."""
    return "".join("\ufffd" if _unshowable(character) else character for character in text)


def _unshowable(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs") or unicodedata.bidirectional(character) in _TURNING


def section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>{content}</section>"


def short_name(text: str) -> str:
    """A name from a user's data. Of a long one the middle is left out; all of it is in its title."""
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 20]}…{text[-19:]}"
    return f'<span class="name" title="{shown(text)}">{shown(short)}</span>'


def figure_grid(drawn: Iterable[str], wide: bool = False) -> str:
    """Figures beside each other as far as there is room; `wide`: one below the other, larger."""
    return f'<div class="figures{" wide" * wide}">{"".join(drawn)}</div>'


def figure(drawn: str, caption: str) -> str:
    return f"<figure>{drawn}<figcaption>{caption}</figcaption></figure>"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], kind: str, marked: int | None = None) -> str:
    """A table with one row marked, if any. Cells are HTML already.

    On a narrow page it scrolls in its own box; a `kind` with the word "stacked" has its cells below each other there.
    """
    labels = [f' data-label="{column}"' if "stacked" in kind else "" for column in columns]
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    lines = []
    for i, row in enumerate(rows):
        mark = ' class="marked"' if i == marked else ""
        lines.append(f"<tr{mark}>{_cells(labels, row)}</tr>")
    return (
        f'<div class="box" tabindex="0"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _cells(labels: Sequence[str], row: Sequence[str]) -> str:
    return "".join(f"<td{label}>{cell}</td>" for label, cell in zip(labels, row, strict=True))
