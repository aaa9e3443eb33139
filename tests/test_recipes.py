"""Recipes as data: every one builds and runs, settings are parsed by type, mistakes are named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ict.data.dataset import Dataset, Examples
from ict.engine.step import update
from ict.errors import UserError
from ict.recipe import Part, Recipe, change, from_dict
from ict.recipes import RECIPES, find
from ict.run import default_folder, prepare
from ict.settings import Train

CPU = torch.device("cpu")


def made_up(recipe: Recipe) -> Dataset:
    """A few examples in the shape of the recipe's data."""
    shape, n_classes = {
        "moons": ((2,), 2),
        "digits": ((1, 8, 8), 10),
        "cifar10": ((3, 32, 32), 10),
        "svhn": ((3, 32, 32), 10),
    }[recipe.dataset.name]
    draws = torch.Generator().manual_seed(0)
    images = len(shape) == 3
    x = torch.randint(0, 256, (40, *shape), dtype=torch.uint8, generator=draws) if images else torch.randn(40, *shape)
    examples = Examples(x, torch.arange(40) % n_classes)
    return Dataset(examples, examples, tuple(map(str, range(n_classes))), labeled_rows=torch.arange(20))


@pytest.mark.parametrize("name", list(RECIPES))
def test_every_recipe_builds_and_runs_one_update(name: str) -> None:
    recipe = change(RECIPES[name], ["train.labeled_batch=2", "train.unlabeled_batch=2", "split.labeled=none"])
    if recipe.inputs.zca != "none":  # a fit over 3072 directions takes 10 s and is tested elsewhere
        recipe = replace(recipe, inputs=replace(recipe.inputs, zca="none"))
    job = prepare(recipe, 0, made_up(recipe), None, CPU)
    before = [p.clone() for p in job.state.student.parameters()]
    update(job.program, job.state)
    assert int(job.state.first_bad) == -1
    assert any(not torch.equal(a, b) for a, b in zip(before, job.state.student.parameters(), strict=True))


def test_the_papers_cells_carry_the_papers_settings_and_numbers() -> None:
    ict = RECIPES["cifar10-4000/ict"]
    assert ict.reported is not None and (ict.reported.mean, ict.reported.std) == (7.29, 0.02)
    assert (ict.split.labeled, ict.split.valid, ict.split.unlabeled) == (4000, 5000, "rest")
    assert (ict.train.steps, ict.train.weight, ict.algorithm.options["alpha"]) == (180_000, 100.0, 1.0)
    few = RECIPES["cifar10-1000/ict"]
    assert (few.train.weight, few.algorithm.options["alpha"]) == (10.0, 0.2)
    svhn = RECIPES["svhn-250/ict"]
    assert (svhn.inputs.flip, svhn.inputs.scale, svhn.inputs.zca, svhn.split.valid) == (False, "half", "none", 1000)
    assert svhn.algorithm.options["alpha"] == 0.1
    wrn = RECIPES["cifar10-4000-wrn/ict"]
    assert wrn.reported is not None and wrn.reported.mean == 7.66 and wrn.train.steps == 270_000
    assert RECIPES["cifar10-4000/ict-no-teacher"].average.decay is None
    assert RECIPES["cifar10-4000/ict-plain-supervised"].algorithm.options["mix_labeled"] is False


@pytest.mark.parametrize("name", list(RECIPES))
def test_json_round_trip_and_hash(name: str) -> None:
    recipe = RECIPES[name].resolved()
    again = from_dict(json.loads(json.dumps(recipe.to_dict())), name)
    assert again.to_dict() == recipe.to_dict() and again.hash == recipe.hash


