"""research/tune.py: variants by their validation error, with the test set left out."""

import json
from pathlib import Path

import pytest
import tune

from ict.experiment.run import train

SETTINGS = ["train.steps=4", "network.width=4", "eval.every=2"]


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr("sys.argv", ["tune.py", *words, "--mode", "exact"])
    tune.main()


def test_each_variant_is_run_once_and_never_sees_the_test_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    variants, out = tmp_path / "variants.jsonl", tmp_path / "out.jsonl"
    rows = [
        {"id": name, "recipe": "digits-100/ict", "seed": 5, "set": [*SETTINGS, change]}
        for name, change in (("slow", "optimizer.lr=0.001"), ("quick", "optimizer.lr=0.2"))
    ]
    variants.write_text("\n".join(json.dumps(row) for row in rows[:1]))
    run(monkeypatch, str(variants), str(out))
    variants.write_text("\n".join(json.dumps(row) for row in rows))
    run(monkeypatch, str(variants), str(out))
    found = tune.lines(out)
    assert [row["id"] for row in found] == ["slow", "quick"]
    assert capsys.readouterr().out.count("slow: ") == 1
    for row in found:
        result = train("digits-100/ict", seed=5, settings=row["set"], device="cpu").result
        assert row["valid_error"] == result["valid_error"]
        assert [look["step"] for look in row["curve"]] == [2, 4]
    assert "test_error" not in out.read_text()


def test_no_run_begins_after_the_time_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variants, out = tmp_path / "variants.jsonl", tmp_path / "out.jsonl"
    variants.write_text(json.dumps({"id": "a", "recipe": "digits-100/ict", "seed": 0, "set": SETTINGS}))
    run(monkeypatch, str(variants), str(out), "--seconds", "-1")
    assert not out.exists()
