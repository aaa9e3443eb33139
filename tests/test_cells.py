"""How the cells of a benchmark are measured and kept: each once, and only what is missing after an interruption."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cells
import numpy as np
import pytest
import verdict as benchmark
from sklearn.datasets import load_wine

from ict.estimators.fitter import Fitter


@dataclass(frozen=True)
class Square:
    side: int
    color: str


def area(cell: Square) -> dict[str, Any]:
    if cell.side > 50:
        raise KeyboardInterrupt
    return {"area": cell.side**2}


def content(records: list[dict[str, Any]]) -> dict[str, Any]:
    return {"areas": [(record["side"], record["area"]) for record in records]}


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_run_measures_only_what_is_missing(tmp_path: Path, workers: int) -> None:
    words = ["--progress", str(tmp_path / "kept.jsonl"), "--out", str(tmp_path / "out.json"), "--workers", str(workers)]
    arguments = cells.options("squares", "squares").parse_args(words)
    with pytest.raises(KeyboardInterrupt):
        cells.run([Square(2, "red"), Square(99, "red")], area, cells.options("", "").parse_args(words[:2]), content)
    known = (tmp_path / "kept.jsonl").read_text()
    assert json.loads(known)["area"] == 4
    (tmp_path / "kept.jsonl").write_text(known.replace('"area": 4', '"area": 5'))  # what is known is not measured
    cells.run([Square(3, "red"), Square(2, "red"), Square(2, "blue")], area, arguments, content)
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["areas"] == [[3, 9], [2, 5], [2, 4]] and written["threads"] == 1
    cells.run([Square(2, "red")], area, arguments, content, usable=lambda record: record["area"] != 5)
    assert json.loads((tmp_path / "out.json").read_text())["areas"] == [[2, 4]], "what is not usable is measured again"


def test_a_cell_of_the_verdict_compares_what_it_says_with_new_rows() -> None:
    x, y = load_wine(return_X_y=True)
    cell = benchmark.VerdictCell("wine", 10, 0, short=True)
    found = benchmark.measure(
        cell, {"wine": lambda: (x, y)}, Fitter(steps=30, settings=("anchor.trees=5",), device="cpu")
    )
    judged = benchmark.judged(asdict(cell) | found)
    said, candidates = judged["verdict"], found["candidates"]
    assert said["low"] <= said["gain"] <= said["high"] and {said["with_unlabeled"], said["labels_only"]} <= set(
        candidates
    )
    assert found["labeled"] == judged["estimate"]["n"] == 30 and found["rows"] + found["test_rows"] == len(y)
    winner = candidates[found["winner"]]
    assert len(winner["right"]) == 30 and winner["test"] > 0.8
    shares = [np.mean([int(right) for right in scores["right"]]) for scores in candidates.values()]
    assert max(shares) - 0.1 < judged["estimate"]["value"] <= max(shares) + 0.05
    assert found["others"]["forest"] > 0.8 and found["seconds"]["auto's folds"] > found["seconds"]["auto's winner"]
