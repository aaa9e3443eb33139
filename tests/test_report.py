"""The report as a document: what it says, that names stay names, and what it says when something is missing."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from torch import nn

from ict.estimators.auto import HeldOutProbs, Judged, Rival
from ict.estimators.calibrate import Calibration, uncalibrated
from ict.estimators.verdict import Estimate, Verdict
from ict.experts.temperature import tempered
from ict.fit.findings import Example, Findings, Mistake
from ict.fit.label_next import suggest
from ict.fit.report import report
from ict.models.trained_network import TrainedNetwork

HOSTILE = (
    "<script>alert(1)</script>",
    "\"quoted\" 'twice'",
    "salt & <b>pepper</b>",
    "$x_1$ costs 5$",
    "very long " + "x" * 300,
    "tab\tand\x00null\x1b[31m",
    "turned \u202egnp.exe",
    "half \udcff a character",
    "]]><!-- --></style>",
    "id=\"losses-figure_1\" style='color:#000003'",
)
SHOWN = [re.sub("[\x00-\x1f\u202e\udcff]", "\ufffd", name) for name in HOSTILE]


def findings(n_classes: int = 10, n_test: int = 60, n_unlabeled: int = 80, images: bool = True) -> Findings:
    """A report's facts, made up; every name is hostile."""
    rng = np.random.default_rng(0)
    classes = tuple(HOSTILE[i % 10] + (f" {i}" if i >= 10 else "") for i in range(n_classes))
    labels = rng.integers(0, n_classes, n_test)
    test_probs = softmax(rng.normal(size=(n_test, n_classes)) + 4 * np.eye(n_classes)[labels], axis=1)
    probs = softmax(3 * rng.normal(size=(n_unlabeled, n_classes)), axis=1)
    pixels = rng.integers(0, 256, (max(n_unlabeled, 1), 12, 12, 3), dtype=np.uint8)
    history = [
        {"step": s, "lr": 0.1, "w": 1.0, "seconds": 1.0, "loss": 2 / s, "supervised": 1 / s, "consistency": 0.01}
        | {"valid_error_student": 0.3, "valid_error_teacher": 0.2, "confidence": 0.5 + s / 1000}
        for s in range(10, 310, 10)
    ]
    held_out = HeldOutProbs(test_probs, tempered(test_probs, 1.7), labels)
    judged = Judged(
        "anchored",
        TrainedNetwork(nn.Linear(1, 2), 1, {}, 0),
        remark="anchored was chosen.",
        calibration=Calibration(1.7, "Probabilities are calibrated."),
        scores={"anchored": [0.8, 0.9, 0.7], "logistic": [0.6, 0.7, 0.5]},
        estimate=Estimate("accuracy", 0.8, 0.7, 0.9, n_test),
        rival=Rival("logistic", Estimate("accuracy", 0.6, 0.5, 0.65, n_test)),
        verdict=Verdict("accuracy", 0.117, 0.02, 0.2, "helped", "anchored", "logistic"),
    )
    names = [f"{HOSTILE[i % 10]}/{i}.png" for i in range(n_unlabeled)]

    def example(row: int) -> Example:
        return Example(names[row], pixels[row] if images else None, "" if images else HOSTILE[row % 10])

    return Findings(
        judged=judged,
        compared=True,
        metric="accuracy",
        items="photos" if images else "texts",
        classes=classes,
        labeled=np.full(n_classes, 4),
        held_out=held_out if n_test else None,
        tested=True,
        no_test="a class has too few labels",
        history=history,
        seeding=50,
        names=names,
        probs=probs,
        example=example,
        n_valid=60,
        mistakes=[Mistake(example(i), 0, 1, 0.9) for i in range(min(n_unlabeled, n_test, 3))],
        again="ict fit '<i>' --labels next.csv",
        suggestions=suggest(probs, lambda rows: rng.normal(size=(len(rows), 3)), 0),
        remarks=HOSTILE,
        origin={"command": "ict fit '<script>alert(2)</script>' --out $x$", "seed": "0"},
    )


