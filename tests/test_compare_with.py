"""`ict fit --compare-with MODEL`: what is said about an earlier model is what both folders hold, and changes no bit."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from ict.base.errors import UserError
from ict.estimators.verdict import HeldOut, bonett_price, difference
from ict.fit.earlier import Earlier, OneHeldOut, compare, read_earlier
from tests.test_classifier import blobs
from tests.test_cli import ict

SHORT = ("--method", "mean-teacher", "--steps", "40", "--device", "cpu")
NAMES = np.array(["ant", "bee", "cow"])
HEADER = ["example", "label", "guess", "p(label)", "digest"]


def folder_of_rows(folder: Path, per_class: int = 12) -> Any:
    """A table with few labels; returns the true class of every row."""
    pytest.importorskip("pandas")
    X, y, truth = blobs(per_class=per_class)
    with (folder / "data.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"f{i}" for i in range(6)), "label"])
        writer.writerows([*row, NAMES[label] if label >= 0 else ""] for row, label in zip(X, y, strict=True))
    return NAMES[truth]


def fill_in(path: Path, truth: Any, n: int) -> None:
    """The first `n` labels of a next.csv, as a person writes them."""
    rows = list(csv.DictReader(path.read_text().splitlines()))
    for row in rows[:n]:
        row["label"] = truth[int(row["example"].removeprefix("row ")) - 1]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_second_fit_says_what_changed(
    working: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = folder_of_rows(working)
    assert ict(monkeypatch, "fit", "data.csv", "--json", *SHORT) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["compared_with"] is None and first["labels"] == dict.fromkeys(NAMES, 12)
    fill_in(Path("model/next.csv"), truth, 20)
    again = ("--labels", "model/next.csv", "--compare-with", "model")
    assert ict(monkeypatch, "fit", "data.csv", "--out", "second", *again, *SHORT) == 0
    said = capsys.readouterr().out
    assert ict(monkeypatch, "fit", "data.csv", "--out", "third", "--json", *again, *SHORT) == 0
    result = json.loads(capsys.readouterr().out)
    change = result["compared_with"]
    assert "against model: 20 labels added (" in said and "36 before and 56 now" in said
    assert all(line in said for line in change["words"])
    assert (change["labels_before"], change["labels_now"], change["common"], change["changed"]) == (36, 56, 36, 0)
    assert sum(change["added"].values()) == 20
    assert change["added"] == {name: result["labels"][name] - 12 for name in NAMES}
    assert change["before"] == first["measured"] and change["now"] == result["measured"]
    right = {name: held_out(Path(name)) for name in ("model", "third")}
    assert len(right["model"]) == 36 and len(right["third"]) == 56
    both = right["model"].keys() & right["third"].keys()
    assert len(both) == 36
    assert change["common_before"] == pytest.approx(np.mean([right["model"][name] for name in both]))
    assert change["common_now"] == pytest.approx(np.mean([right["third"][name] for name in both]))
    assert change["gain"] == pytest.approx(change["common_now"] - change["common_before"])
    assert change["low"] <= change["gain"] <= change["high"]
    assert (change["answer"] == "within noise") == (change["low"] <= 0 <= change["high"])
    page = Path("second/report.html").read_text()
    assert "What changed against model" in page and page.index("What changed") < page.index("All candidates")
    assert "36 before and 56 now" in page and "--compare-with second" in page
    options = f"--labels model/next.csv {' '.join(SHORT)} --labels second/next.csv"
    assert f"<code>ict fit data.csv {options} --out second-2 --compare-with second</code>" in page


def held_out(model: Path) -> dict[str, bool]:
    """Whether each held-out example was right, as the folder's file says."""
    lines = list(csv.DictReader((model / "held_out.csv").read_text().splitlines()))
    return {line["example"]: line["label"] == line["guess"] for line in lines}


def test_what_was_there_before_changes_no_bit(
    working: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder_of_rows(working)
    assert ict(monkeypatch, "fit", "data.csv", "--out", "a", *SHORT) == 0
    assert ict(monkeypatch, "fit", "data.csv", "--out", "b", "--compare-with", "a", *SHORT) == 0
    monkeypatch.setenv("ICT_CACHE", str(tmp_path_factory.mktemp("other")))
    assert ict(monkeypatch, "fit", "data.csv", "--out", "c", *SHORT) == 0
    for name in ("model.safetensors", "predictions.csv", "next.csv", "held_out.csv"):
        contents = {Path(folder, name).read_bytes() for folder in ("a", "b", "c")}
        assert len(contents) == 1, name


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--compare-with", "nowhere"), "nowhere holds no model"),
        (("--compare-with", "other"), "has other classes, x, y"),
        (("--compare-with", "damaged"), "held_out.csv cannot be read"),
        (("--compare-with", "odd"), "odd"),
        (("--compare-with", "other", "--suggest", "5", "--out", "next.csv"), "leave out --compare-with"),
    ],
)
def test_mistakes_are_sentences(
    working: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: Any, says: str
) -> None:
    folder_of_rows(working)
    for name, about in (("other", {"labels": {"x": 3, "y": 4}}), ("damaged", {}), ("odd", {"labels": 3})):
        Path(name).mkdir()
        Path(name, "config.json").write_text(json.dumps({"about": about}))
    Path("damaged/held_out.csv").write_text("example,label\nrow 1,ant\n")
    before = set(working.iterdir())
    assert ict(monkeypatch, "fit", "data.csv", *words, *SHORT) == 2
    said = capsys.readouterr().err
    assert says in said and "Traceback" not in said and set(working.iterdir()) == before


