"""What benchmarks/labeling.py counts, on made-up features whose classes are far apart."""

import json
from pathlib import Path
from typing import Any

import labeling_tables as tables
import numpy as np
import pytest
import result_files
from labeling import FAST, Cell, counts, covers, curves, desk
from labeling import coverage as measure_coverage
from PIL import Image
from scipy.stats import binomtest, ttest_1samp
from sklearn.datasets import make_blobs

from ict.label.rounds import Round

N_CLASSES = 4


@pytest.fixture(scope="module")
def blobs() -> tuple[np.ndarray, np.ndarray]:
    x, y = make_blobs(320, 120, centers=N_CLASSES, cluster_std=1.0, center_box=(-4, 4), random_state=0)
    return x.astype(np.float32), y


def test_the_person_is_asked_about_the_pool_alone_and_answers_with_the_truth(
    blobs: tuple[np.ndarray, np.ndarray],
) -> None:
    one = desk(*blobs, 40, 200, 0)
    sessions = list(one.answers())
    (last,) = set(sessions)
    known = last.training() | last.checks()
    assert len(sessions) == len(known) == 40 and set(known) == set(range(40))
    assert all(label == str(one.truth[row]) for row, label in known.items())
    assert len(np.unique(np.concatenate([one.x[:40], one.x[one.others]]), axis=0)) == 240


