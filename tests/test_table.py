"""The paper's tables beside our runs: which runs count, what is computed of them, and how it is printed."""

import csv
import io
import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest

from ict.base.errors import UserError
from ict.paper.table import table
from ict.recipes import RECIPES
from ict.recipes.recipe import change
from tests.test_cli import assert_refused, ict, imported_by

ICT, SNTG = "cifar10-4000/ict", "cifar10-4000/sntg-te"
ERRORS = {0: 0.0731, 1: 0.0727, 5: 0.0802}  # by seed


def result(recipe: str = ICT, seed: int = 0, test_error: float | None = 0.0731, **changes: Any) -> dict[str, Any]:
    """A run's result with what counts, and something that does not."""
    made = {
        "recipe": recipe,
        "recipe_id": RECIPES[recipe].resolved().hash,
        "seed": seed,
        "steps": RECIPES[recipe].train.steps,
        "test_error": test_error,
        "test_error_best": 0.5,
        "seconds": 30.0 + seed,
        "partial": False,
        "finished": "2026-01-02T00:00:00+00:00",
    }
    return made | changes


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three seeds of ICT and one of SNTG at 4000 labels, in folders as runs leave them and under names of their own."""
    for seed, error in ERRORS.items():
        write(tmp_path / f"ict/abc/seed{seed}/result.json", result(seed=seed, test_error=error))
    write(tmp_path / "sntg.json", result(SNTG, 2, 0.1))
    return tmp_path


def cell(folder: Path, method: str = "ICT", column: int = 2, name: str = "cifar10") -> dict[str, Any]:
    (row,) = (row for row in json.loads(table(name, "json", folder)) if row["method"] == method)
    found: dict[str, Any] = row["cells"][column]
    return found


def test_ours_is_mean_and_sample_deviation_over_seeds_in_percent(folder: Path) -> None:
    percents = [100 * error for error in ERRORS.values()]
    assert cell(folder) == {
        "column": "4000 labels",
        "recipe": ICT,
        "reported": {"mean": 7.29, "std": 0.02},
        "ours": {
            "mean": pytest.approx(mean(percents), abs=1e-4),
            "std": pytest.approx(stdev(percents), abs=1e-4),
            "seeds": [0, 1, 5],
            "seconds": 32.0,
            "against_paper": cell(folder)["ours"]["against_paper"],  # tests/test_difference.py
        },
        "fast_recipe": "cifar10-4000/ict-fast",
        "fast": None,
        "history": "",
    }
    sntg = {"mean": 10.0, "std": None, "seeds": [2], "seconds": 32.0, "against_paper": None}
    assert cell(folder, "SNTG")["ours"] == sntg, "the paper's rows of other methods are of many sources"
    assert cell(folder, "ICT", 0)["ours"] is None and cell(folder, "VAT", 0)["reported"] is None
    assert cell(folder, "VAT", 2)["reported"] == {"mean": 11.36, "std": None}
    ablated = {"fast_recipe": "cifar10-4000/ict-fast-60s"}  # whose ablations are in the table
    assert cell(folder, "ICT", 2, "ablations") == cell(folder) | ablated


@pytest.mark.parametrize(
    ("name", "method", "column", "recipe"),
    [
        ("cifar10", "ICT", 1, "cifar10-2000/ict-fast"),
        ("wrn", "ICT", 1, "svhn-1000-wrn/ict-fast"),
        ("ablations", "ICT", 1, "cifar10-2000/ict-fast"),
        ("ablations", "without the mean teacher", 2, "cifar10-4000/ict-fast-60s-no-teacher"),
        ("cifar10", "Mean Teacher", 2, "cifar10-4000-fair/mean-teacher"),
        ("svhn", "VAdD", 2, "svhn-1000-fair/vadd-kl"),
    ],
)
def test_a_fast_recipe_has_a_column_of_its_own(
    name: str, method: str, column: int, recipe: str, folder: Path, tmp_path: Path
) -> None:
    assert cell(folder, method, column, name)["fast"] is None
    for seed, error in enumerate((0.07, 0.08, 0.12)):
        write(tmp_path / f"fast{seed}.json", result(recipe, seed, error, seconds=50 + 10 * seed))
    found = cell(folder, method, column, name)
    assert found["fast_recipe"] == recipe and found["ours"] is None
    deviation = pytest.approx((7 / 1) ** 0.5, abs=1e-4)  # of 7, 8, 12: squares 4 + 1 + 9 over 2
    compared = found["fast"].pop("against_paper")
    assert found["fast"] == {"mean": 9.0, "std": deviation, "seeds": [0, 1, 2], "seconds": 60.0}
    assert (compared is not None) == (method in ("ICT", "without the mean teacher"))
    row, *_ = (line for line in lines(name, "md", folder) if line.startswith(f"| {method} |"))
    assert row.split(" | ")[3 * column + 3].removesuffix(" |") == "9.00 ± 2.65 (3; 60 s)"


def test_what_has_no_fast_recipe_says_so(folder: Path) -> None:
    assert cell(folder, "Mean Teacher", 0)["fast_recipe"] is None and cell(folder, "VAT", 0, "wrn")["fast"] is None


@pytest.mark.parametrize(
    "other",
    [
        {"recipe_id": "123456"},
        {"partial": True},
        {"test_error": None},
        {"test_error": float("nan")},
        {"test_error": -3.0},
        {"steps": 3},
        {"changed_at": [90_000]},
        {"recipe": "cifar10-2000/ict"},
        {"recipe": "mine"},
    ],
    ids=str,
)
def test_other_settings_partial_tests_and_other_recipes_do_not_count(other: dict[str, Any], folder: Path) -> None:
    before = cell(folder)
    write(folder / "other.json", result(seed=9, test_error=0.5) | other)
    assert cell(folder) == before


def test_a_run_with_a_changed_setting_has_another_id(folder: Path) -> None:
    before = cell(folder)
    changed = change(RECIPES[ICT], ["train.steps=100"])
    write(folder / "short.json", result(seed=9, test_error=0.5, recipe_id=changed.hash))
    assert cell(folder) == before
    same = change(RECIPES[ICT], ["train.steps=180000"])
    write(folder / "same.json", result(seed=9, test_error=0.5, recipe_id=same.hash))
    assert cell(folder)["ours"]["seeds"] == [0, 1, 5, 9]


@pytest.mark.parametrize("name", ["a.json", "zz/z.json"])
def test_the_last_run_of_a_seed_counts_whatever_its_file_is_called(name: str, folder: Path) -> None:
    write(folder / name, result(SNTG, 2, 0.3, finished="2026-01-03T00:00:00+00:00"))
    assert cell(folder, "SNTG")["ours"]["mean"] == 30.0
    write(folder / name, result(SNTG, 2, 0.3, finished="2026-01-01T00:00:00+00:00"))
    assert cell(folder, "SNTG")["ours"]["mean"] == 10.0


def test_other_json_files_are_no_results(folder: Path) -> None:
    before = cell(folder)
    others: list[Any] = [{"rows": []}, [], [result()], 3, None, {"recipe": ICT, "seed": 3}]
    for i, content in enumerate(others):
        write(folder / f"other{i}.json", content)
    (folder / "metrics.jsonl").write_text("{}\n{}")
    assert cell(folder) == before


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b""], ids=str)
def test_a_file_that_is_not_json_is_named(content: bytes, folder: Path) -> None:
    (folder / "broken.json").write_bytes(content)
    with pytest.raises(UserError, match=r"broken\.json"):
        table("cifar10", "text", folder)


def test_without_a_folder_it_has_the_packages_runs_and_those_under_results(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (*_, row) = json.loads(table("wrn", "json"))
    assert [c["ours"] for c in row["cells"]] == [None, None]
    files = Path(__file__).parent.parent / "results/h200"
    errors = [json.loads(p.read_text())["test_error"] for p in files.glob("svhn-1000-wrn-ict-fast-seed*.json")]
    assert row["cells"][1]["fast"]["mean"] == pytest.approx(100 * mean(errors), abs=1e-4)
    with pytest.raises(UserError, match="nowhere"):
        table("wrn", "json", Path("nowhere"))
    later = "2031-01-01T00:00:00+00:00"
    write(tmp_path / "results/run.json", result("svhn-1000-wrn/ict", 4, 0.04))
    write(tmp_path / "results/again.json", result("svhn-1000-wrn/ict-fast", 1, 0.5, finished=later))
    (*_, row) = json.loads(table("wrn", "json"))
    ours, fast = row["cells"][1]["ours"], row["cells"][1]["fast"]
    assert row["method"] == "ICT" and ours["mean"] == 4.0
    assert fast["seeds"] == [0, 1, 2] and fast["mean"] > 18, "the last run of a seed counts"
    (*_, row) = json.loads(table("wrn", "json", tmp_path / "results"))
    assert row["cells"][1]["fast"]["seeds"] == [1], "a folder that is named is all there is"


def test_it_works_where_only_the_package_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    text = table("cifar10")
    assert "10.36 ± 0.71 (3; 188 s)" in text and "lower" in text


def test_a_recipe_that_was_tuned_after_its_test_error_was_known_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    words = " ".join(table("wrn").split())
    assert "cifar10-4000-wrn/ict-fast: tuned again after its test error was known" in words
    assert "seed 0: 8.41, 8.19; seed 1: 7.94, 7.68" in words and "svhn-1000-wrn/ict-fast: tuned" not in words
    words = " ".join(table("svhn", "md").split())
    assert "before: 6.10 (" in words and "before: 4.51 (" in words and "optimizer.name=sgd" in words


def lines(name: str, style: Any, folder: Path) -> list[str]:
    return table(name, style, folder).splitlines()


def test_text_is_aligned(folder: Path) -> None:
    title, empty, above, heads, *rows = table("cifar10", "text", folder).split("\n\nAgainst")[0].splitlines()
    assert title == "Error rates (%) on CIFAR-10 using CNN-13" and empty == ""
    assert len(rows) == 12 and rows[-1].startswith("ICT ")
    starts = [i for i in range(len(heads)) if heads.startswith(("reported", "ours", "fast"), i)]
    assert len(starts) == 9 and [i for i in starts if above.startswith(tuple("124"), i)] == starts[::3]
    ends = [*starts[1:], None]
    cells = [row[a:b].strip() for row in rows for a, b in zip(starts, ends, strict=True)]
    assert cells[-9:] == ["15.48 ± 0.78", "-", "-", "9.26 ± 0.09", "-", "-", "7.29 ± 0.02", "7.53 ± 0.42 (3)", "-"]
    assert cells[9 * 6 :][:9] == ["-", "-", "-", "-", "-", "-", "11.36", "-", "-"]
    assert cells[9 * 9 + 7] == "10.00 (1)"
    assert all(row[i - 1] == " " != row[i] for row in rows for i in starts if i < len(row))


@pytest.mark.parametrize("name", ["cifar10", "svhn", "wrn", "ablations"])
def test_markdown_has_as_many_columns_in_every_line_as_text_has_cells(name: str, folder: Path) -> None:
    _, empty, *rows = table(name, "md", folder).split("\n\nAgainst")[0].splitlines()
    split = [[text.strip() for text in row.strip("|").split("|")] for row in rows]
    data = json.loads(table(name, "json", folder))
    assert empty == "" and {len(row) for row in split} == {1 + 3 * len(data[0]["cells"])}
    assert set(split[1]) == {"---"} and [row[0] for row in split[2:]] == [row["method"] for row in data]
    if name == "ablations":
        reported, ours, fast = split[2][1::3], split[2][2::3], split[2][3::3]
        assert reported == ["15.48 ± 0.78", "9.26 ± 0.09", "7.29 ± 0.02"]
        assert (ours, fast) == (["-", "-", "7.53 ± 0.42 (3)"], ["-", "-", "-"])


@pytest.mark.parametrize("name", ["cifar10", "svhn", "wrn", "ablations"])
def test_csv_has_the_numbers_of_json(name: str, folder: Path) -> None:
    write(folder / "fast.json", result("cifar10-4000/ict-fast", 1, 0.25))
    read = list(csv.DictReader(io.StringIO(table(name, "csv", folder))))
    data = [(row["method"], c) for row in json.loads(table(name, "json", folder)) for c in row["cells"]]
    assert len(read) == len(data)
    for line, (method, found) in zip(read, data, strict=True):
        assert (line["method"], line["column"], line["recipe"]) == (method, found["column"], found["recipe"])
        assert line["fast_recipe"] == (found["fast_recipe"] or "")
        reported = found["reported"] or {}
        numbers, texts = [reported.get("mean"), reported.get("std")], [line["reported"], line["reported_std"]]
        for whose in ("ours", "fast"):
            numbers += [(found[whose] or {}).get(key) for key in ("mean", "std", "seconds")]
            texts += [line[f"{whose}{key}"] for key in ("", "_std", "_seconds")]
            assert int(line[f"{whose}_seeds"]) == len((found[whose] or {}).get("seeds", []))
            against = (found[whose] or {}).get("against_paper") or {}
            numbers += [against.get(key) for key in ("points", "low", "high")]
            texts += [line[f"{whose}_{key}"] for key in ("difference", "low", "high")]
            assert line[f"{whose}_shown"] == against.get("shown", "")
        assert [float(text) if text else None for text in texts] == numbers


@pytest.mark.parametrize("style", ["text", "md", "csv", "json"])
def test_the_command_prints_it(
    style: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ict(monkeypatch, "table", "cifar10", "--format", style, "--results", folder) == 0
    assert capsys.readouterr().out == table("cifar10", style, folder) + "\n"
    if style == "text":
        assert ict(monkeypatch, "table", "cifar10", "--results", folder) == 0
        assert capsys.readouterr().out == table("cifar10", "text", folder) + "\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["cifar"], "cifar10"),
        (["cifar10", "--format", "tex"], "json"),
        (["cifar10", "--results", "nowhere"], "nowhere"),
        (["cifar10", "--results", "broken"], "broken.json"),
    ],
)
def test_a_mistake_is_told_with_exit_code_2(
    words: list[str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/broken.json").write_text("{")
    assert_refused(monkeypatch, capsys, tmp_path, says, "table", *words)
    if words[0] == "cifar":
        with pytest.raises(UserError, match="did you mean cifar10"):
            table("cifar")


def test_without_runs_under_results_it_does_not_wait_for_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "results/demo.json", {"rows": []})
    assert not imported_by("import ict.cli; ict.cli.main()", "table", "cifar10") & {"torch", "matplotlib"}
