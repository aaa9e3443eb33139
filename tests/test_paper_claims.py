"""research/paper_claims.py: distances, densities and pairs that can be computed by hand."""

import json
from pathlib import Path

import numpy as np
import paper_claims
import pytest
import torch
from claims_picture import draw
from paper_claims import (
    Sparsity,
    bisected,
    boundary_between,
    case,
    margins,
    of_network,
    planned,
    shares_of_all,
    unmixed,
)
from PIL import Image
from torch import nn

from ict.base.rng import Rng
from ict.recipes import RECIPES

METHODS = {
    "digits-100": ["vat", "mean-teacher", "ict", "ict, unmixed", "supervised"],
    "moons": ["ict-sharpened", "ict-sharpened, unmixed", "ict", "ict, unmixed", "supervised"],
}


def three_lines() -> nn.Linear:
    """Logits x, y and 0: the classes meet at x = y > 0, x = 0 > y and y = 0 > x."""
    network = nn.Linear(2, 3)
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
        network.bias.zero_()
    return network.requires_grad_(False)


def test_the_margin_of_an_affine_network_is_its_distance_to_the_nearest_line() -> None:
    points = torch.tensor([[3.0, 1.0], [0.5, -2.0], [-3.0, -0.25], [1.0, 3.0]])
    distances, nearest = margins(three_lines(), points)
    np.testing.assert_allclose(distances, [2 / np.sqrt(2), 0.5, 0.25, 2 / np.sqrt(2)], rtol=1e-4)
    np.testing.assert_allclose(nearest, [[2, 2], [0, -2], [-3, 0], [2, 2]], atol=1e-4)


def test_a_network_without_a_boundary_has_no_margin() -> None:
    network = three_lines()
    network.bias.copy_(torch.tensor([0.0, 0.0, 1e9]))
    found = of_network(network, torch.randn(30, 2), np.random.default_rng(0))
    assert found["unreached"] == 1.0 and found["margin"] is found["sparsity_crossing"] is None


def test_a_segment_is_cut_where_its_class_ends() -> None:
    near, far = torch.tensor([[4.0, 0.0], [4.0, -1.0]]), torch.tensor([[0.0, 4.0], [-4.0, -1.0]])
    found = bisected(three_lines(), near, far, torch.tensor([0, 0]))
    np.testing.assert_allclose(found, [[2, 2], [0, -1]], atol=1e-5)
    points = torch.randn(50, 2)
    crossings = boundary_between(three_lines(), points, np.random.default_rng(0))
    z = three_lines()(crossings).sort(1).values
    assert len(crossings) > 500 and (z[:, 2] - z[:, 1]).abs().max() < 1e-4


def test_sparsity_is_relative_to_the_points_themselves() -> None:
    """On a line of points 1 apart the tenth neighbor is 5 away, from the middle of two 4.5, from outside more."""
    line = np.arange(10_001.0)[:, None]
    np.testing.assert_allclose(Sparsity(line)(np.array([[5000.5], [-15.0]])), [4.5 / 5, 24 / 5])


def test_the_cases_of_pairs_are_the_papers() -> None:
    clusters, labels = np.array([0, 0, 1, 2]), np.array([0, 1, 0, 1])
    j, k = np.array([0, 0, 0, 1, 1, 2]), np.array([1, 2, 3, 2, 3, 3])
    assert case(clusters, labels, j, k).tolist() == [1, 2, 3, 3, 2, 3]
    shares = shares_of_all(clusters, labels)
    assert [shares[f"case_{i}"] for i in (1, 2, 3)] == pytest.approx([1 / 6, 2 / 6, 3 / 6])
    assert shares["other_class_within"] == 1.0


def test_without_interpolation_nothing_else_changes() -> None:
    for name in ("digits-100/ict", "moons/ict", "moons/ict-sharpened"):
        recipe = RECIPES[name].resolved()
        alone = unmixed(recipe)
        draws = Rng(torch.device("cpu"))
        draws.reseed(1)
        lam = torch.stack([draws.beta(alone.algorithm.options["alpha"]) for _ in range(500)])
        assert set(lam.tolist()) == {0.0, 1.0} and 0.4 < lam.mean() < 0.6
        before, after = dict(recipe.algorithm.options), dict(alone.algorithm.options)
        labeled = before["alpha_labeled"] or before["alpha"]
        assert after == before | {"alpha": 1e-6, "alpha_labeled": labeled}
        assert recipe.to_dict() | {"algorithm": None} == alone.to_dict() | {"algorithm": None}


def test_methods_share_all_but_what_is_compared() -> None:
    runs = planned(1, Path())
    assert {task: [run.method for run in runs if run.task == task] for task in METHODS} == METHODS
    for run in runs:
        assert run.recipe.average.decay is not None, "each is evaluated with an average"
    ict, alone = (next(run.recipe for run in runs if run.method == name) for name in ("ict", "ict, unmixed"))
    assert ict.average == alone.average and ict.train == alone.train


def test_the_command_writes_numbers_and_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_claims, "CLUSTERS", {"moons": (2,)})
    monkeypatch.setattr(paper_claims, "ROUNDS", 2)
    monkeypatch.setattr(paper_claims, "UPDATES", 3)
    monkeypatch.setattr(paper_claims, "planned", lambda *words: planned(*words)[-3:-1])
    words = ["--out", str(tmp_path / "x.json"), "--work", str(tmp_path / "work")]
    words += ["--seeds", "1", "--workers", "1", "--set", "train.steps=30", "--set", "eval.every=30"]
    monkeypatch.setattr("sys.argv", ["paper_claims.py", *words])
    paper_claims.main()
    first = json.loads((tmp_path / "x.json").read_text())
    assert [row["method"] for row in first["runs"]] == ["ict", "ict, unmixed"] and first["cases"][0]["shares"][0][
        "clusters"
    ] == 2
    assert [(row["method"], row["milliseconds"] > 0) for row in first["cost"]] == [
        ("ict", True),
        ("ict, unmixed", True),
    ]
    draw(tmp_path / "x.png", first)
    with Image.open(tmp_path / "x.png") as picture:
        assert picture.size[0] > 1500
    paper_claims.main()
    assert json.loads((tmp_path / "x.json").read_text())["runs"] == first["runs"]
