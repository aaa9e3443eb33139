"""The report in a real browser: it is drawn, whole, quiet, fits a phone, and no name in it does anything."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ict.estimators.auto import Rival
from ict.estimators.verdict import Estimate
from ict.fit.findings import Findings
from ict.fit.report import report
from tests.browser import CHROMIUM, Page, browser
from tests.test_report import SHOWN, bare, findings

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium was found: apt-get install chromium"),
    pytest.mark.xdist_group("browser"),
]
WIDTHS = (360, 1100)
CASES = {
    "images": findings(),
    "rows": findings(n_unlabeled=30, images=False),
    "two classes": findings(2),
    "many classes": findings(100, n_test=400),
    "nothing": bare(),
}


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as opened:
        yield opened


def opened(page: Page, folder: Path, found: Findings, width: int = 1100, dark: bool = False) -> Page:
    path = folder / "report.html"
    path.write_text(report(found), encoding="utf-8")
    page.complaints.clear()
    page.requests.clear()
    page.open(path, width, dark=dark)
    return page


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_drawn_within_its_width_and_complains_of_nothing(
    case: str, width: int, page: Page, tmp_path: Path
) -> None:
    opened(page, tmp_path, CASES[case], width)
    assert page.evaluate("document.documentElement.clientWidth") == width
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
    wide = page.evaluate(
        f"[...document.querySelectorAll('main *')].filter(e => !e.closest('.box *') && "
        f"e.getBoundingClientRect().right > {width} + 1).map(e => e.outerHTML.slice(0, 80))"
    )
    assert wide == []
    assert page.complaints == []
    others = [url for url in page.requests if not url.startswith(("data:", "file:"))]
    files = [url for url in page.requests if url.startswith("file:")]
    assert others == [] and len(files) == 1


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_clipped_on_a_phone(case: str, page: Page, tmp_path: Path) -> None:
    """No element hides a part of its text; only the table of confusions, with a column for each class, may scroll."""
    opened(page, tmp_path, CASES[case], 360)
    clipped = page.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => getComputedStyle(e).overflow !== 'visible' && "
        "(e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1) && "
        "!e.querySelector('.matrix')).map(e => e.outerHTML.slice(0, 120))"
    )
    assert clipped == []
    assert page.evaluate("[...document.querySelectorAll('.name')].every(e => e.scrollHeight <= e.clientHeight + 1)")


def test_a_desktop_is_used(page: Page, tmp_path: Path) -> None:
    opened(page, tmp_path, CASES["images"], 1500)
    left, right = "getBoundingClientRect().left", "getBoundingClientRect().right"
    extent = f"Math.max(...[...document.querySelectorAll('.cards *, .beside *')].map(e => e.{right}))"
    assert page.evaluate(extent) > 1350
    columns = f"new Set([...document.querySelectorAll('.beside > *')].map(e => e.{left})).size"
    assert page.evaluate(columns) == 2, "classes and confusions stand beside each other"


def test_a_perfect_score_is_drawn_whole(page: Page, tmp_path: Path) -> None:
    found = findings()
    perfect = replace(found.judged, rival=Rival("logistic", Estimate("accuracy", 1.0, 0.9, 1.0, 60)))
    opened(page, tmp_path, replace(found, judged=perfect))
    dots = page.evaluate(
        "[...document.querySelectorAll('.interval circle')].map(c => [c.cx.baseVal.value + c.r.baseVal.value, "
        "c.ownerSVGElement.viewBox.baseVal.width])"
    )
    assert max(right for right, _ in dots) > 195 and all(right <= width for right, width in dots)


@pytest.mark.parametrize("width", WIDTHS)
def test_every_picture_has_a_size(width: int, page: Page, tmp_path: Path) -> None:
    opened(page, tmp_path, CASES["images"], width)
    natural = page.evaluate("[...document.images].map(i => [i.complete, i.naturalWidth, i.naturalHeight])")
    assert len(natural) == 12 + 3 + 24 + 24 and all(image == [True, 12, 12] for image in natural)
    sizes = page.evaluate(
        "[...document.querySelectorAll('svg')].map(s => [s.getBoundingClientRect().width, "
        "s.getBoundingClientRect().height, s.querySelectorAll('path, line, circle').length])"
    )
    assert len(sizes) == 7, "three intervals, a reliability diagram and three curves"
    assert all(w > 100 and h > 5 and parts >= 3 for w, h, parts in sizes)


def test_names_are_read_as_they_are_and_run_nothing(page: Page, tmp_path: Path) -> None:
    opened(page, tmp_path, CASES["images"])
    seen = page.evaluate("[...document.querySelectorAll('.name')].map(e => e.textContent)")
    for name in SHOWN:
        assert len(name) > 80 or name in seen
    assert page.evaluate("document.scripts.length") == 0
    assert page.evaluate("document.querySelectorAll('b').length") == 0
    assert page.complaints == []


def test_the_policy_stops_what_escaping_would_miss(page: Page, tmp_path: Path) -> None:
    """Were a script ever in the page, it would not run: the oracle is the browser's own complaint."""
    path = tmp_path / "broken.html"
    content = report(CASES["nothing"]).replace("<main>", "<main><script>document.title = 'taken over'</script>")
    path.write_text(content, encoding="utf-8")
    page.complaints.clear()
    page.open(path)
    assert page.evaluate("document.title") == "ict fit: report"
    assert any("Content Security Policy" in complaint for complaint in page.complaints)


def contrast(page: Page, selector: str) -> float:
    """WCAG's contrast of an element's color with the page's background."""
    key = "fill" if selector.endswith("text") else "color"
    text = page.evaluate(f"getComputedStyle(document.querySelector({selector!r})).{key}")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")

    def luminance(color: str) -> float:
        parts = [float(v) / 255 for v in color[color.index("(") + 1 : -1].split(",")[:3]]
        r, g, b = (v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    light, dark = sorted((luminance(text), luminance(background)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_text_is_readable_on_light_and_on_dark(dark: bool, page: Page, tmp_path: Path) -> None:
    opened(page, tmp_path, CASES["images"], dark=dark)
    for selector in ("h1", ".words", "figcaption", "thead th", ".figures svg text"):
        assert contrast(page, selector) > 4.5, selector
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(22, 24, 27)" if dark else "rgb(252, 252, 250)")