def bare() -> Findings:
    """All that can be missing is."""
    found = findings(3, n_test=0, n_unlabeled=0, images=False)
    judged = Judged("ict", found.judged.model, calibration=uncalibrated("there are too few labels"))
    return replace(found, judged=judged, history=(), seeding=0, remarks=(), compared=False)


class Reader(HTMLParser):
    """Texts, tags, identifiers and attributes, by Python's own parser."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.ids += [value or "" for key, value in attrs if key == "id"]

    handle_startendtag = handle_starttag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_names_are_texts_and_nothing_else() -> None:
    read = Reader(report(findings()))
    assert "script" not in read.tags and "b" not in read.tags and "script" not in {t.lower() for t in read.tags}
    for name in SHOWN:
        assert len(name) > 80 or name in read.texts, f"{name} is not shown as it is"
        assert any(value is not None and name in value for key, value in read.attributes if key == "title")
        assert any(value is not None and name in value for key, value in read.attributes if key == "alt")
    events = [key for key, _ in read.attributes if key.startswith("on")]
    assert not events and len(read.ids) == len(set(read.ids)) and len(read.ids) > 20


def test_the_page_loads_nothing() -> None:
    page = report(findings())
    read = Reader(page)
    addresses = [value or "" for key, value in read.attributes if key in ("src", "href", "xlink:href", "srcset")]
    assert addresses and all(a.startswith(("data:", "#")) for a in addresses)
    assert "default-src &#x27;none&#x27;" in page and "script-src" not in page
    urls = re.findall(r"url\(([^)]*)\)", page)
    assert urls and all(url.startswith("#") for url in urls)
    assert all(url[1:] in read.ids for url in urls), "clip paths are those of the same picture"


def text(page: str) -> str:
    return " ".join(" ".join(Reader(page).texts).split())


def test_numbers_are_those_of_the_findings() -> None:
    found = findings()
    said = text(report(found))
    assert found.held_out is not None
    right = int((found.held_out.probs.argmax(1) == found.held_out.labels).sum())
    assert f"{right} of 60 held-out labels right" in said
    assert "The unlabeled photos helped" in said and "+11.7 points of accuracy" in said
    best = found.probs.max(1)
    least = int(best.argmin())
    assert f"{best[least]:.0%}" in said
    counts = np.bincount(found.probs.argmax(1), minlength=10)
    rows = re.findall(r"<tr><td data-label=\"class\"><span class=\"name\" .*?</tr>", report(found))
    last = [re.findall(r"<td[^>]*>([^<]*)</td>", row)[-1] for row in rows]
    assert last == [str(count) for count in counts], "how many unlabeled examples were guessed as each class"


@pytest.mark.parametrize("n_classes", [2, 100])
def test_the_confusion_table_has_every_count_in_its_place(n_classes: int) -> None:
    found = findings(n_classes, n_test=300)
    page = report(found)
    body = page[page.index('<table class="matrix">') : page.index("</table>", page.index('<table class="matrix">'))]
    rows = re.findall(r"<tr>(.*?)</tr>", body)[1:]
    cells = [[int(c or 0) for c in re.findall(r"<td[^>]*>(\d*)</td>", row)] for row in rows]
    expected = np.zeros((n_classes, n_classes), dtype=int)
    assert found.held_out is not None
    for label, guess in zip(found.held_out.labels, found.held_out.probs.argmax(1), strict=True):
        expected[label, guess] += 1
    assert cells == expected.tolist()
    listed = re.findall(
        r'<tr><td data-label="true class"><span[^>]*>[^<]*</span></td>'
        r"<td[^>]*><span[^>]*>[^<]*</span></td><td[^>]*>(\d+)</td>",
        page,
    )
    mistakes = sorted((expected - np.diag(np.diag(expected))).ravel().tolist(), reverse=True)
    assert [int(n) for n in listed] == ([n for n in mistakes[:10] if n] if n_classes > 2 else [])


def test_what_is_missing_is_told() -> None:
    said = text(report(bare()))
    for sentence in (
        "That was not measured.",
        "--method auto",
        "not measured",
        "No precision or recall: a class has too few labels.",
        "no table of confusions: a class has too few labels.",
        "no reliability diagram: a class has too few labels.",
        "There are no learning curves",
        "there is no unlabeled text",
        "Nothing stood out",
        "There are none.",
        "not calibrated",
    ):
        assert sentence in said, sentence


def test_some_of_it_missing() -> None:
    found = findings(images=False)
    quiet: list[Any] = [{k: v for k, v in record.items() if k in ("step", "loss")} for record in found.history]
    unsure = replace(found.judged, verdict=None, remark="No folds were compared, since: <i>x</i>.")
    said = text(report(replace(found, history=quiet, judged=unsure)))
    assert "No validation error was logged: --valid was not given." in said
    assert "No certainty on unlabeled texts was logged" in said
    assert "That is not known." in said and "since: <i>x</i>." in said
    assert "<img" not in report(found) and "Least certain" in said
    one = findings(2, n_test=1, n_unlabeled=1)
    assert "Least certain" in text(report(one)) and "Most certain" not in text(report(one))
    cannot = replace(found.judged, verdict=Verdict("accuracy", 0.05, -0.1, 0.2, "cannot tell", "anchored", "logistic"))
    said = text(report(replace(found, judged=cannot)))
    assert "Cannot tell whether the unlabeled texts helped" in said and "+5.0" not in said, "no gain is printed"


def test_every_candidate_and_the_accuracy_of_folds_are_shown() -> None:
    found = replace(findings(), tested=False)
    said = text(report(found))
    assert "anchored (chosen)" in said and "80.0%, 90.0%, 70.0%" in said and "60.0%, 70.0%, 50.0%" in said
    assert "Accuracy 80.0% on 60 labels held out in folds (95 % interval 70.0% to 90.0%)" in said
    assert "quarter of their updates" not in said
    assert "quarter of their updates" in text(report(replace(found, judged=replace(found.judged, shorter=True))))


def test_it_answers_in_the_order_of_the_questions() -> None:
    page = report(replace(findings(), tested=False))
    titles = re.findall(r"<h[12]>(.*?)</h[12]>", page)
    assert titles == [
        "Accuracy 80.0%",
        "This model: anchored",
        "The best model of the labels alone: logistic",
        "Trained on",
        "All candidates",
        "What to do next",
        "Where it is wrong",
        "Whether the unlabeled photos helped",
        "Remarks on the data",
        "Whether probabilities can be believed",
        "How training went",
        "The unlabeled photos",
        "How this was made",
    ]
    assert "60.0%" in text(page) and "50.0% to 65.0% in folds" in text(page)
    assert "labeled " + SHOWN[0] + " , taken for " + SHOWN[1] + " (90%)" in text(page)
    assert "Then run ict fit '<i>' --labels next.csv" in text(page)


@pytest.mark.parametrize(("n", "drawn"), [(29, 1), (30, 6)])
def test_no_chart_is_drawn_of_fewer_than_30(n: int, drawn: int) -> None:
    """The losses are of batches of training; the interval of the gain is the verdict's own."""
    found = replace(findings(2, n_test=n, n_unlabeled=n), tested=False, n_valid=n)
    page = report(found)
    charts = re.findall(r'aria-label="([^"]*)"', page[: page.index("Whether the unlabeled")]) + re.findall(
        r'aria-label="([^"]*)"', page[page.index("Remarks on the data") :]
    )
    assert len(charts) == drawn
    if n < 30:
        assert charts == ["Training losses over updates"]
        said = text(page)
        assert "A reliability diagram needs at least 30 held-out photos, and there are 29" in said
        assert "29 photos are too few" in said and "29 unlabeled photos is not drawn" in said


def test_the_same_findings_make_the_same_page() -> None:
    assert report(findings()) == report(findings())
