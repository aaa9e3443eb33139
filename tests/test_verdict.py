"""The bootstrap that chooses anew, against loops over rows; intervals against their formulas; what the answers mean."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from ict.estimators.metrics import mean_score, row_scores, row_weights
from ict.estimators.verdict import HeldOut, bonett_price, estimate, verdict, wilson


def held_out(scores: np.ndarray, weights: np.ndarray | None = None, group: np.ndarray | None = None) -> HeldOut:
    n = len(scores)
    return HeldOut(
        "accuracy",
        np.asarray(scores, float),
        np.ones(n) if weights is None else weights,
        np.arange(n) if group is None else group,
    )


def draws(n_groups: int, seed: int) -> list[list[int]]:
    """How the replicates are drawn."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, n_groups, n_groups).tolist() for _ in range(1000)]


def mean_of(rows: list[int], column: int, scores: np.ndarray, weights: np.ndarray) -> float:
    return float(sum(weights[i] * scores[i, column] for i in rows) / sum(weights[i] for i in rows))


def chosen_by_loops(rows: list[int], scores: np.ndarray, weights: np.ndarray) -> int:
    best, best_lead = 0, 0.0
    for c in range(1, scores.shape[1]):
        lead = mean_of(rows, c, scores, weights) - mean_of(rows, 0, scores, weights)
        squares = sum((weights[i] * (scores[i, c] - scores[i, 0] - lead)) ** 2 for i in rows)
        error = math.sqrt(squares * len(rows) / (len(rows) - 1)) / sum(weights[i] for i in rows)
        if lead > error * (1 + 1e-9) and lead > best_lead + 1e-12:
            best, best_lead = c, lead
    return best


@pytest.mark.parametrize("weighted", [False, True])
def test_replicates_choose_on_drawn_rows_and_score_on_the_others(weighted: bool) -> None:
    rng = np.random.default_rng(3)
    scores = (rng.random((30, 4)) < [0.5, 0.6, 0.7, 0.4]).astype(float)
    weights = rng.random(30) + 0.5 if weighted else np.ones(30)
    values, gains = [], []
    for drawn in draws(30, seed=5):
        rest = sorted(set(range(30)) - set(drawn))
        values.append(mean_of(rest, chosen_by_loops(drawn, scores, weights), scores, weights))
        in_bag = [mean_of(drawn, c, scores, weights) for c in range(4)]
        with_, without = (0 if in_bag[0] >= in_bag[2] else 2), (1 if in_bag[1] >= in_bag[3] else 3)
        gains.append(mean_of(rest, with_, scores, weights) - mean_of(rest, without, scores, weights))
    rows = held_out(scores, weights)
    found = estimate(rows, seed=5)
    assert found.value == pytest.approx(np.mean(values)) and found.n == 30
    few = wilson(round(found.value * 30), 30)
    share = (29 / 30) ** 30  # of the rows is left out by a replicate
    assert found.low == pytest.approx(
        min(found.value + math.sqrt(share / (1 - share)) * (np.quantile(values, 0.025) - found.value), few[0])
    )
    assert found.high == pytest.approx(max(np.quantile(values, 0.975), few[1]))
    said = verdict(rows, ("a", "b", "c", "d"), ("a", "c"), seed=5)
    assert said.gain == pytest.approx(np.mean(gains))
    means = [mean_of(list(range(30)), c, scores, weights) for c in range(4)]
    assert said.with_unlabeled == ("a" if means[0] >= means[2] else "c")
    assert said.labels_only == ("b" if means[1] >= means[3] else "d")
    ends = said.gain + math.sqrt(share / (1 - share)) * (np.quantile(gains, [0.025, 0.975]) - said.gain)
    assert said.low <= ends[0] + 1e-12 and said.high >= ends[1] - 1e-12


def test_an_interval_is_as_wide_as_its_rows_make_it() -> None:
    """With nothing to choose, the bootstrap's interval is that of a mean of all rows, not of those left out."""
    scores = np.random.default_rng(1).normal(size=(200, 2))
    rows = replace(held_out(scores), metric="log_loss")  # the only one that is not widened
    found = estimate(rows.of([0]), 0)
    reach = 1.96 * scores[:, 0].std() / math.sqrt(200)
    assert found.value - found.low == pytest.approx(reach, rel=0.1) and found.high - found.value > 1.2 * reach
    said = verdict(rows, ("a", "b"), ("a",), 0)
    lead = scores[:, 0] - scores[:, 1]
    assert said.high - said.low == pytest.approx(2 * 1.96 * lead.std() / math.sqrt(200), rel=0.1)


def test_rows_of_a_group_are_drawn_together() -> None:
    group = np.repeat([7, 3, 9, 1], 5)
    (drawn,) = held_out(np.zeros((20, 1)), group=group).replicates(0)
    assert drawn.shape == (1000, 20) and (drawn.sum(1) == 20).all()
    for value in (7, 3, 9, 1):
        assert (drawn[:, group == value] == drawn[:, group == value][:, :1]).all()
    assert len(np.unique(drawn[:, ::5], axis=0)) > 20


