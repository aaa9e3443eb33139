"""The recipes for time to accuracy, and the comparison on equal terms: what they may change and what they may not."""

from dataclasses import replace

import pytest

from ict.engine.settings import Inputs
from ict.paper.compare import PAPER, enter
from ict.recipes import RECIPES
from ict.recipes.fast import changed
from ict.recipes.recipe import change

FAIR = ["cifar10-4000-fair", "svhn-1000-fair"]
FAST = [name for name in RECIPES if "/ict-fast" in name]


@pytest.mark.parametrize("name", FAST)
def test_a_fast_recipe_has_the_papers_data_split_and_shifts_and_flips_alone(name: str) -> None:
    cell = name.partition("/")[0]
    fast, paper = RECIPES[name], RECIPES[f"{cell}/ict"]
    assert (fast.dataset, fast.split, fast.network.name) == (paper.dataset, paper.split, paper.network.name)
    assert fast.algorithm.name == "ict" and fast.reported is None
    shifts = Inputs(pad=fast.inputs.pad, reflect=fast.inputs.reflect, flip=paper.inputs.flip, scale=paper.inputs.scale)
    assert fast.inputs == shifts
    assert fast.eval == replace(paper.eval, every=fast.eval.every), "the validation images as they are, all test images"


def test_the_ablations_take_away_one_thing_each() -> None:
    fast = RECIPES["cifar10-4000/ict-fast-60s"].resolved()
    for name, setting in (("no-teacher", "average.decay=none"), ("plain-supervised", "algorithm.mix_labeled=false")):
        ablated = RECIPES[f"cifar10-4000/ict-fast-60s-{name}"].resolved()
        assert ablated.to_dict() == change(fast, [setting]).to_dict() != fast.to_dict()
    steps = [RECIPES[f"cifar10-4000/ict-fast{name}"].train.steps for name in ("", "-120s", "-60s")]
    assert steps[0] > steps[1] > steps[2]


@pytest.mark.parametrize("task", FAIR)
def test_the_fair_comparison_is_fair(task: str) -> None:
    recipes = {method: RECIPES[f"{task}/{method}"].resolved().to_dict() for method in PAPER}
    ict = recipes["ict"]
    for method, recipe in recipes.items():
        for section in ("dataset", "split", "inputs", "network", "optimizer", "eval"):
            assert recipe[section] == ict[section], (method, section)
        own = ("weight", "rampup")
        assert {k: v for k, v in recipe["train"].items() if k not in own} == {
            k: v for k, v in ict["train"].items() if k not in own
        }
        if method != "mt-fast-swa":  # whose mean is made over cycles of the rate
            assert (recipe["rate"], recipe["swa"]) == (ict["rate"], ict["swa"])
    base = RECIPES[f"{task.removesuffix('-fair')}/ict-fast"].resolved().to_dict()
    assert all(ict[section] == base[section] for section in ("dataset", "split", "inputs", "network", "algorithm"))


@pytest.mark.parametrize("task", FAIR)
def test_single_runs_are_the_comparisons_runs(task: str) -> None:
    entries = enter(task, None, None, [])
    assert [entry.method for entry in entries] == list(PAPER)
    for entry in entries:
        assert entry.remark == ""
        assert entry.recipe.hash == RECIPES[f"{task}/{entry.method}"].resolved().hash


def test_changes_by_value_are_those_of_set() -> None:
    paper = RECIPES["cifar10-4000/ict"]
    values = {"network.weight_norm": False, "inputs.zca": "none", "average.decay": None, "train.steps": 7}
    texts = ["network.weight_norm=false", "inputs.zca=none", "average.decay=none", "train.steps=7"]
    assert changed(paper, values).resolved() == change(paper, texts)
