"""The line of progress: what it says at which time, where it is drawn, and the stages of a fit in their order."""

import io
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from ict import ICTClassifier
from ict.experiment import progress_line as module
from ict.experiment.progress_line import ProgressLine, progress_line
from tests.test_cli import ict
from tests.test_embed import NAME
from tests.test_front_door import SHORT, photos


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_says_the_stage_and_the_time_left() -> None:
    clock = Clock()
    line = ProgressLine(clock)
    assert str(line) == "starting; 0:00:00 so far"
    clock.now = 4
    line("reading photos", 0, 5000)
    clock.now = 14
    line("reading photos", 1000, 5000)  # 10 s for 1,000, so 40 s for the others; what follows is unknown
    assert str(line) == "reading photos 1,000 of 5,000; 0:00:14 so far, about 0:00:40 left of this stage"
    line.unit("comparing", 1, 9, "trees", then=1)
    clock.now = 34
    line.unit("comparing", 3, 9, "graph", then=1)
    assert line.words == "comparing 3 of 9: graph"
    assert line.times == "0:00:34 so far, about 0:01:20 left"  # two took 20 s; seven and the training are left
    line.part(0.5)
    clock.now = 39
    assert line.times == "0:00:39 so far, about 0:01:15 left"  # two and a half took 25 s
    line.unit("training", 1, 1, "graph")
    line.part(0.25)
    assert line.words == "training 25 %: graph"
    line("writing", 0, None)
    line.part(0.5)  # a stage of unknown length has no parts
    assert str(line) == "writing; 0:00:39 so far"


def test_a_stage_that_begins_again_forgets_its_pace() -> None:
    clock = Clock()
    line = ProgressLine(clock)
    line("features", 0, 10)
    clock.now = 100
    line("features", 10, 10)
    line("features", 0, 10)  # of the test examples
    clock.now = 102
    line("features", 5, 10)
    assert line.times.endswith("about 0:00:02 left of this stage")


@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_it_is_one_line_on_any_terminal(width: int) -> None:
    line = ProgressLine()
    line.unit("comparing", 11, 12, "anchored-graph, fold 3 of 3")
    written = io.StringIO()
    Console(file=written, width=width, force_terminal=True).print(module._row(line, width))
    assert written.getvalue().count("\n") == 1
    assert width < 80 or "anchored-graph" in written.getvalue()


def test_without_a_terminal_lines_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.EVERY == 5.0
    monkeypatch.setattr(module, "EVERY", 0.01)
    printed, waiting = io.StringIO(), threading.Event()

    def write(line: ProgressLine) -> None:
        printed.write(f"{line}\n")
        waiting.set()

    monkeypatch.setattr(module, "_print", write)
    with progress_line() as line:
        line("reading photos", 3, 10)
        assert waiting.wait(30), "though nobody tells it anything more"
    assert "reading photos 3 of 10; 0:00:00 so far\n" in printed.getvalue()
    monkeypatch.setattr(module, "_print", pytest.fail)
    with progress_line(shown=False):
        pass


def test_a_closed_stderr_ends_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = threading.Event()

    def broken(line: ProgressLine) -> None:
        tried.set()
        raise BrokenPipeError

    monkeypatch.setattr(module, "EVERY", 0.01)
    monkeypatch.setattr(module, "_print", broken)
    with progress_line() as line:
        assert tried.wait(30)
        line("writing")


def test_a_notebook_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """IPython's interface: `display(object, display_id=True)` returns a handle with `update(object)`."""
    shown: list[Any] = []
    handle = SimpleNamespace(update=shown.append)
    display = ModuleType("IPython.display")

    def show(bar: Any, display_id: bool) -> SimpleNamespace:
        assert display_id
        shown.append(bar)
        return handle

    display.display = show  # type: ignore[attr-defined]
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(module, "_OFTEN", 0.005)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.where(np.arange(60) < 20, np.arange(60) % 2, -1)
    ICTClassifier(steps=60, settings=("anchor.trees=5",), device="cpu", verbose=1).fit(X, y)
    said = [bar._repr_html_() for bar in shown]
    assert all(html.startswith("<progress") for html in said) and "starting" in said[0]
    assert any("training" in html and 'value="' in html for html in said)
    assert repr(shown[-1]).startswith("finished; 0:0") and 'value="1.000"' in said[-1]
    before = len(shown)
    ICTClassifier(steps=2, settings=("anchor.trees=5",), device="cpu").fit(X, y)
    assert len(shown) == before, "silent by default"


def test_a_fit_names_its_stages_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stages: list[str] = []
    told = ProgressLine._set

    def remembering(line: ProgressLine, name: str, **values: Any) -> None:
        told(line, name, **values)
        stages.append(line.words)

    monkeypatch.setattr(ProgressLine, "_set", remembering)
    assert ict(monkeypatch, "fit", photos(tmp_path / "in"), "--out", tmp_path / "m", "--backbone", NAME, *SHORT) == 0
    firsts = list(dict.fromkeys(words.split(" ")[0] for words in stages))
    assert firsts == ["opening", "reading", "features", "comparing", "training", "writing", "predicting"]
    compared = [words for words in stages if words.startswith("comparing")]
    assert compared[0].startswith("comparing 1 of 12: anchored, fold 1 of 3")
    assert [int(words.split(" ")[1]) for words in compared] == list(range(1, 13))
    assert ict(monkeypatch, "predict", tmp_path / "m", tmp_path / "in", "-o", tmp_path / "p.csv") == 0
    assert stages[-1] == "predicting 24 of 24"