def test_accuracy_counts_the_rows_that_stand_by(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    one = desk(*blobs, 40, 200, 0)
    guesses = (one.truth + 1) % N_CLASSES  # all wrong
    right = one.others[:50]
    guesses[right] = one.truth[right]
    guesses[:40] = one.truth[:40]  # of the pool: they do not count
    learned = Round(5, one.others, (), tuple("0123"), guesses, np.ones(len(guesses)))
    assert one.accuracy(learned) == 50 / 200
    assert one.accuracy(Round(1, one.others, ())) is None


def test_a_curve_has_a_point_for_every_number_of_labels_and_of_answers(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    chosen = curves(*blobs, Cell("curves", "blobs", 0), FAST)["points"]
    random = curves(*blobs, Cell("curves", "blobs", 0, "random"), FAST)["points"]
    found = {(point["counted"], point["n"], point["labels"]) for point in chosen}
    assert found == {("labels", 10, 10), ("labels", 20, 20), ("answers", 10, 8), ("answers", 20, 16)}
    assert [(point["counted"], point["n"]) for point in random] == [("labels", 10), ("labels", 20)]
    for point in chosen:
        if point["n"] == 20:
            assert point["classes"] == N_CLASSES and min(point["accuracy"].values()) > 0.95


def test_intervals_are_counted_as_scipy_counts_them(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    moments = [{"checks": 10, "right": right, "truth": 0.6, "labels": 40} for right in range(11)]
    contains = []
    for right in range(11):
        interval = binomtest(right, 10).proportion_ci(method="wilson")
        contains.append(interval.low <= 0.6 <= interval.high)
    assert [covers(moment) for moment in moments] == contains and 0 < sum(contains) < 11
    runs = [
        {"pool": 9, "others": 9, "moments": [one], "always": covers(one), "stopped": one if i > 8 else None}
        for i, one in enumerate(moments)
    ]
    found = counts(runs)
    (moment,) = found["moments"]
    draws = np.random.default_rng(0).binomial(10, 0.6, 100_000)
    assert moment["runs"] == 11 and moment["covered"] == found["always"] == sum(contains)
    assert abs(moment["by_chance"] - np.array(contains)[draws].mean()) < 0.005
    assert found["stopped"]["runs"] == 2 and found["stopped"]["covered"] == sum(contains[9:])


def test_a_session_of_intervals_counts_every_tenth_check_once(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    found = measure_coverage(*blobs, Cell("coverage", "blobs", 0), FAST._replace(answers=110))
    assert [(moment["checks"], moment["labels"]) for moment in found["moments"]] == [(10, 40), (20, 80)]
    assert all(moment["truth"] > 0.9 and moment["right"] <= moment["checks"] for moment in found["moments"])
    assert found["stopped"]["checks"] == 10, "ten of ten right: the interval is above the target at once"


def test_the_docs_show_means_of_seeds_and_paired_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gains = (0.02, 0.03, 0.04, 0.03)

    def cell(data: str, seed: int, choice: str) -> dict[str, Any]:
        points = []
        for counted, extra in (("labels", 0.0), ("answers", -0.05)) if choice == "session" else (("labels", 0.0),):
            for n in (40, 100):
                right = 0.5 + n / 1000 + 0.1 * seed + extra + (gains[seed] if choice == "session" else 0)
                points.append({"counted": counted, "n": n, "accuracy": {"page": right, "anchored": right + 0.1}})
        return {"data": data, "seed": seed, "choice": choice, "pool": 3000, "points": points}

    cells = [cell(d, s, c) for s in (2, 0, 3, 1) for d in ("photos", "texts") for c in ("session", "random")]
    moment = {
        "checks": 10,
        "labels": 40,
        "runs": 200,
        "covered": 190,
        "by_chance": 0.94,
        "estimate": 0.6,
        "truth": 0.61,
    }
    of = {"runs": 200, "pool": 1000, "others": 2000, "moments": [moment], "always": 150, "stopped": moment}
    cost = {"data": "texts", "pool": 3000, "labels": 100, "rounds": [0.1, 0.2, 0.6], "start": 0.1, "fit": 20.0}
    about = {"device": "cpu", "machine": "m", "threads": 1, "versions": {"torch": "2"}, "finished": "2026-01-01T"}
    content = about | {"target": 0.5, "curves": cells, "coverage": {"photos": of}, "cost": [cost]}
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(result_files, "ROOT", tmp_path)
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    assert tables.BLOCKS["labeling"]().startswith("Not measured yet")
    (tmp_path / "results/labeling.json").write_text(json.dumps(content))
    interval = ttest_1samp(100 * np.array(gains), 0).confidence_interval()
    expected = f"+3.0 ({interval.low:+.1f} to {interval.high:+.1f})"
    text = tables.BLOCKS["labeling"]()
    assert f"| CIFAR-10 | 100 | 78.0 | 75.0 | {expected} | 88.0 | 85.0 | {expected} |" in text and "of 4 seeds" in text
    assert "-2.0 (-3.3 to -0.7) with 40 on CIFAR-10" in tables.BLOCKS["labeling-answers"]()
    low, high = binomtest(190, 200).proportion_ci(method="wilson")
    line = f"| CIFAR-10 | 10 | 40 | 95.0% ({low:.1%} to {high:.1%}) of 200 | 94.0% | 60.0% | 61.0% |"
    text = tables.BLOCKS["labeling-coverage"]()
    assert line in text and "75% (CIFAR-10)" in text and "200 sessions" in text
    assert "| 0.20 (0.60) | 1.0 (3 rounds) | 20 | 3.0% | 5.0% |" in tables.BLOCKS["labeling-cost"]()
    tables.draw(tmp_path)
    with Image.open(tmp_path / "labeling.png") as picture:
        assert picture.width > 500


@pytest.mark.slow
def test_what_a_person_waits_for_is_measured_on_the_page_itself() -> None:
    from labeling_page import page  # needs a Unix

    found = page(30, 5)
    first, second = found["first"], found["second"]
    assert all(
        0 < one["seconds"]["to the first question"] < one["seconds"]["to a chosen one"] for one in (first, second)
    )
    assert first["cpu_seconds"] > found["plain loop"]["cpu_seconds"] / 2 and 0.1 < first["gigabytes"] < 3
    times = second["milliseconds"]
    assert times["a picture"]["n"] == sum(of["n"] for name, of in times.items() if name != "a picture") == 10
    assert times["a whole fit"]["n"] >= 1 and all(of["median"] <= of["p95"] <= of["largest"] for of in times.values())
