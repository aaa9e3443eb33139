"""Examples in a report, as images, texts or names: those to label next, those mistaken, the unlabeled ones."""

from collections.abc import Iterable

import numpy as np

from ict.base.array_types import Array
from ict.data.user.remarks import word
from ict.fit import report_figures as pictures
from ict.fit.findings import Example, Findings
from ict.fit.label_next import reason
from ict.fit.next_file import start_of
from ict.report.page import section, short_name, shown, table

_NEXT = 12
_SHEET = 24  # images of each kind
_NAMED = 10  # of each kind where there are no images
_TEXT = 160  # characters of a text


def to_label(found: Findings) -> str:
    """The labels that should help most."""
    title = "What to do next"
    if not found.suggestions:
        return section(title, f"<p>Nothing is left to label: there is no unlabeled {word(found.items, 1)}.</p>")
    cards = []
    for suggestion in found.suggestions[:_NEXT]:
        example = found.example(suggestion.row)
        why = shown(reason(suggestion, found.classes))
        cards.append(_card(example, f'{short_name(example.name)}<div class="why">{why}</div>'))
    words = (
        f"<p>Label these {word(found.items)}, which should help most and come from different parts of the data; "
        "next.csv has more, with an empty column for the labels.</p>"
    )
    again = f"<p>Then run <code>{shown(found.again)}</code></p>" if found.again else ""
    return section(title, words + again + _cards(found, cards))


def mistakes(found: Findings) -> str:
    """Held-out examples with wrong guesses. Some may be wrong labels."""
    if not found.mistakes:
        return ""
    cards = []
    for mistake in found.mistakes:
        label, guess = (shown(found.classes[i]) for i in (mistake.label, mistake.guess))
        words = f"labeled <strong>{label}</strong>, taken for <strong>{guess}</strong> ({mistake.probability:.0%})"
        cards.append(_card(mistake.example, f'{short_name(mistake.example.name)}<div class="why">{words}</div>'))
    words = "<p>The most certain wrong guesses for held-out examples. Is a label wrong?</p>"
    return f"<h3>Wrong guesses</h3>{words}{_cards(found, cards)}"


def unlabeled(found: Findings) -> str:
    """The least and the most certain unlabeled examples."""
    title = f"The unlabeled {word(found.items)}"
    if not len(found.probs):
        return section(title, "<p>There are none.</p>")
    best = found.probs.max(1)
    order = np.argsort(best, kind="stable")
    most = _SHEET if found.example(0).image is not None else _NAMED
    half = min(most, len(order) // 2)  # no example twice
    sheets = []
    for name, rows in (("Least certain", order[: max(half, 1)]), ("Most certain", order[::-1][:half])):
        if len(rows):
            sheets.append(f"<div><h3>{name}</h3>{_sheet(found, rows, best)}</div>")
    together = "".join(sheets)
    return section(title, together if most == _SHEET else f'<div class="beside">{together}</div>')


def _sheet(found: Findings, rows: Iterable[int], best: Array) -> str:
    guesses = found.probs.argmax(1)
    examples = {int(i): found.example(int(i)) for i in rows}
    if all(example.image is None for example in examples.values()):
        has_text = any(example.text for example in examples.values())
        cells = [
            [
                short_name(example.name),
                *([shown(start_of(example.text, _TEXT))] if has_text else []),
                short_name(found.classes[guesses[i]]),
                f"{best[i]:.1%}",
            ]
            for i, example in examples.items()
        ]
        columns = [word(found.items, 1), *(["how it begins"] if has_text else []), "guess", "probability"]
        return table(columns, cells, "pairs stacked")
    items = [
        f'<figure title="{shown(example.name)}">{_image(example)}'
        f"<figcaption>{short_name(found.classes[guesses[i]])} <small>{best[i]:.0%}</small></figcaption></figure>"
        for i, example in examples.items()
    ]
    return f'<div class="sheet">{"".join(items)}</div>'


def _cards(found: Findings, cards: Iterable[str]) -> str:
    return f'<div class="cards {found.items}">{"".join(cards)}</div>'


def _card(example: Example, words: str) -> str:
    text = f'<p class="text">{shown(start_of(example.text, _TEXT))}</p>' if example.text else ""
    return f'<div class="card">{_image(example)}{text}{words}</div>'


def _image(example: Example) -> str:
    if example.image is None:
        return ""
    return f'<img src="{pictures.thumbnail(example.image)}" alt="{shown(example.name)}" width="64" height="64">'
