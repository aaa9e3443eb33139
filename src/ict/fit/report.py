"""The report of a fit as one HTML page: whether the unlabeled examples helped, the accuracy, and what to label next."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from ict.base.array_types import Array
from ict.engine.loop import Record
from ict.estimators.auto import HeldOutProbs, Judged
from ict.estimators.candidates import DESCRIPTIONS, uses_unlabeled
from ict.estimators.metrics import Metric, in_words
from ict.estimators.verdict import Verdict
from ict.experts.temperature import reliability
from ict.fit import report_figures as pictures
from ict.fit.holdout import ByClass, by_class, score
from ict.fit.label_next import Suggestion, reason
from ict.report.page import figure, figure_grid, page, section, short_name, shown, table

_SHEET = 24  # images of each kind
_NAMED = 10  # rows of each kind where there are no images
_NEXT = 10
_CONFUSIONS = 10
_HEADLINES = {
    "helped": "The unlabeled examples helped",
    "hurt": "The unlabeled examples hurt",
    "cannot tell": "It cannot be told whether the unlabeled examples helped",
}


@dataclass(frozen=True)
class Findings:
    """The content of a report."""

    judged: Judged
    compared: bool  # with other methods, as far as there were labels for it
    metric: Metric
    classes: tuple[str, ...]
    labeled: NDArray[np.int64]  # number of labels trained on, by class
    held_out: HeldOutProbs | None  # test examples, or those of folds
    tested: bool  # the held-out examples are for a test, and were not used to choose
    no_test: str  # why there are no held-out examples
    history: Sequence[Record]
    seeding: int  # updates before the history, on labels that a graph guessed
    names: Sequence[str]  # of the unlabeled examples
    probs: Array  # of the unlabeled examples, calibrated
    image: Callable[[int], NDArray[np.uint8]] | None  # an unlabeled example's pixels, where they are images
    suggestions: Sequence[Suggestion]
    remarks: Sequence[str]  # on the data
    origin: dict[str, str]  # command, seed, versions, time
    columns: Sequence[tuple[str, str]] = ()  # of a table by name, and what each became


def report(found: Findings) -> str:
    """The page."""
    held_out = found.held_out
    classes = None if held_out is None else by_class(held_out.probs, held_out.labels)
    sections = [
        _summary(found),
        _candidates(found),
        _remarks(found.remarks),
        _columns(found.columns),
        _next(found),
        _classes(found, classes),
        _confusion(found, classes),
        _probabilities(found),
        _training(found),
        _sheets(found),
        _origin(found.origin),
    ]
    return page("ict fit: report", sections)


def _summary(found: Findings) -> str:
    judged = found.judged
    if judged.verdict is not None:
        headline, words = _HEADLINES[judged.verdict.answer], _gain(judged.verdict)
    elif found.compared:
        headline, words = "Whether the unlabeled examples helped is not known", f"<p>{shown(judged.remark)}</p>"
    else:
        headline = "Whether the unlabeled examples helped was not measured"
        words = f"<p>The method {shown(judged.method)} was asked for, so nothing was compared: --method auto does.</p>"
    n_labeled, n_classes = int(found.labeled.sum()), len(found.classes)
    tiles = [
        _accuracy(found),
        _tile("Method", shown(judged.method), f"{n_classes} classes"),
        _tile("Trained on", f"{n_labeled:,}", f"labeled and {len(found.names):,} unlabeled examples"),
    ]
    return (
        f'<header><p class="kicker">ict fit</p><h1>{headline}</h1>{words}<div class="tiles">{"".join(tiles)}</div>'
        "</header>"
    )


def _gain(said: Verdict) -> str:
    if said.answer == "cannot tell":
        return f"<p>{shown(str(said))}</p>"
    reach = max(abs(said.low), abs(said.high), 0.01)
    return (
        f"<p>{shown(str(said))}</p>"
        f'<div class="gain">{_interval(said.low, said.gain, said.high, -reach, reach, mark=0.0)}'
        "<span>worse</span><span>the same</span><span>better</span></div>"
    )


def _accuracy(found: Findings) -> str:
    held_out, estimate = found.held_out, found.judged.estimate
    if held_out is None:
        return _tile("Accuracy", "not measured", shown(found.no_test))
    if not found.tested and estimate is not None:
        name = found.metric.replace("_", " ").capitalize()
        scale = (0.0, 1.0) if found.metric != "log_loss" else (estimate.low, estimate.high)
        picture = _interval(estimate.low, estimate.value, estimate.high, *scale)
        words = f"{estimate}.{_shorter(found)}"
        return _tile(name, in_words(found.metric, estimate.value), shown(words), picture)
    result = score(held_out.probs, held_out.labels)
    low, high = result.interval
    words = f"{result.right} of {result.n} held-out labels right; 95 % interval {low:.1%} to {high:.1%}"
    return _tile("Accuracy", f"{result.accuracy:.1%}", words, _interval(low, result.accuracy, high, 0, 1))


def _candidates(found: Findings) -> str:
    """Every candidate's score on every fold."""
    title, scores = "What was compared", found.judged.scores
    if len(scores) < 2:
        return section(title, "<p>Nothing: one method was fitted.</p>")
    rows = []
    for name, folds in scores.items():
        chosen = " (chosen)" if name == found.judged.method else ""
        unlabeled = "yes" if uses_unlabeled(name) else "no"
        row = [
            shown(name + chosen),
            shown(DESCRIPTIONS[name]),
            unlabeled,
            in_words(found.metric, float(np.mean(folds))),
        ]
        rows.append([*row, ", ".join(in_words(found.metric, value) for value in folds)])
    metric = found.metric.replace("_", " ")
    words = (
        f"<p>{metric.capitalize()} on folds of the labeled examples. The first candidate is taken unless another is "
        f"better by more than chance would make it; the chosen one learned from all labels.{_shorter(found)}</p>"
    )
    columns = ["candidate", "what it is", "uses unlabeled examples", metric, "fold by fold"]
    return section(title, words + table(columns, rows, "pairs"))


