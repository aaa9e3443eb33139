"""The report of a search: its numbers and names, and how it looks in a real browser."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from ict.studies.report import search_page
from ict.studies.report_figures import _height, heat_map
from tests.browser import CHROMIUM, Page, browser

pytestmark = pytest.mark.xdist_group("browser")


class Tags(HTMLParser):
    """Every tag is closed in order, and nothing is loaded from elsewhere."""

    VOID = ("meta", "link")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.pictures: list[str] = []  # what they show
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "iframe", "object", "img", "image")
        assert all((value or "").startswith(("data:,", "#")) for name, value in attrs if name.endswith(("src", "href")))
        if tag == "svg":
            self.pictures.append(dict(attrs)["aria-label"] or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def made_up(space: dict[str, Any], params: list[dict[str, Any]], recipe: str = "t/ict") -> dict[str, Any]:
    """The content of a search.json; trial i has an error of (i + 1) percent, every third one ended early."""
    trials = [
        {
            "number": i,
            "outcome": "pruned" if i % 3 == 2 else "complete",
            "params": values,
            "valid_error": (i + 1) / 100,
            "valid_error_best": (i + 1) / 100,
            "step": 10,
            "seconds": 1.0,
            "resumed_from": [5] if i == 1 else [],
            "worker": {},
            "error": None,
        }
        for i, values in enumerate(params)
    ]
    origin = {"machine": "abacus", "finished": "2030-01-02T03:04:05+00:00", "mode": "exact", "chosen_on": "it"}
    return {
        "recipe": recipe,
        "sampler": "grid",
        "seed": 0,
        "prune": True,
        "space": space,
        "importances": dict.fromkeys(space, 1 / len(space)),
        "winner": {"number": 0, "params": params[0], "value": 0.01},
        "trials": trials,
        **origin,
    }


EVIL = "<script>alert('$x_$')</script>&"


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("ranges", [False, True])
def test_the_page_stands_alone_and_names_are_escaped(n: int, ranges: bool) -> None:
    keys = [f"{EVIL}{i}" for i in range(n)]
    one = {"scale": "log", "low": 1, "high": 4} if ranges else {"choices": [1.0, 2.0, EVIL, None]}
    values: list[Any] = [1.0, 2.0, 4.0, 3.0] if ranges else [1.0, 2.0, EVIL, None]
    text = search_page(made_up(dict.fromkeys(keys, one), [dict.fromkeys(keys, value) for value in values], EVIL))
    tags = Tags(text)
    words = " ".join(tags.words)
    assert len(tags.pictures) == (2 if n == 1 else 3) and all(tags.pictures)
    assert f"Search: {EVIL}" in words and "width=device-width" in text and "resumed at 5" in words
    assert not re.search(r"https?://", re.sub(r'xmlns(:xlink)?="[^"]+"', "", text))
    assert "default-src &#x27;none&#x27;" in text
    assert all(f"{e}.00 %" in words for e in (1, 2, 3, 4)) and "1 pruned" in words and "3 complete" in words


def test_the_heat_map_shows_each_cell_and_leaves_out_what_has_not_run() -> None:
    space = {"a": {"choices": [1.0, 2.0]}, "b": {"choices": ["x", "y", "z"]}}
    params = [{"a": a, "b": b} for a, b in ((2.0, "x"), (1.0, "z"), (1.0, "y"), (2.0, "x"))]
    rows = made_up(space, params)["trials"]
    drawn = ElementTree.fromstring(heat_map(rows, ["a", "b"], space, 0))
    places = {}
    for text in drawn.iter("{http://www.w3.org/2000/svg}text"):
        places[text.text] = np.array([float(text.get("x", "")), float(text.get("y", ""))])
    assert set(places) == {"a", "b", "x", "y", "z", "1", "2", "1.00", "2.00", "(3.00)"}
    for value, row, column in (("1.00", "2", "x"), ("2.00", "1", "z"), ("(3.00)", "1", "y")):
        assert abs(places[value][0] - places[column][0]) < 1 and abs(places[value][1] - places[row][1]) < 5


def test_heights_on_axes() -> None:
    assert _height(0.1, {"scale": "log", "low": 0.01, "high": 1.0}) == pytest.approx(0.5)
    assert _height(3, {"scale": "int", "low": 1, "high": 5}) == 0.5
    assert _height("y", {"choices": ["x", "y", "z"]}) == 0.5 and _height(7, {"choices": [7]}) == 0


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as opened:
        yield opened


CHOICES = {"choices": [0.1, 0.2, 0.5, 1.0]}
SPACES: dict[str, dict[str, Any]] = {
    "grid": {"train.weight": CHOICES, "algorithm.alpha": CHOICES},
    "one": {"train.weight": CHOICES},
    "many": {f"section{i}.a_long_name": CHOICES for i in range(7)},
}


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium")
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("width", [360, 1100])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_fits_its_window_in_light_and_dark(
    space: str, width: int, dark: bool, page: Page, tmp_path: Path
) -> None:
    params = [dict.fromkeys(SPACES[space], value) for value in CHOICES["choices"]]
    path = tmp_path / "report.html"
    path.write_text(search_page(made_up(SPACES[space], params, EVIL)), encoding="utf-8")
    page.complaints.clear()
    page.requests.clear()
    page.open(path, width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
    assert page.complaints == [] and [url for url in page.requests if not url.startswith("data:")] == [
        path.resolve().as_uri()
    ]
    body, ink = (page.evaluate(f"getComputedStyle(document.body).{key}") for key in ("backgroundColor", "color"))
    assert page.evaluate("getComputedStyle(document.querySelector('svg text')).fill") == ink
    brightness = [sum(map(int, re.findall(r"\d+", color)[:3])) for color in (body, ink)]
    assert (brightness[0] < 150 < 600 < brightness[1]) if dark else (brightness[1] < 150 < 600 < brightness[0])
