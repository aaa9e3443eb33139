"""tools/render.py: numbers in the docs that are computed and not only copied, from made-up files counted by hand."""

import json
import re
from pathlib import Path
from typing import Any

import measured
import numpy as np
import performance
import published
import pytest
import render
import research_log
import result_files
import summary
from PIL import Image

ROOT = result_files.ROOT


def step_row(network: str, algorithm: str, version: str, ms: float, gflop: float) -> dict[str, Any]:
    return {"network": network, "algorithm": algorithm, "version": version, "ms": ms, "gflop": gflop}


def test_the_rule_measures_time_by_arithmetic_and_by_icts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        step_row("cnn13", "ict", "fast", 2.0, 100),
        step_row("cnn13", "ict", "streamed", 2.2, 100) | {"ms_again": 2.1},
        step_row("cnn13", "supervised", "fast", 1.15, 50),  # a second share of 1.15 is just allowed
        step_row("cnn13", "vat", "fast", 9.0, 150),  # 4.5 times the time for 1.5 times the work
        step_row("cnn13", "vat", "fp32", 90.0, 150),
        step_row("wrn-28-2", "ict", "fast", 4.0, 10),
        step_row("wrn-28-2", "vat", "fast", 4.0, 20),
        {"network": "wrn-28-2", "algorithm": "vadd", "version": "fast", "failed": "no"},
    ]
    (tmp_path / "results/h200").mkdir(parents=True)
    (tmp_path / "results/h200/step.json").write_text(json.dumps({"rows": rows}))
    monkeypatch.setattr(result_files, "ROOT", tmp_path)
    text = performance.rule()
    assert "at most 1.15 for 2 of 3 pairs" in text and "more for vat with cnn13 3.00." in text
    assert "takes 2.20 ms (10% more) and 2.10 ms (5% more), timed twice." in text
    assert "derivative" not in text
    rows.append(step_row("cnn13", "vat", "derivative", 3.75, 150))  # 1.875 times the time for 1.5 times the work
    rows[1]["commit"] = "another"
    (tmp_path / "results/h200/step.json").write_text(json.dumps({"rows": rows}))
    text = performance.rule()
    assert "takes 2.20 ms and 2.10 ms, timed twice and apart from the table above." in text
    assert "VAT by its derivative (`algorithm.xi=0`): 3.75 ms with cnn13 (1.25). With" in text and "2 of 3" in text


def test_vat_cannot_keep_the_rule_in_float32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arithmetic = {"ict": (2.0, 100), "vat": (9.0, 150), "supervised": (1.0, 670)}  # 670 GFLOP at 67 TFLOP a second
    rows = [step_row("cnn13", name, "fast", ms, gflop) for name, (ms, gflop) in arithmetic.items()]
    (tmp_path / "results/h200").mkdir(parents=True)
    (tmp_path / "results/h200/step.json").write_text(json.dumps({"rows": rows}))
    waves = {"tile": 64, "processors": 100, "share": {"cnn13": {"100": 0.5, "200": 0.75}}}
    (tmp_path / "results/waves.json").write_text(json.dumps(waves))
    monkeypatch.setattr(result_files, "ROOT", tmp_path)
    text = performance.limits()
    assert (
        "tiles of 64 by 64 numbers on 100 processors" in text and "50% of the GPU at 100 images and 75% at 200" in text
    )
    assert "is 670 GFLOP in float32, 10.0 ms" in text and "leave VAT 3.5 ms" in text  # 1.15 x 2 x 1.5 = 3.45


def test_variants_are_sorted_by_their_validation_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [
        {"id": name, "steps": 1200, "seconds": 3.6, "valid_error": error, "recipe": "a/b"}
        | {"set": ["train.steps=1200", "train.weight=9", "train.weight=3"]}
        | {"curve": [{"valid_error_student": 0.9, "valid_error_teacher": 0.9}, last]}
        for name, error, last in (
            (
                "worse",
                0.2,
                {"valid_error_student": 0.3, "valid_error_teacher": 0.05},
            ),  # that look was in half precision
            ("better", 0.1, {"valid_error_student": 0.25, "valid_error_teacher": 0.3}),
        )
    ]
    file = tmp_path / "task.jsonl"
    file.write_text("\n".join(map(json.dumps, made)))
    monkeypatch.setattr(research_log, "ROOT", tmp_path)
    *_, better, worse = research_log.tuning(file).splitlines()
    assert better == "| better | 1,200 | 4 | 10.00 | 25.00 | `a/b` | `train.weight=3` |"
    assert worse == "| worse | 1,200 | 4 | 20.00 | 30.00 | `a/b` | `train.weight=3` |"


def test_the_values_that_were_tried_are_shown_and_the_recipes_one_in_bold(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = (("ict", "svhn", 30.0, 0.21), ("ict", "svhn", 100.0, 0.1955), ("vat", "cifar10", 16.0, 0.1))
    rows = [dict(zip(("method", "dataset", "value", "valid_error"), row, strict=True)) for row in tried]
    monkeypatch.setattr(research_log, "fair_runs", lambda: rows)
    cifar10, svhn = research_log.fair_tuning().split("`svhn-1000-fair`")
    assert "| `ict` | `train.weight` | 30: 21.00 | **100: 19.55** |" in svhn and "16:" not in svhn
    assert "| `vat` | `algorithm.epsilon` | **16: 10.00** |" in cifar10 and "30:" not in cifar10


def test_the_most_frequent_confusion_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = [[7, 0, 3], [1, 9, 0], [2, 0, 8]]
    run = {"recipe": "a/b", "seed": 4, "steps": 1000, "of": 2000, "table": table}
    about = {"device": "cpu", "machine": "m", "threads": 1, "versions": {"torch": "9"}, "finished": "2030-02-01T12:00"}
    (tmp_path / "results").mkdir()
    (tmp_path / "results/svhn-250-confused.json").write_text(json.dumps({"runs": [run], **about}))
    monkeypatch.setattr(result_files, "ROOT", tmp_path)
    assert "| `a/b` | 4 | 1,000 of 2,000 | 6 of 30 | 3 of 10 0s are taken for 2s |" in research_log.confused()


def test_every_text_has_its_place_in_a_document() -> None:
    texts = [(ROOT / name).read_text() for name in render.DOCUMENTS]
    places = [name for text in texts for name in re.findall(r"<!-- begin ([\w-]+) -->", text)]
    assert set(places) == set(render.BLOCKS)


def test_no_two_modules_have_a_text_of_one_name() -> None:
    """The later one would stand in both places."""
    names = [name for module in (performance, research_log, measured, summary) for name in module.BLOCKS]
    assert len(names) == len(set(names))


def test_pictures_are_those_of_the_runs(tmp_path: Path) -> None:
    measured.draw_pictures(published.read_runs(), tmp_path)
    drawn = sorted(tmp_path.glob("*.png"))
    assert drawn
    for path in drawn:
        new, old = (np.asarray(Image.open(folder / path.name)) for folder in (tmp_path, measured.PICTURES))
        assert np.array_equal(new, old)