def _columns(columns: Sequence[tuple[str, str]]) -> str:
    """What became of each column of a table."""
    if not columns:
        return ""
    rows = [[shown(name), shown(what)] for name, what in columns]
    return section("Columns of the table", table(["column", "what it became"], rows, "pairs"))


def _shorter(found: Findings) -> str:
    return " In folds, networks of pixels got a quarter of their updates." if found.judged.shorter else ""


def _tile(title: str, value: str, words: str, picture: str = "") -> str:
    return f'<div class="tile"><h2>{title}</h2><p class="value">{value}</p>{picture}<p class="words">{words}</p></div>'


def _interval(low: float, value: float, high: float, least: float, most: float, mark: float | None = None) -> str:
    """A value with its interval on a line, and a mark to compare it with."""

    def at(number: float) -> float:
        return 2 + 196 * (min(max(number, least), most) - least) / (most - least)

    label = f"{value:.3f}, interval {low:.3f} to {high:.3f}"
    tick = "" if mark is None else f'<line class="mark" x1="{at(mark):.1f}" x2="{at(mark):.1f}" y1="0" y2="12"/>'
    return (
        f'<svg class="interval" viewBox="0 0 200 12" role="img" aria-label="{label}">'
        f'<line class="track" x1="2" x2="198" y1="6" y2="6"/>{tick}'
        f'<line class="span" x1="{at(low):.1f}" x2="{at(high):.1f}" y1="6" y2="6"/>'
        f'<circle cx="{at(value):.1f}" cy="6" r="4.5"/></svg>'
    )


def _remarks(remarks: Sequence[str]) -> str:
    if not remarks:
        return section("Remarks on the data", "<p>Nothing stood out when the data was read.</p>")
    return section("Remarks on the data", f"<ul>{''.join(f'<li>{shown(remark)}</li>' for remark in remarks)}</ul>")


def _next(found: Findings) -> str:
    if not found.suggestions:
        return section("What to label next", "<p>Nothing: there is no unlabeled example.</p>")
    rows = []
    for rank, suggestion in enumerate(found.suggestions[:_NEXT], 1):
        picture = [_image(found, suggestion.row)] if found.image is not None else []
        name, why = found.names[suggestion.row], reason(suggestion, found.classes)
        rows.append([str(rank), *picture, f'{short_name(name)}<div class="why">{shown(why)}</div>'])
    columns = ["", *([""] if found.image is not None else []), "example, and why it is worth a label"]
    words = "<p>The labels that should help most, from different corners of the data; next.csv has more.</p>"
    return section("What to label next", words + table(columns, rows, "next"))


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
    return section("Class by class", words + table(columns, rows, "numbers"))


