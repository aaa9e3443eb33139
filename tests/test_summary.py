"""tools/summary.py: what docs/results.md and the README say in words, against facts that were counted apart."""

import re

import equal_terms
import pytest
import summary
from published import read_runs

LOWER, HIGHER = {"cifar10-1000/ict-fast", "cifar10-2000/ict-fast"}, {"cifar10-4000/ict-fast-60s"}


@pytest.mark.parametrize(("shown", "expected"), [("lower", LOWER), ("higher", HIGHER)])
def test_two_recipes_are_below_the_paper_and_one_is_above(shown: str, expected: set[str]) -> None:
    assert set(re.findall("`(.+?)`", summary.cells(shown))) == expected


def test_the_rest_shows_no_difference() -> None:
    cells = summary.cells("no difference shown")
    assert cells.count("`") == 2 * 7 and "`svhn-250/ict-fast` +0.73 (" in cells


def test_the_summary_has_ten_points_in_three_parts() -> None:
    text = summary.summary()
    assert re.findall(r"^(\d+)\. ", text, re.MULTILINE) == [str(i) for i in range(1, 11)]
    assert re.findall(r"^\*\*(\w+ ?\w*)", text, re.MULTILINE) == ["Shown", "Not shown", "Unknown"]


def test_the_facts_behind_the_words() -> None:
    assert summary.repeats() == "0.2 to 0.3 points in 4 repeats"  # .22, .26, .28 and .30
    assert summary.padding() == "0.6"
    assert "20 of the 28 values" in equal_terms.protocol() and "26 short runs of ICT" in equal_terms.protocol()


def test_no_method_is_called_the_best_of_all() -> None:
    told = summary.other_methods()
    assert "by seed -1.38, -2.48, -1.58" in told and "by seed -0.21, -0.15, -0.12" in told
    assert "no ranking" in told and "number " not in told
    assert equal_terms.lead_on("svhn-1000-fair", {}) == "" != equal_terms.lead_on("svhn-1000-fair", read_runs())
