"""tools/claim_tables.py: the page on the paper's claims, from a made-up file whose differences are known."""

import json
from pathlib import Path
from typing import Any

import claim_tables
import pytest
import render
import result_files
from PIL import Image

# by method the test error, the margin and the sparsity at the boundary; a seed adds the same to all methods
METHODS = {
    "digits-100": {
        "vat": (0.02, 3.0, 1.5),
        "mean-teacher": (0.02, 2.0, 1.5),
        "ict": (0.02, 2.0, 1.5),
        "ict, unmixed": (0.03, 1.0, 1.5),
        "supervised": (0.05, 1.0, 1.25),
    },
    "moons": {
        "ict-sharpened": (0.0, 1.0, 2.0),
        "ict-sharpened, unmixed": (0.0, 1.0, 2.0),
        "ict": (0.1, 1.0, 1.0),
        "ict, unmixed": (0.1, 1.0, 1.0),
        "supervised": (0.2, 1.0, 1.5),
    },
}
SEEDS = range(4)


def wiggle(task: str, method: str, seed: int) -> float:
    """So that differences vary: between ICT and others by at most .02, and by 1 from the mean teacher."""
    sign = -1 if seed % 2 else 1
    return (0.01 if method != "ict" else -0.01) * sign + (method == "mean-teacher") * sign


def made_up() -> dict[str, Any]:
    runs, cases = [], []
    for task, methods in METHODS.items():
        for method, (error, margin, sparsity) in methods.items():
            for seed in SEEDS:
                more = seed + wiggle(task, method, seed)
                measure = {"median": sparsity + more, "tenth": sparsity}
                runs.append(
                    {"task": task, "method": method, "seed": seed, "test_error": error + more / 100, "unreached": 0.25}
                    | {"margin": {"median": margin + more, "tenth": margin + more}}
                    | {"sparsity_crossing": measure, "sparsity_nearest": measure}
                )
        for seed in SEEDS:
            share = {"case_1": 0.1, "case_2": 0.1, "case_3": 0.8, "other_class_within": 0.5, "middle_3": 1.5}
            less = share | {"clusters": 20, "case_2": 0.2, "case_3": 0.7}
            cases.append({"task": task, "seed": seed, "middle": 1.25, "shares": [{"clusters": 10, **share}, less]})
    cost = [
        {
            "task": task,
            "method": method,
            "milliseconds": 1.0 if method == "supervised" else 3.5 if "vat" in method else 2.0,
        }
        for task, methods in METHODS.items()
        for method in methods
    ]
    origin = {
        "device": "cpu",
        "machine": "made up",
        "threads": 1,
        "versions": {"torch": "0"},
        "finished": "2026-01-02T",
    }
    return {"seeds": [*SEEDS], "runs": runs, "cases": cases, "cost": cost, **origin}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "results").mkdir()
    for module in (result_files, claim_tables):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / "results/paper-claims.json").write_text(json.dumps(made_up()))
    return tmp_path


def test_differences_are_paired_and_negative_results_are_shown_as_such(folder: Path) -> None:
    found = claim_tables.difference("digits-100", "ict", "supervised", "margin")
    assert found.points == pytest.approx(1) and found.verdict == "higher"
    assert found.low == pytest.approx(1 - 3.182446 * 0.0230940 / 2, abs=1e-5)  # t of 3, deviation of +-.02
    text = render.render((Path(claim_tables.__file__).parent.parent / "docs/claims.md").read_text())
    assert "Digits, 100 labels, ict less supervised: sparsity at crossings +0.25 (+0.21 to +0.29): higher" in text
    assert "Two moons, ict less supervised: sparsity at crossings -0.50 (-0.54 to -0.46): lower" in text
    assert "ict less ict, unmixed: test error (%) -1.00 (-1.04 to -0.96): lower, sparsity at crossings +0.00" in text
    (line,) = (line for line in text.splitlines() if line.startswith("| ict less mean-teacher"))
    assert "no difference shown" in line.split("|")[3]
    assert "Digits, 100 labels: 70 to 80 % of pairs are of case 3, the sparsity in the middle of a pair is 1.25" in text
    assert "vat 3.5, mean-teacher 2.0, ict 2.0, ict, unmixed 2.0." in text
    assert "| 10 | 10.0 % | 10.0 % | 80.0 % | 50.0 % | - | - | 1.50 ± 0.00 |" in text
    assert "| 25 % | 3.5 (3.5) |" in text and "Seeds 0 to 3" in text


def test_a_network_without_a_boundary_is_left_out_of_a_difference(folder: Path) -> None:
    content = made_up()
    for row in content["runs"]:
        if (row["method"], row["seed"]) == ("supervised", 0):
            row["margin"] = row["sparsity_crossing"] = row["sparsity_nearest"] = None
    (folder / "results/paper-claims.json").write_text(json.dumps(content))
    found = claim_tables.difference("digits-100", "ict", "supervised", "margin")
    assert found.points == pytest.approx(1 + 0.02 / 3)
    claim_tables.draw(folder)
    with Image.open(folder / "paper-claims.png") as picture:
        assert picture.size[0] > 1500


def test_without_the_file_the_page_says_what_writes_it(folder: Path) -> None:
    (folder / "results/paper-claims.json").unlink()
    assert all("Not measured yet: `research/paper_claims.py`" in block() for block in claim_tables.BLOCKS.values())
    claim_tables.draw(folder)
    assert not (folder / "paper-claims.png").exists()