def test_choosing_the_best_of_many_guessers_is_not_flattering() -> None:
    """Twenty candidates without any skill: the best looks good on the rows that chose it."""
    rng = np.random.default_rng(0)
    flattering, corrected = [], []
    for seed in range(30):
        scores = (rng.random((40, 20)) < 0.5).astype(float)
        flattering.append(scores.mean(0).max())
        corrected.append(estimate(held_out(scores), seed).value)
    assert np.mean(flattering) > 0.64 and abs(np.mean(corrected) - 0.5) < 0.04


def test_it_says_helped_hurt_and_cannot_tell() -> None:
    right, wrong = np.r_[np.ones(90), np.zeros(10)], np.r_[np.ones(60), np.zeros(40)]
    helped = verdict(held_out(np.stack([right, wrong], 1)), ("ict", "logistic"), ("ict",), 0)
    hurt = verdict(held_out(np.stack([wrong, right], 1)), ("ict", "logistic"), ("ict",), 0)
    same = verdict(held_out(np.stack([right, right], 1)), ("ict", "logistic"), ("ict",), 0)
    assert [v.answer for v in (helped, hurt, same)] == ["helped", "hurt", "cannot tell"]
    assert helped.gain == pytest.approx(0.3, abs=0.01) and hurt.gain == pytest.approx(-helped.gain, abs=0.01)
    assert "helped: +30" in str(helped) or "helped: +29" in str(helped)
    assert not any(character.isdigit() for character in str(same)), "no gain is printed"
    assert same.as_json()["gain"] is None and helped.as_json()["gain"] == helped.gain
    assert same.low < 0 < same.high, "equal on a hundred rows is not equal"


def test_the_default_is_kept_until_another_is_better_by_more_than_its_standard_error() -> None:
    default = np.zeros(10)
    every = np.ones((1, 10))
    one, two = (np.r_[np.ones(n), np.zeros(10 - n)] for n in (1, 2))
    assert held_out(np.stack([default, one], 1)).choice(every) == 0
    assert held_out(np.stack([default, one, two], 1)).choice(every) == 2


def test_intervals_are_those_of_the_papers() -> None:
    p, n, z = 0.9, 10, 1.959964
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert wilson(9, 10) == pytest.approx((middle - reach, middle + reach), abs=1e-6)
    first, second = np.r_[np.ones(8), np.zeros(12)], np.r_[np.zeros(8), np.ones(3), np.zeros(9)]
    p12, p21 = 9 / 22, 4 / 22  # one more pair of either kind
    spread = norm.ppf(0.975) * math.sqrt((p12 + p21 - (p12 - p21) ** 2) / 22)
    assert bonett_price(first, second) == pytest.approx((p12 - p21 - spread, p12 - p21 + spread))


def test_metrics_are_scikit_learns() -> None:
    from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss

    rng = np.random.default_rng(1)
    probs, labels = rng.dirichlet(np.ones(3), 50), np.r_[0, rng.choice(3, 49, p=[0.1, 0.3, 0.6])]
    guesses = probs.argmax(1)
    assert mean_score("accuracy", probs, labels) == pytest.approx(accuracy_score(labels, guesses))
    assert mean_score("balanced_accuracy", probs, labels) == pytest.approx(balanced_accuracy_score(labels, guesses))
    assert mean_score("log_loss", probs, labels) == pytest.approx(-log_loss(labels, probs, labels=[0, 1, 2]))
    assert np.isfinite(row_scores("log_loss", np.eye(3)[[0]], np.array([1]))).all()
    assert row_weights("balanced_accuracy", np.array([0, 0, 0, 2])).tolist() == pytest.approx([2 / 3] * 3 + [2])


def test_intervals_contain_the_truth_of_known_candidates() -> None:
    """Candidates with known accuracies: at least 90 of 100 intervals contain the gain and the accuracy."""
    accuracy, hits = np.array([0.8, 0.78, 0.7, 0.72]), []
    rng = np.random.default_rng(2)
    for seed in range(100):
        scores = (rng.random((45, 4)) < accuracy).astype(float)
        rows = held_out(scores)
        said, found = verdict(rows, ("a", "b", "c", "d"), ("a", "b"), seed), estimate(rows, seed)
        true_gain = dict(zip("abcd", accuracy, strict=True))
        gain = true_gain[said.with_unlabeled] - true_gain[said.labels_only]
        value = accuracy[rows.choice(np.ones((1, 45)))[0]]
        hits.append((said.low <= gain <= said.high, found.low <= value <= found.high))
    assert np.mean(hits, axis=0).min() >= 0.9
