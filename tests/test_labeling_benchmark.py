"""What benchmarks/labeling.py counts, on made-up features whose classes are far apart."""

import numpy as np
import pytest
from labeling import FAST, Cell, counts, covers, curves, desk
from labeling import coverage as measure_coverage
from scipy.stats import binomtest
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
