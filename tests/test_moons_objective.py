"""research/moons_objective.py: losses and boundaries that can be computed by hand."""

import numpy as np
import pytest
from moons_objective import best_line, loss, true_boundary
from sklearn.datasets import make_moons


def test_the_loss_of_one_pair_is_that_by_hand() -> None:
    """From x = 1 to x = -1 a quarter of the way: at x = .5 a step at 0 predicts 1, and the mix of 1 and 0 is .75."""
    one, other, lam = np.array([[1.0, 0.0]]), np.array([[-1.0, 0.0]]), np.array([0.75])
    assert loss(lambda p: p[:, 0], np.inf, one, other, lam) == pytest.approx((1 - 0.75) ** 2)
    at = 1 / (1 + np.exp(-2 * np.array([0.5, 1.0, -1.0])))
    assert loss(lambda p: p[:, 0], 2.0, one, other, lam) == pytest.approx((at[0] - 0.75 * at[1] - 0.25 * at[2]) ** 2)


def test_the_true_boundary_lies_halfway_between_the_moons() -> None:
    signed = true_boundary()
    points, labels = make_moons(200, noise=0.0)
    assert ((signed(points) > 0) == labels).all()
    turned = np.array([1.0, 0.5]) - points  # half a turn around (.5, .25) exchanges the moons
    np.testing.assert_allclose(signed(turned), -signed(points), atol=1e-3)
    assert signed(np.array([[0.5, 0.25]]))[0] == pytest.approx(0, abs=1e-3)


def test_the_best_line_separates_what_a_line_can() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(300, 2))
    labels = (points @ [0.6, -0.8] > 0.3).astype(np.int64)
    points += np.where(labels == 1, 0.05, -0.05)[:, None] * [0.6, -0.8]
    signed = best_line(points, labels)
    assert ((signed(points) > 0) == labels).mean() > 0.995