def _confusion(found: Findings, classes: ByClass | None) -> str:
    title = "What was taken for what"
    if classes is None:
        return section(title, f"<p>There is no table of confusions: {shown(found.no_test)}.</p>")
    counts = classes.confusion
    wrong = counts - np.diag(np.diag(counts))
    words = f"<p>Rows are the true classes of {counts.sum():,} held-out examples, columns the guesses.</p>"
    if not wrong.any():
        words += "<p>No example was taken for another class.</p>"
    listing = ""
    if wrong.any() and len(counts) > 2:
        order = np.argsort(-wrong, axis=None, kind="stable")[: min(_CONFUSIONS, np.count_nonzero(wrong))]
        pairs = (divmod(int(i), len(counts)) for i in order)
        rows = [[short_name(found.classes[a]), short_name(found.classes[b]), str(wrong[a, b])] for a, b in pairs]
        listing = "<h3>Most frequent mistakes</h3>" + table(["true class", "guess", "times"], rows, "pairs")
    return section(title, words + _matrix(counts, found.classes) + listing)


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


def _probabilities(found: Findings) -> str:
    title, held_out, calibration = "Whether probabilities can be believed", found.held_out, found.judged.calibration
    words = f"<p>{shown(calibration.said)}</p>"
    if held_out is None:
        return section(title, f"{words}<p>There is no reliability diagram: {shown(found.no_test)}.</p>")
    before = reliability(held_out.probs, held_out.labels)
    after = None
    if calibration.fitted:
        after = reliability(held_out.calibrated, held_out.labels)
        distance = f"{before.error:.1%} before calibration and {after.error:.1%} after"
    else:
        distance = f"{before.error:.1%}"
    words += (
        f"<p>On the {len(held_out.labels)} held-out examples, probability and share of right guesses are on average "
        f"{distance} apart (expected calibration error). Points on the diagonal mean what they say; larger points "
        "stand for more examples.</p>"
    )
    return section(title, words + figure_grid([pictures.reliability_diagram(before, after)]))


def _training(found: Findings) -> str:
    title = "How training went"
    if not found.history:
        return section(title, "<p>There are no learning curves: this model is not trained step by step.</p>")
    words = []
    if found.seeding:
        words.append(f"Before these, {found.seeding:,} updates taught the network what a graph guessed of the labels.")
    drawn = [pictures.losses(found.history), pictures.validation(found.history), pictures.certainty(found.history)]
    if drawn[1] is None:
        words.append("No validation error was followed: --valid was not given.")
    if drawn[2] is None:
        words.append("No certainty on unlabeled examples was followed: there are none.")
    captions = (
        "Training losses",
        "Error on validation examples",
        "How sure the network is of its guesses for unlabeled examples, before calibration",
    )
    figures = [figure(picture, caption) for picture, caption in zip(drawn, captions, strict=True) if picture]
    text = "".join(f"<p>{shown(sentence)}</p>" for sentence in words)
    return section(title, text + figure_grid(figures))


def _sheets(found: Findings) -> str:
    title = "The unlabeled examples"
    if not len(found.probs):
        return section(title, "<p>There are none.</p>")
    best = found.probs.max(1)
    order = np.argsort(best, kind="stable")
    most = _SHEET if found.image is not None else _NAMED
    half = min(most, len(order) // 2)  # no example twice
    sheets = []
    for name, rows in (("Least certain", order[: max(half, 1)]), ("Most certain", order[::-1][:half])):
        if len(rows):
            sheets.append(f"<h3>{name}</h3>{_sheet(found, rows, best)}")
    return section(title, "".join(sheets))


def _sheet(found: Findings, rows: Iterable[int], best: Array) -> str:
    guesses = found.probs.argmax(1)
    if found.image is None:
        cells = [[short_name(found.names[i]), short_name(found.classes[guesses[i]]), f"{best[i]:.1%}"] for i in rows]
        return table(["example", "guess", "probability"], cells, "pairs")
    items = [
        f'<figure title="{shown(found.names[i])}">{_image(found, i)}'
        f"<figcaption>{short_name(found.classes[guesses[i]])} <small>{best[i]:.0%}</small></figcaption></figure>"
        for i in rows
    ]
    return f'<div class="sheet">{"".join(items)}</div>'


def _image(found: Findings, row: int) -> str:
    assert found.image is not None
    return f'<img src="{pictures.thumbnail(found.image(row))}" alt="{shown(found.names[row])}" width="64" height="64">'


def _origin(origin: dict[str, str]) -> str:
    items = "".join(f"<dt>{escape(key)}</dt><dd>{shown(value)}</dd>" for key, value in origin.items())
    return section("How this was made", f"<dl>{items}</dl>")