def test_a_model_of_an_earlier_version_has_at_least_its_words(
    working: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder_of_rows(working)
    Path("old").mkdir()
    Path("old/config.json").write_text(
        json.dumps({"about": {"method": "ict", "labeled": 30, "test": "28 of 30 right"}})
    )
    assert ict(monkeypatch, "fit", "data.csv", "--compare-with", "old", *SHORT) == 0
    said = capsys.readouterr().out
    assert "before: 28 of 30 right" in said and "Cannot tell whether the model is better than old" in said


def lines(right: Any, label: str = "ant") -> list[list[str]]:
    return [HEADER, *([f"row {i}", label, label if ok else "bee", "0.5", f"{i}"] for i, ok in enumerate(right))]


def earlier(right: Any, labels: dict[str, int] | None = None) -> Earlier:
    measured = {"metric": "accuracy", "value": 0.5, "low": 0.3, "high": 0.7, "n": 20, "on": "held out in folds"}
    found = {f"{i}": OneHeldOut("ant", bool(ok), 0.5) for i, ok in enumerate(right)}
    return Earlier("model", labels or {"ant": len(right)}, measured, "words", found)


def about(n: int) -> dict[str, Any]:
    return {"labels": {"ant": n}, "measured": None}


def test_better_worse_and_noise() -> None:
    few, many = np.arange(60) < 20, np.arange(60) < 50
    better = compare(earlier(few), about(60), lines(many), "accuracy", 0)
    assert better.answer == "better" and better.gain == pytest.approx(0.5) and "the model is better" in better.verdict
    assert compare(earlier(many), about(60), lines(few), "accuracy", 0).answer == "worse"
    same = compare(earlier(few), about(60), lines(np.arange(60) < 22), "accuracy", 0)
    assert same.answer == "within noise" and "the difference is within noise" in same.verdict
    assert "33.3% before and 36.7% now, +3.3 points of accuracy" in same.verdict
    none = compare(earlier(few[:9]), about(60), lines(many[:9]), "accuracy", 0)
    assert none.answer == "cannot tell" and none.gain is None and "9 labels were measured in both" in none.verdict


def test_hard_labels_that_were_added_do_not_make_the_model_look_worse() -> None:
    """The accuracy on all labels falls from 90 % to 57 %, since the new ones are hard; on the common ones it rises."""
    before = np.arange(40) < 36
    now = np.concatenate([np.arange(40) < 38, np.zeros(26, bool)])
    change = compare(earlier(before), about(66), lines(now), "accuracy", 0)
    assert change.common == 40 and change.gain == pytest.approx(0.05) and change.answer == "within noise"


def test_labels_that_changed_their_class_are_counted_and_not_compared() -> None:
    now = lines(np.ones(30, bool))
    for line in now[1:6]:
        line[1] = "bee"
    change = compare(earlier(np.ones(30, bool), {"ant": 40, "cow": 2}), about(30), now, "accuracy", 0)
    assert (change.common, change.changed) == (25, 5)
    assert "12 labels fewer (ant -10, cow -2), 42 before and 30 now; 5 labels are another class now" in change.lines[0]


def test_the_interval_is_that_of_paired_differences() -> None:
    """Against the formula for a paired mean, with many rows; and never narrower than Bonett and Price's."""
    rng = np.random.default_rng(0)
    for metric in ("accuracy", "log_loss"):
        scores = (rng.random((2000, 2)) < [0.7, 0.75]).astype(float)
        if metric == "log_loss":
            scores = -rng.exponential([1.0, 0.9], (2000, 2))
        gain, low, high = difference(HeldOut(metric, scores, np.ones(2000), np.arange(2000)), 0)
        apart = scores[:, 1] - scores[:, 0]
        reach = norm.ppf(0.975) * apart.std(ddof=1) / np.sqrt(2000)
        assert gain == pytest.approx(apart.mean())
        assert (low, high) == pytest.approx((apart.mean() - reach, apart.mean() + reach), abs=0.1 * reach)
    few = (rng.random((12, 2)) < 0.5).astype(float)
    _, low, high = difference(HeldOut("accuracy", few, np.ones(12), np.arange(12)), 0)
    reference = bonett_price(few[:, 1], few[:, 0])
    assert low <= reference[0] and high >= reference[1]


def test_rows_of_one_group_count_as_one_draw() -> None:
    before, now = np.arange(60) < 30, np.arange(60) < 36
    groups = {f"{i}": i // 6 for i in range(60)}
    alone = compare(earlier(before), about(60), lines(now), "accuracy", 0)
    together = compare(earlier(before), about(60), lines(now), "accuracy", 0, groups)
    assert alone.low is not None and together.low is not None and together.low < alone.low


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no model"):
        read_earlier(tmp_path)