def test_the_hash_sees_every_change_and_ignores_the_name() -> None:
    recipe = RECIPES["digits-100/ict"].resolved()
    hashes = {recipe.hash}
    for setting in ("algorithm.alpha=0.5", "network.width=8", "train.steps=7", "split.valid=0", "inputs.pad=2"):
        hashes.add(change(recipe, [setting]).hash)
    assert len(hashes) == 6
    assert replace(recipe, name="other").hash == recipe.hash
    folder = default_folder(recipe, 3)
    assert folder == Path("runs") / "digits-100-ict" / recipe.hash / "seed3"


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("train.steps=12", 12),
        ("train.weight=3", 3.0),
        ("optimizer.lr=1e-3", 0.001),
        ("average.decay=none", None),
        ("inputs.flip=yes", True),
        ("average.when=before", "before"),
        ("algorithm.alpha=0.25", 0.25),
        ("network.width=9", 9),
    ],
)
def test_settings_are_parsed_by_the_fields_type(setting: str, value: object) -> None:
    section, _, key = setting.partition("=")[0].partition(".")
    part: Any = getattr(change(RECIPES["digits-100/ict"], [setting]), section)
    found = part.options[key] if isinstance(part, Part) else getattr(part, key)
    assert found == value and type(found) is type(value)


def test_a_part_can_be_replaced_and_brings_its_own_options() -> None:
    recipe = change(RECIPES["digits-100/ict"], ["algorithm=mixup", "algorithm.alpha=0.3", "network=mlp-wide"])
    assert recipe.algorithm == Part("mixup", {"alpha": 0.3})
    assert recipe.network.name == "mlp-wide" and recipe.network.options["width"] == 256


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("train.step=5", "train.steps"),
        ("algoritm.alpha=1", "algorithm.alpha"),
        ("algorithm.alph=1", "algorithm.alpha"),
        ("algorithm=icd", "ict"),
        ("train.steps=many", "whole number"),
        ("train.steps=1.5", "whole number"),
        ("train.steps=0", "above 0"),
        ("inputs.flip=perhaps", "true or false"),
        ("average.when=later", "after, before"),
        ("average.decay=1.5", "below 1"),
        ("optimizer.lr=-1", "above 0"),
        ("train.pair_groups=3", "divide"),
        ("train.steps", "key=value"),
        ("inputs.pad=-1", "0 or more"),
        ("optimizer.momentum=0", "nesterov"),
        ("optimizer.momentum=1", "below 1"),
        ("optimizer.beta2=1.5", "below 1"),
        ("optimizer.weight_decay=-1", "0 or more"),
        ("eval.test_limit=0", "above 0"),
    ],
)
def test_a_wrong_setting_is_one_sentence_that_helps(setting: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        change(RECIPES["digits-100/ict"], [setting])
    assert "\n" not in str(caught.value)


def test_unknown_recipe_names_near_ones() -> None:
    with pytest.raises(UserError, match="did you mean cifar10-4000/ict"):
        find("cifar-4000/ict")


def test_a_recipe_file_can_build_on_another(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"base": "digits-100/ict", "train": {"steps": 9}, "algorithm": {"name": "mixup"}}))
    recipe = find(str(path))
    base = RECIPES["digits-100/ict"].resolved()
    assert recipe.name == "mine" and recipe.train == replace(base.train, steps=9)
    assert recipe.algorithm.name == "mixup" and "temperature" not in recipe.algorithm.options
    assert (recipe.network, recipe.optimizer) == (base.network, base.optimizer)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "JSON"),
        ("[]", "object"),
        ('{"train": {"steps": 5}}', "no dataset"),
        ('{"base": "digits-100/ict", "train": {"stepz": 5}}', "train.steps"),
        ('{"base": "digits-100/ict", "train": 5}', "object"),
        ('{"base": "digits-100/ict", "trane": {}}', "train"),
        ('{"base": "digits-100/ict", "train": {"steps": "5"}}', "whole number"),
        ('{"base": "nothing/ict"}', "unknown recipe"),
    ],
)
def test_a_wrong_recipe_file_is_named_with_its_mistake(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(UserError, match=says) as caught:
        find(str(path))
    assert "mine.json" in str(caught.value)


def test_a_runs_recipe_file_can_be_trained_again(tmp_path: Path) -> None:
    from ict.folder import Folder

    recipe = change(RECIPES["digits-100/ict"], ["train.steps=9"])
    Folder(tmp_path).create(recipe, 5)
    assert find(str(tmp_path / "recipe.json")).to_dict() == recipe.to_dict()


def test_sections_check_their_types() -> None:
    with pytest.raises(UserError, match="steps"):
        Train(steps="5")  # type: ignore[arg-type]
