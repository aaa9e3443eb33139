"""tools/render.py: numbers in the docs that are computed and not only copied, from made-up files counted by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
import render


def step_row(network: str, algorithm: str, version: str, ms: float, gflop: float) -> dict[str, Any]:
    return {"network": network, "algorithm": algorithm, "version": version, "ms": ms, "gflop": gflop}


def test_the_rule_measures_time_by_arithmetic_and_by_icts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        step_row("cnn13", "ict", "fast", 2.0, 100),
        step_row("cnn13", "ict", "streamed", 2.2, 100),
        step_row("cnn13", "supervised", "fast", 1.15, 50),  # a second share of 1.15 is just allowed
        step_row("cnn13", "vat", "fast", 9.0, 150),  # 4.5 times the time for 1.5 times the work
        step_row("cnn13", "vat", "fp32", 90.0, 150),
        step_row("wrn-28-2", "ict", "fast", 4.0, 10),
        step_row("wrn-28-2", "vat", "fast", 4.0, 20),
        {"network": "wrn-28-2", "algorithm": "vadd", "version": "fast", "failed": "no"},
    ]
    (tmp_path / "results/h200").mkdir(parents=True)
    (tmp_path / "results/h200/step.json").write_text(json.dumps({"rows": rows}))
    monkeypatch.setattr(render, "ROOT", tmp_path)
    text = render.rule()
    assert "at most 1.15 for 2 of 3 pairs" in text and "more for vat with cnn13 3.00." in text
    assert "takes 2.20 ms, 10% more" in text


def test_variants_are_sorted_by_their_validation_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [
        {"id": name, "steps": 1200, "seconds": 3.6, "valid_error": error, "set": ["train.steps=1200", "train.weight=3"]}
        | {"curve": [{"valid_error_student": 0.9, "valid_error_teacher": 0.9}, last]}
        for name, error, last in (
            ("worse", 0.2, {"valid_error_student": 0.3, "valid_error_teacher": 0.2}),
            ("better", 0.1, {"valid_error_student": 0.25, "valid_error_teacher": 0.1}),
        )
    ]
    file = tmp_path / "task.jsonl"
    file.write_text("\n".join(map(json.dumps, made)))
    monkeypatch.setattr(render, "ROOT", tmp_path)
    *_, better, worse = render.tuning(file).splitlines()
    assert better == "| better | 1,200 | 4 | 10.00 | 25.00 | `train.weight=3` |"
    assert worse == "| worse | 1,200 | 4 | 20.00 | 30.00 | `train.weight=3` |"
