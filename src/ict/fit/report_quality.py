"""The first part of a report: how good the model is, beside the best of the other kind, and all candidates."""

import numpy as np

from ict.data.user.remarks import word
from ict.estimators.candidates import DESCRIPTIONS, uses_unlabeled
from ict.estimators.metrics import Metric, in_words
from ict.fit.findings import ENOUGH, Findings
from ict.fit.holdout import Score, score
from ict.report.page import section, shown, table


def header(found: Findings) -> str:
    """The headline, with the number that matters, and the tiles below it."""
    headline, words = _headline(found)
    tiles = "".join([_model(found), _rival(found), _trained_on(found)])
    small = f"<p>{shown(found.small_test)}</p>" if found.small_test else ""
    return (
        f'<header><p class="kicker">ict fit</p><h1>{headline}</h1><p>{words}</p>{small}'
        f'<div class="tiles">{tiles}</div></header>'
    )


def candidates(found: Findings) -> str:
    """Every candidate's score on every fold."""
    title, scores = "All candidates", found.judged.scores
    if len(scores) < 2:
        return section(title, "<p>Nothing was compared: one method was fitted.</p>")
    rows = []
    for name, folds in scores.items():
        chosen = " (chosen)" if name == found.judged.method else ""
        row = [shown(name + chosen), shown(DESCRIPTIONS[name]), "yes" if uses_unlabeled(name) else "no"]
        mean = in_words(found.metric, float(np.mean(folds)))
        rows.append([*row, mean, ", ".join(in_words(found.metric, value) for value in folds)])
    metric = metric_name(found.metric)
    words = (
        f"<p>{metric.capitalize()} on folds of the labeled {word(found.items)}. The first candidate is chosen "
        "unless another is better by more than chance explains; the chosen one is then trained on all labels."
        f"{_shorter(found)}</p>"
    )
    columns = ["candidate", "what it is", f"uses unlabeled {word(found.items)}", metric, "fold by fold"]
    marked = list(scores).index(found.judged.method) if found.judged.method in scores else None
    return section(title, words + table(columns, rows, "pairs stacked", marked))


def metric_name(metric: Metric) -> str:
    return metric.replace("_", " ")


def _headline(found: Findings) -> tuple[str, str]:
    """The headline and what the number rests on."""
    held_out, estimate = found.held_out, found.judged.estimate
    if held_out is None:
        return "The accuracy was not measured", f"{shown(found.no_test).capitalize()}."
    name = metric_name(found.metric).capitalize()
    n = len(held_out.labels)
    if found.tested or estimate is None:
        result = score(held_out.probs, held_out.labels)
        low, high = result.interval
        words = f"{result.right} of {n} held-out labels right; 95 % interval {low:.1%} to {high:.1%}."
        return f"Accuracy {result.accuracy:.1%}", words
    words = (
        f"{shown(str(estimate).capitalize())}: each of these {word(found.items, n)} was predicted by a model "
        f"that was not trained on its label.{_shorter(found)}"
    )
    return f"{name} {in_words(found.metric, estimate.value)}", words


def _model(found: Findings) -> str:
    title = f"This model: {shown(found.judged.method)}"
    held_out, estimate = found.held_out, found.judged.estimate
    if held_out is None:
        return tile(title, "not measured", shown(found.no_test))
    if found.tested or estimate is None:
        return _measured(title, score(held_out.probs, held_out.labels), "of the test")
    return _estimated(title, found, estimate.value, estimate.low, estimate.high)


def _rival(found: Findings) -> str:
    rival = found.judged.rival
    if rival is None:
        return ""
    kind = f"using the unlabeled {word(found.items)}" if uses_unlabeled(rival.method) else "of the labels alone"
    title = f"The best model {kind}: {shown(rival.method)}"
    return _estimated(title, found, rival.estimate.value, rival.estimate.low, rival.estimate.high)


def _estimated(title: str, found: Findings, value: float, low: float, high: float) -> str:
    """A tile with an estimate from folds. The log loss has its sign changed, so that higher is better."""
    n = 0 if found.judged.estimate is None else found.judged.estimate.n
    scale = (low, high) if found.metric == "log_loss" else (0.0, 1.0)
    picture = interval(low, value, high, *scale) if n >= ENOUGH else ""
    ends = [in_words(found.metric, end) for end in ((high, low) if found.metric == "log_loss" else (low, high))]
    return tile(title, in_words(found.metric, value), f"{ends[0]} to {ends[1]} in folds", picture)


def _measured(title: str, result: Score, of: str) -> str:
    low, high = result.interval
    picture = interval(low, result.accuracy, high, 0, 1) if result.n >= ENOUGH else ""
    words = f"{low:.1%} to {high:.1%}, on {result.n} {'label' if result.n == 1 else 'labels'} {of}"
    return tile(title, f"{result.accuracy:.1%}", words, picture)


def _trained_on(found: Findings) -> str:
    n_labeled, n_unlabeled = int(found.labeled.sum()), len(found.names)
    words = f"labeled and {n_unlabeled:,} unlabeled {word(found.items, n_unlabeled)}, in {len(found.classes)} classes"
    return tile("Trained on", f"{n_labeled:,}", words)


def _shorter(found: Findings) -> str:
    return " In folds, networks of pixels got a quarter of their updates." if found.judged.shorter else ""


def tile(title: str, value: str, words: str, picture: str = "") -> str:
    return f'<div class="tile"><h2>{title}</h2><p class="value">{value}</p>{picture}<p class="words">{words}</p></div>'


def interval(low: float, value: float, high: float, least: float, most: float, mark: float | None = None) -> str:
    """A value with its interval on a line, and a mark to compare it with."""

    def at(number: float) -> float:
        return 5 + 190 * (min(max(number, least), most) - least) / (most - least)

    label = f"{value:.3f}, interval {low:.3f} to {high:.3f}"
    tick = "" if mark is None else f'<line class="mark" x1="{at(mark):.1f}" x2="{at(mark):.1f}" y1="0" y2="12"/>'
    return (
        f'<svg class="interval" viewBox="0 0 200 12" role="img" aria-label="{label}">'
        f'<line class="track" x1="5" x2="195" y1="6" y2="6"/>{tick}'
        f'<line class="span" x1="{at(low):.1f}" x2="{at(high):.1f}" y1="6" y2="6"/>'
        f'<circle cx="{at(value):.1f}" cy="6" r="4.5"/></svg>'
    )
