"""research/fair.py: as much to try for every method, and the best of it in the recipes."""

import json
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import fair
import pytest
import research_log
import tune

from ict.paper.compare import PAPER
from ict.recipes import RECIPES
from ict.recipes.fair import OWN
from ict.recipes.recipe import change

SOURCE = fair.SOURCE.read_text()


def test_every_method_tries_as_many_values_in_runs_as_long_and_today_has_one_of_them() -> None:
    rows = fair.variants()
    counts = Counter((row["dataset"], row["method"]) for row in rows)
    tried = [method for method in PAPER if method != "supervised"]  # which has no setting of its own
    assert counts == {(dataset, method): 3 for dataset in ("cifar10", "svhn") for method in tried}
    changed = [change(RECIPES[row["recipe"]], row["set"]) for row in rows]
    assert {(recipe.train.steps, recipe.eval.every) for recipe in changed} == {(2000, 200)}
    assert {row["seed"] for row in rows}.isdisjoint({0, 1, 2})
    for row, recipe in zip(rows, changed, strict=True):
        before, own = RECIPES[row["recipe"]], OWN[row["method"]]
        assert (recipe.average.decay is None) == (before.average.decay is None)
        section, name = own[0].split(".")
        assert vars(getattr(recipe, section)).get("options", vars(getattr(recipe, section)))[name] == row["value"]
        assert own[1][row["dataset"]] in fair.TRIED[row["method"]][row["dataset"]]
    assert len({row["id"] for row in rows}) == len(rows)


def test_the_recipes_have_what_the_runs_found_best() -> None:
    rows = {row["id"]: row for row in research_log.fair_runs()}
    for wanted in fair.variants():
        assert rows[wanted["id"]].items() >= wanted.items(), "as it would be tried today"
    assert len(rows) == len(fair.variants())
    for method, (_, values) in OWN.items():
        for dataset, value in values.items():
            of_method = [row for row in rows.values() if (row["method"], row["dataset"]) == (method, dataset)]
            least = min(row["valid_error"] for row in of_method)
            assert value in [row["value"] for row in of_method if row["valid_error"] == least]


def result(method: str, dataset: str, value: float, error: float) -> dict[str, Any]:
    return {"method": method, "dataset": dataset, "value": value, "valid_error": error}


def test_the_best_values_are_written_into_the_recipes(tmp_path: Path) -> None:
    found = [
        *(result("pi", "svhn", value, error) for value, error in ((30.0, 0.3), (100.0, 0.2), (300.0, 0.1))),
        *(result("ict", "cifar10", value, error) for value, error in ((30.0, 0.2), (100.0, 0.2), (300.0, 0.3))),
        *(result("vat", "svhn", value, error) for value, error in ((3.5, 0.1), (7.0, 0.2), (14.0, 0.4))),
    ]
    chosen = fair.best(found)
    assert chosen == {("pi", "svhn"): 300.0, ("ict", "cifar10"): 100.0, ("vat", "svhn"): 3.5}
    (tmp_path / "fair.py").write_text(fair.with_values(SOURCE, chosen))
    own = runpy.run_path(str(tmp_path / "fair.py"))["OWN"]
    expected = {method: (key, dict(values)) for method, (key, values) in OWN.items()}
    expected["pi"][1]["svhn"], expected["vat"][1]["svhn"], expected["ict"][1]["cifar10"] = 300.0, 3.5, 100.0
    assert own == expected


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, variants, results = (tmp_path / name for name in ("fair.py", "variants.jsonl", "results.jsonl"))
    source.write_text(SOURCE)
    monkeypatch.setattr(fair, "SOURCE", source)
    monkeypatch.setattr("sys.argv", ["fair.py", "variants", str(variants)])
    fair.main()
    rows = tune.lines(variants)
    assert rows == fair.variants()
    worst_first = [{**row, "valid_error": 1 / (1 + row["value"])} for row in rows]
    results.write_text("\n".join(map(json.dumps, worst_first)))
    monkeypatch.setattr("sys.argv", ["fair.py", "choose", str(results)])
    fair.main()
    own = runpy.run_path(str(source))["OWN"]
    for method, of_dataset in fair.TRIED.items():
        assert own[method][1] == {dataset: max(values) for dataset, values in of_dataset.items()}
