"""docs/auto.md: what is said of made-up cells, counted by hand."""

from typing import Any

import on_auto
import pytest
from scipy.stats import binomtest


def cell(data: str, labels: int, winner: str, tests: dict[str, float], **of: Any) -> dict[str, Any]:
    """A full cell in which `anchored` and `logistic` were compared."""
    gain, accuracy = of.pop("gain", (-0.1, 0.2)), of.pop("accuracy", (0.5, 0.9))
    errors = {"ece_before": 0.2, "ece_after": 0.1}
    verdict = {"low": gain[0], "high": gain[1], "with_unlabeled": "anchored", "labels_only": "logistic"}
    return {
        "data": data,
        "labels": labels,
        "short": False,
        "rows": 1200,
        "winner": winner,
        "candidates": {name: {"test": test} | errors for name, test in tests.items()},
        "others": {"forest": 0.6, "logistic regression": 0.5, "graph": 0.7},
        "seconds": {"auto's folds": 30.0, "auto's winner": 10.0, "forest of 200": 0.5},
        "verdict": verdict | {"answer": "cannot tell"},
        "estimate": {"low": accuracy[0], "high": accuracy[1]},
    } | of


def told(monkeypatch: pytest.MonkeyPatch, *cells: dict[str, Any]) -> None:
    monkeypatch.setattr(on_auto, "read", lambda _: {"rows": {"short": 1000, "full": 2000}, "cells": list(cells)})
    monkeypatch.setattr(on_auto, "origin", lambda _: "here")


def table(text: str) -> list[list[str]]:
    return [[word.strip() for word in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")][2:]


def wilson(right: int, n: int) -> str:
    found = binomtest(right, n).proportion_ci(0.95, "wilson")
    return f"{right / n:.1%} ({found.low:.1%} to {found.high:.1%})"


def test_intervals_are_counted_by_labels_and_together(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = cell("a", 5, "anchored", {"anchored": 0.8, "logistic": 0.7}, short=True)
    gain_outside = cell("b", 5, "anchored", {"anchored": 0.9, "logistic": 0.5}, short=True)
    both_outside = cell("b", 10, "logistic", {"anchored": 0.6, "logistic": 0.95}, short=True, accuracy=(0.2, 0.9))
    without_folds = {k: v for k, v in inside.items() if k not in ("verdict", "estimate")}
    full = cell("a", 5, "anchored", {"anchored": 0.8, "logistic": 0.7})
    told(monkeypatch, inside, gain_outside, both_outside, without_folds, full)
    assert table(on_auto.intervals()) == [
        ["short", "5", "2", wilson(1, 2), wilson(2, 2), "40 points"],
        ["short", "10", "1", wilson(0, 1), wilson(0, 1), "70 points"],
        ["short", "all", "3", wilson(1, 3), wilson(2, 3), "50 points"],
        ["full", "5", "1", wilson(1, 1), wilson(1, 1), "40 points"],
    ]


def test_what_was_said_is_held_against_the_gain_on_new_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(answer: str, anchored: float) -> dict[str, Any]:
        made = cell("a", 5, "anchored", {"anchored": anchored, "logistic": 0.7}, short=True)
        made["verdict"]["answer"] = answer
        return made

    told(
        monkeypatch,
        *(said("helped", anchored) for anchored in (0.8, 0.9, 0.6)),
        said("hurt", 0.5),
        said("cannot tell", 0.71),
    )
    assert table(on_auto.verdicts()) == [
        ["helped", "3 of 5 (60%)", wilson(2, 3), "+6.7"],
        ["hurt", "1 of 5 (20%)", wilson(1, 1), "-20.0"],
        ["cannot tell", "1 of 5 (20%)", "-", "+1.0"],
    ]


def test_auto_is_what_won_beside_a_forest(monkeypatch: pytest.MonkeyPatch) -> None:
    told(
        monkeypatch,
        cell("a", 5, "anchored", {"anchored": 0.8, "logistic": 0.7}),
        cell("b", 5, "logistic", {"anchored": 0.8, "logistic": 0.56}),
        cell("photos", 5, "logistic", {"anchored": 0.8, "logistic": 0.5}),
    )
    # differences of 20 and -4 points: a mean of 8, and Student's t with one degree of freedom reaches 12.706 * 12
    assert table(on_auto.on_tables()) == [["5", "2, 2", "68.0", "60.0", "+8.0 (-144.5 to +160.5)", "0%"]]


def test_features_are_compared_with_the_better_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {"forest": 0.1, "logistic regression": 0.75, "graph": 0.7}
    told(
        monkeypatch,
        cell("photos", 4, "anchored", {"anchored": 0.8, "logistic": 0.7}, others=others),
        cell("photos", 4, "anchored", {"anchored": 0.68, "logistic": 0.7}),
        cell("texts", 4, "logistic", {"anchored": 0.8, "logistic": 0.71}),
    )
    (row,) = table(on_auto.on_features())
    assert row == ["4", "3", "73.0", "58.3", "70.0", "+1.5", "+1.0", "-", "+1.3 (-1.9 to +4.4)"]


def test_averages_cost_and_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    worse = cell("b", 5, "logistic", {"anchored": 0.6, "logistic": 0.5})
    worse["candidates"]["logistic"] |= {"ece_before": 0.1, "ece_after": 0.12}
    worse["candidates"]["logistic"] |= {"pool_ece_before": 0.3, "pool_ece_after": 0.05}
    worse["seconds"] |= {"auto's winner": 70.0}
    both = {"anchored": 0.8, "logistic": 0.7}
    told(monkeypatch, cell("a", 5, "anchored", both), worse, cell("photos", 1, "anchored", {"anchored": 0.4}))
    means = {row[0]: row[2:] for row in table(on_auto.averages())}
    assert means == {"`logistic`": ["60.0 (50%)", "-"], "`anchored`": ["70.0 (50%)", "40.0 (100%)"]}
    told(monkeypatch, cell("a", 5, "anchored", both), worse)
    assert "140 times" in on_auto.cost() and "at most 200 times, with up to 1,200 rows, in 2 cells" in on_auto.cost()
    assert table(on_auto.calibration()) == [
        ["tables, 5", "new", "2", "15.0", "11.0", "50%"],
        ["tables, 5", "unlabeled", "1", "30.0", "5.0", "100%"],
    ]


def test_a_part_that_is_not_measured_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, cell("a", 5, "anchored", {"anchored": 0.8, "logistic": 0.7}, short=True))
    parts = (on_auto.on_tables, on_auto.on_features, on_auto.averages, on_auto.cost, on_auto.calibration)
    assert {part() for part in parts} == {"Not measured yet."}
