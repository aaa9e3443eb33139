"""The report of a fit as one HTML page: how good the model is, what to do next, where it is wrong; then the rest."""

from collections.abc import Sequence
from html import escape

from ict.data.user.remarks import word
from ict.estimators.verdict import Verdict
from ict.experts.temperature import reliability
from ict.fit import report_figures as pictures
from ict.fit.findings import ENOUGH, Findings
from ict.fit.report_examples import to_label, unlabeled
from ict.fit.report_mistakes import where_wrong
from ict.fit.report_quality import candidates, header, interval
from ict.report.page import figure, figure_grid, page, section, shown, table


def report(found: Findings) -> str:
    """The page."""
    sections = [
        header(found),
        _change(found),
        candidates(found),
        to_label(found),
        where_wrong(found),
        _verdict(found),
        _remarks(found.remarks),
        _columns(found.columns),
        _probabilities(found),
        _training(found),
        unlabeled(found),
        _origin(found.origin),
    ]
    return page("ict fit: report", sections)


def _change(found: Findings) -> str:
    """What changed against an earlier model, if one was named."""
    change = found.change
    if change is None:
        return ""
    picture = ""
    if change.gain is not None and change.low is not None and change.high is not None and change.common >= ENOUGH:
        picture = _better_or_worse(change.low, change.gain, change.high)
    words = "".join(f"<li>{shown(line)}</li>" for line in change.lines[:-1])
    title = f"What changed against {shown(change.folder)}"
    return section(title, f"<p>{shown(change.verdict)}</p>{picture}<ul>{words}</ul>")


def _verdict(found: Findings) -> str:
    """Whether the unlabeled examples helped."""
    items, judged = word(found.items), found.judged
    title = f"Whether the unlabeled {items} helped"
    if judged.verdict is not None:
        return section(title, _gain(judged.verdict, items))
    if found.compared:
        return section(title, f"<p>That is not known. {shown(judged.remark)}</p>")
    words = f"The method {shown(judged.method)} was given, so methods were not compared: --method auto compares them."
    return section(title, f"<p>That was not measured. {words}</p>")


def _gain(verdict: Verdict, items: str) -> str:
    if verdict.answer == "cannot tell":
        return f"<p>{shown(verdict.words(items))}</p>"
    return f"<p>{shown(verdict.words(items))}</p>{_better_or_worse(verdict.low, verdict.gain, verdict.high)}"


def _better_or_worse(low: float, gain: float, high: float) -> str:
    """A gain with its interval on a line, with no gain in the middle."""
    reach = max(abs(low), abs(high), 0.01)
    return (
        f'<div class="gain">{interval(low, gain, high, -reach, reach, mark=0.0)}'
        "<span>worse</span><span>the same</span><span>better</span></div>"
    )


def _remarks(remarks: Sequence[str]) -> str:
    if not remarks:
        return section("Remarks on the data", "<p>Nothing stood out when the data was read.</p>")
    return section("Remarks on the data", f"<ul>{''.join(f'<li>{shown(remark)}</li>' for remark in remarks)}</ul>")


def _columns(columns: Sequence[tuple[str, str]]) -> str:
    """What became of each column of a table."""
    if not columns:
        return ""
    rows = [[shown(name), shown(what)] for name, what in columns]
    return section("Columns of the table", table(["column", "what it became"], rows, "pairs stacked"))


def _probabilities(found: Findings) -> str:
    title, held_out, calibration = "Whether probabilities can be believed", found.held_out, found.judged.calibration
    words = f"<p>{shown(calibration.sentence)}</p>"
    if held_out is None:
        return section(title, f"{words}<p>There is no reliability diagram: {shown(found.no_test)}.</p>")
    before = reliability(held_out.probs, held_out.labels)
    after = None
    if calibration.fitted:
        after = reliability(held_out.calibrated, held_out.labels)
        distance = f"{before.error:.1%} before calibration and {after.error:.1%} after"
    else:
        distance = f"{before.error:.1%}"
    n = len(held_out.labels)
    if n < ENOUGH:
        few = f"A reliability diagram needs at least {ENOUGH} held-out {word(found.items)}, and there are {n}."
        return section(title, f"{words}<p>{few}</p>")
    words += (
        f"<p>On the {n} held-out {word(found.items)}, probability and share of right guesses are on average "
        f"{distance} apart (expected calibration error). Points on the diagonal mean what they say; larger points "
        f"stand for more {word(found.items)}.</p>"
    )
    return section(title, words + figure_grid([pictures.reliability_diagram(before, after)]))


def _training(found: Findings) -> str:
    title = "How training went"
    if not found.history:
        return section(title, "<p>There are no learning curves: this model is not trained step by step.</p>")
    words = []
    if found.seeding:
        words.append(f"Before these, {found.seeding:,} updates trained the network on labels that a graph guessed.")
    drawn = [pictures.losses(found.history), pictures.validation(found.history), pictures.certainty(found.history)]
    items, n_unlabeled = word(found.items), len(found.names)
    if drawn[1] is None:
        words.append("No validation error was logged: --valid was not given.")
    elif found.n_valid < ENOUGH:
        drawn[1] = None
        words.append(
            f"The validation error is not drawn: {found.n_valid} {word(found.items, found.n_valid)} are too few."
        )
    if drawn[2] is None:
        words.append(f"No certainty on unlabeled {items} was logged: there are none.")
    elif n_unlabeled < ENOUGH:
        drawn[2] = None
        words.append(
            f"The certainty on {n_unlabeled} unlabeled {word(found.items, n_unlabeled)} is not drawn: too few."
        )
    captions = (
        "Training losses",
        f"Error on validation {items}",
        f"How sure the network is of its guesses for unlabeled {items}, before calibration",
    )
    figures = [figure(picture, caption) for picture, caption in zip(drawn, captions, strict=True) if picture]
    text = "".join(f"<p>{shown(sentence)}</p>" for sentence in words)
    return section(title, text + figure_grid(figures))


def _origin(origin: dict[str, str]) -> str:
    items = "".join(f"<dt>{escape(key)}</dt><dd>{shown(value)}</dd>" for key, value in origin.items())
    return section("How this was made", f"<dl>{items}</dl>")
