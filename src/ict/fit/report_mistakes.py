"""The part of a report that says where the model is wrong: class by class, and which class was taken for which."""

import numpy as np
from numpy.typing import NDArray

from ict.data.user.remarks import word
from ict.fit.findings import Findings
from ict.fit.holdout import ByClass, by_class
from ict.fit.report_examples import mistakes
from ict.report.page import section, short_name, shown, table

_CONFUSIONS = 10


def where_wrong(found: Findings) -> str:
    held_out = found.held_out
    classes = None if held_out is None else by_class(held_out.probs, held_out.labels)
    parts = [_classes(found, classes), _confusion(found, classes)]
    beside = "".join(f"<div>{part}</div>" for part in parts)
    return section("Where it is wrong", f'<div class="beside">{beside}</div>{mistakes(found)}')


def _classes(found: Findings, classes: ByClass | None) -> str:
    guessed = np.bincount(found.probs.argmax(1), minlength=len(found.classes)) if len(found.probs) else None
    columns = ["class", "labels trained on"]
    columns += ["held out", "precision", "recall", "F1"] if classes else []
    columns += ["unlabeled guessed as it"] if guessed is not None else []
    rows = []
    for i, name in enumerate(found.classes):
        row = [short_name(name), f"{found.labeled[i]:,}"]
        if classes:
            row.append(str(classes.confusion[i].sum()))
            row += [f"{values[i]:.2f}" for values in (classes.precision, classes.recall, classes.f1)]
        rows.append(row + ([f"{guessed[i]:,}"] if guessed is not None else []))
    words = "" if classes else f"<p>No precision or recall: {shown(found.no_test)}.</p>"
    return "<h3>Class by class</h3>" + words + table(columns, rows, "numbers stacked")


def _confusion(found: Findings, classes: ByClass | None) -> str:
    title = "<h3>Which class was taken for which</h3>"
    if classes is None:
        return f"{title}<p>There is no table of confusions: {shown(found.no_test)}.</p>"
    counts = classes.confusion
    wrong = counts - np.diag(np.diag(counts))
    n = int(counts.sum())
    words = f"<p>Rows are the true classes of {n:,} held-out {word(found.items, n)}, columns the guesses.</p>"
    if not wrong.any():
        words += f"<p>No {word(found.items, 1)} was taken for another class.</p>"
    listing = ""
    if wrong.any() and len(counts) > 2:
        order = np.argsort(-wrong, axis=None, kind="stable")[: min(_CONFUSIONS, np.count_nonzero(wrong))]
        pairs = (divmod(int(i), len(counts)) for i in order)
        rows = [[short_name(found.classes[a]), short_name(found.classes[b]), str(wrong[a, b])] for a, b in pairs]
        listing = "<h3>Most frequent mistakes</h3>" + table(["true class", "guess", "times"], rows, "pairs stacked")
    return title + words + _matrix(counts, found.classes) + listing


def _matrix(counts: NDArray[np.int64], classes: tuple[str, ...]) -> str:
    """A confusion matrix. Cells are shaded by their share of the row; zeros stay empty, for readability."""
    names = [shown(name) for name in classes]
    head = "".join(f'<th scope="col" title="{name}"><span>{name}</span></th>' for name in names)
    lines = []
    for i, row in enumerate(counts):
        shares = row / max(int(row.sum()), 1)
        cells = []
        for j, n in enumerate(row):
            if n:
                kind = "right" if i == j else "wrong"
                tip = f"{names[i]} taken for {names[j]}: {n}"
                cells.append(f'<td class="{kind}" style="--share:{shares[j]:.2f}" title="{tip}">{n}</td>')
            else:
                cells.append("<td></td>")
        header = f'<th scope="row" title="{names[i]}"><span>{names[i]}</span></th>'
        lines.append(f"<tr>{header}{''.join(cells)}</tr>")
    return (
        f'<div class="box" tabindex="0"><table class="matrix"><thead><tr><td></td>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )
