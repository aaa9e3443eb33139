"""The labeling page in a real browser, used as a person would: by keyboard, by mouse, on a phone, in the dark.

With ICT_SCREENSHOTS=docs/img the slow test writes the pictures of docs/labeling.md.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from sklearn.datasets import load_digits

from ict.data.user.answers import last_answers, read_answers
from tests.browser import CHROMIUM
from tests.label_server import PATIENCE, Server, color_photos, label_server

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium was found: apt-get install chromium"),
    pytest.mark.xdist_group("browser"),
]
DIGITS = "1234567890"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Person:
    """Somebody at the page who knows the true labels. `complaints` are the console's, `requests` what was asked for."""

    def __init__(self, browser: Browser, server: Server, truth: dict[str, str], names: list[str]) -> None:
        self.page: Page = browser.new_page(viewport={"width": 1200, "height": 840})
        self.page.set_default_timeout(1000 * PATIENCE)
        self.truth, self.names, self.port = truth, names, server.port
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(server.address)
        self.wait("state !== null && ready")

    def wait(self, condition: str) -> None:
        self.page.wait_for_function(f"() => {condition}")

    def value(self, expression: str) -> Any:
        return self.page.evaluate(expression)

    @property
    def name(self) -> str:
        """Of the example on the screen."""
        return self.names[int(self.page.get_attribute("#example", "data-row") or "")]

    def press(self, *keys: str) -> None:
        """Press keys one after the other; wait until what the last one did is on the screen."""
        for key in keys:
            self.page.keyboard.press(key)
            self.wait("!busy")

    def answer(self, label: str | None = None) -> str:
        """Label the example by keyboard, by default with the truth, and wait for the next; its name."""
        name = self.name
        label = label or self.truth[name]
        classes = [one["name"] for one in self.value("state.classes")]
        if label in classes:
            self.page.keyboard.press(DIGITS[classes.index(label)])
        else:
            self.page.keyboard.press("n")
            self.page.keyboard.type(label)
            self.page.keyboard.press("Enter")
        self.wait(f"!busy && ready && current() && current().name !== {name!r}")
        return name

    def shoot(self, name: str) -> None:
        """Write a picture of the page for the docs, if they are wanted."""
        if folder := os.environ.get("ICT_SCREENSHOTS"):
            path = Path(folder) / f"label-{name}.png"
            self.page.screenshot(path=path, animations="disabled")
            with Image.open(path) as image:
                image.quantize(48).save(path, optimize=True)

    def assert_quiet(self) -> None:
        """Nothing was said on the console, and nothing was asked of anybody else."""
        assert self.complaints == []
        assert {urlsplit(url).netloc for url in self.requests} == {f"127.0.0.1:{self.port}"}

    def assert_accessible(self) -> None:
        found = Axe().run(self.page)
        assert found.violations_count == 0, found.generate_report()


def counting(path: Path) -> dict[str, tuple[str, str]]:
    """The label and the kind that count, by example."""
    return {name: (one.label, one.kind) for name, one in last_answers(read_answers(path)[0]).items()}


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_person_labels_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    truth = color_photos(tmp_path / "photos", 75)
    file = tmp_path / "labels.csv"
    with label_server("photos", "--backbone", "none", folder=tmp_path) as server:
        person = Person(browser, server, truth, names_in(tmp_path / "photos"))
        kind = person.value("current().kind")
        done = [person.answer()]
        assert counting(file)[done[0]] == (truth[done[0]], kind)
        person.wait("state.learning.stage === 'waiting'")
        done += [person.answer() for _ in range(11)]
        assert {name: label for name, (label, _) in counting(file).items()} == {name: truth[name] for name in done}

        wrong = person.answer(next(color for color in ("red", "green", "blue") if color != truth[person.name]))
        person.press("ArrowLeft")
        person.wait(f"looking && looking.name === {wrong!r} && ready")
        person.press(DIGITS[[one["name"] for one in person.value("state.classes")].index(truth[wrong])])
        assert counting(file)[wrong][0] == truth[wrong] and person.value("looking") is None

        last = person.answer()
        person.press("Backspace")
        person.wait(f"current().name === {last!r}")
        assert counting(file)[last] == ("", "undo")
        person.press("f")
        person.wait(f"current().name !== {last!r}")
        skipped = person.name
        person.press("Space")
        assert counting(file)[last][1] == "flag" and counting(file)[skipped][1] == "skip"

        person.wait("state.groupGuess && state.learning.stage === 'waiting'")
        person.press("g")
        guess, group = person.value("[state.groupGuess.label, state.group.map(one => one.name)]")
        person.page.click("#thumbs button >> nth=1")
        person.press("Enter")
        person.wait(f"state.group.every(one => one.name !== {group[0]!r})")
        accepted = {name for name, (label, _) in counting(file).items() if name in group and label == guess}
        assert accepted == {group[0], *group[2:]}

        before = counting(file)
        person.page.check("#guesses")
        person.page.reload()
        person.wait("state !== null")
        assert person.page.is_checked("#guesses")
        assert person.value("state.answered") == sum(kind in ("suggested", "random") for _, kind in before.values())
        person.assert_accessible()
        person.assert_quiet()
        person.page.close()


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Handwritten digits as photos."""
    folder = tmp_path_factory.mktemp("digits")
    (folder / "photos").mkdir()
    found, truth = load_digits(), {}
    for i, (pixels, target) in enumerate(zip(found.images[:400], found.target[:400], strict=True)):
        image = Image.fromarray((255 - pixels * 15.9).astype("uint8")).resize((96, 96), Image.Resampling.BICUBIC)
        image.save(folder / f"photos/{i:03}.png")
        truth[f"{i:03}.png"] = str(target)
    return folder, truth


@pytest.mark.slow
def test_an_evening_with_digits(browser: Browser, digits: tuple[Path, dict[str, str]]) -> None:
    folder, truth = digits
    file, names = folder / "labels.csv", names_in(folder / "photos")
    words = ("photos", "--classes", ",".join(DIGITS), "--target", "0.8", "--port", "0")
    with label_server(*words, folder=folder) as server:
        person = Person(browser, server, truth, names)
        person.answer()
        person.assert_accessible()
        person.wait("state.learning.stage === 'waiting'")
        for _ in range(59):
            person.answer()
        assert len(counting(file)) == 60 == person.value("state.answered")
        person.wait("state.learning.stage === 'waiting' && state.estimate && state.groupGuess")
        person.page.check("#guesses")
        if person.value("current().kind") == "random":
            person.answer()
        person.wait("!document.getElementById('guess').hidden")
        person.shoot("one")

        person.press("ArrowLeft", "ArrowLeft")
        person.wait("looking && ready")
        person.assert_accessible()
        person.press("Escape", "g")
        person.wait("state.groupGuess")
        person.page.click("#thumbs button >> nth=2")
        person.shoot("grid")
        person.assert_accessible()
        person.press("Enter", "g")

        person.page.emulate_media(color_scheme="dark")
        person.wait("ready")
        person.assert_accessible()
        for scheme in ("dark", "light"):
            person.page.emulate_media(color_scheme=scheme)
            person.page.set_viewport_size({"width": 375, "height": 740})
            assert person.value("document.documentElement.scrollWidth") == 375, "it scrolls sideways"
            person.assert_accessible()
        person.shoot("phone")
        labels = {one["name"]: one["labels"] for one in person.value("state.classes")}
        seen = person.value(
            "[...document.querySelectorAll('#brief, #classes .n')].map(one => [one.textContent, one.offsetHeight > 0 &&"
            " one.getBoundingClientRect().bottom < innerHeight])"
        )
        low, high = (round(100 * person.value(f"state.estimate.{end}")) for end in ("low", "high"))
        accuracy = round(100 * person.value("state.estimate.accuracy"))
        assert seen == [[f"{accuracy} % ({low} to {high})", True], *([str(labels[name]), True] for name in DIGITS)]
        name = person.name
        person.page.click(f"#classes button[data-name='{truth[name]}']")
        person.wait(f"!busy && current().name !== {name!r}")
        assert counting(file)[name][0] == truth[name]
        low = [button for button in person.value(
            "[...document.querySelectorAll('#classes button, #actions button:not([hidden])')]"
            ".map(one => [one.textContent, one.getBoundingClientRect().height])"
        ) if button[1] < 40]  # fmt: skip
        assert low == [], "too low for a finger"
        person.assert_quiet()
        person.page.close()


@pytest.mark.slow
def test_a_killed_server_loses_nothing_and_its_tab_says_so(browser: Browser, tmp_path: Path) -> None:
    truth = color_photos(tmp_path / "photos", 60)
    file, names = tmp_path / "labels.csv", names_in(tmp_path / "photos")
    with label_server("photos", "--backbone", "none", folder=tmp_path) as server:
        person = Person(browser, server, truth, names)
        for _ in range(8):
            person.answer()
        before = counting(file)
        assert len(before) == 8
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(PATIENCE)
        shown = person.name
        person.press("1")
        person.wait("document.getElementById('problem').textContent.startsWith('The program is not running')")
        assert person.name == shown and counting(file) == before
        port = server.port
    with label_server("photos", "--backbone", "none", "--port", str(port), folder=tmp_path) as server:
        person.wait("document.getElementById('problem').textContent.startsWith('The program was started anew')")
        person.page.goto("about:blank")  # it asks and complains no more
        person.complaints.clear()
        person.page.goto(server.address)
        person.wait("state !== null && ready")
        assert person.value("state.answered") == 8 and person.name not in before
        assert person.value("document.getElementById('problem').hidden")
        person.answer()
        assert len(counting(file)) == 9
        person.assert_quiet()
        person.page.close()


@pytest.mark.slow
def test_two_tabs_share_one_session(browser: Browser, tmp_path: Path) -> None:
    truth = color_photos(tmp_path / "photos", 60)
    file, names = tmp_path / "labels.csv", names_in(tmp_path / "photos")
    with label_server("photos", "--backbone", "none", folder=tmp_path) as server:
        one, two = (Person(browser, server, truth, names) for _ in range(2))
        assert one.name == two.name
        first = one.answer()
        two.wait(f"current().name !== {first!r} && state.answered === 1")
        two.answer()
        one.wait("state.answered === 2")
        one.page.close()
        for _ in range(5):
            two.answer()
        assert {name: label for name, (label, _) in counting(file).items()} == {
            name: truth[name] for name in counting(file)
        }
        assert len(counting(file)) == 7
        two.assert_quiet()
        two.page.close()


@pytest.mark.slow
def test_texts_and_tables_are_read_and_names_run_nothing(browser: Browser, tmp_path: Path) -> None:
    script = "<script>document.title='taken over'</script><b>bold</b>"
    (tmp_path / "texts.csv").write_text("text\n" + "".join(f"{script} number {i}\n" for i in range(40)))
    (tmp_path / "rows.csv").write_text(
        "width,kind,day\n" + "".join(f"{i},{'ab'[i % 2]}{script},2026-01-{i % 28 + 1:02}\n" for i in range(40))
    )
    for words in (("texts.csv", "--text-column", "text", "--backbone", "tfidf"), ("rows.csv",)):
        labels = f"{words[0]}-labels.csv"
        with label_server(*words, "--labels", labels, "--classes", script, folder=tmp_path) as server:
            person = Person(browser, server, {}, [f"row {i + 1}" for i in range(40)])
            assert script in person.page.inner_text("#example")
            assert script in person.page.inner_text("#classes")
            person.answer(script)
            person.press("n")
            person.page.keyboard.type("other")
            person.press("Enter")
            person.wait("state.answered === 2")
            for _ in range(8):
                person.answer(script)
            person.wait("state.learning.stage === 'waiting'")
            person.press("g")
            person.assert_accessible()
            assert person.page.title() == "ict label" and person.page.query_selector("main b > b") is None
            assert person.value("document.scripts.length") == 1
            assert {label for label, _ in counting(tmp_path / labels).values()} == {script, "other"}
            person.assert_quiet()
            person.page.close()
