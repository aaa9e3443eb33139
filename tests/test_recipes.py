"""Recipes as data: every one builds and runs, settings are parsed by type, mistakes are named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ict.base.errors import UserError
from ict.data.dataset import Dataset, Examples
from ict.engine.settings import Train
from ict.engine.step import update
from ict.experiment.prepare import load_data, prepare
from ict.experiment.run import default_folder
from ict.recipes import RECIPES, find
from ict.recipes.recipe import Component, Recipe, change, from_dict
from ict.recipes.reported import TABLES

CPU = torch.device("cpu")
METHODS = [
    "supervised", "mixup", "manifold-mixup", "pi", "temporal-ensembling", "mean-teacher", "vat", "vat-ent", "vadd-kl",
    "vadd-qe", "sntg-pi", "sntg-te", "sntg-mt", "mt-fast-swa", "ict", "ict-no-teacher", "ict-plain-supervised",
]  # fmt: skip
CELLS = ["cifar10-1000", "cifar10-2000", "cifar10-4000", "svhn-250", "svhn-500", "svhn-1000"]
WRN_METHODS = ["supervised", "pi", "mean-teacher", "vat", "vat-ent", "ict"]
WRN_CELLS = ["cifar10-4000-wrn", "svhn-1000-wrn"]
FAIR_CELLS = ["cifar10-4000-fair", "svhn-1000-fair"]
FAST = [f"cifar10-4000/ict-fast-{name}" for name in ("120s", "60s", "60s-no-teacher", "60s-plain-supervised")]

# A second copy of every number that the paper prints, made from its text and not from the code.
PRINTED = """
method                cifar10-1000  cifar10-2000  cifar10-4000  svhn-250    svhn-500    svhn-1000
supervised            39.95±0.75    31.16±0.66    21.75±0.46    40.62±0.95  22.93±0.67  15.54±0.61
mixup                 36.48±0.15    26.24±0.46    19.67±0.16    33.73±1.79  21.08±0.61  13.70±0.47
manifold-mixup        34.58±0.37    25.12±0.52    18.59±0.18    31.75±1.39  20.57±0.63  13.07±0.53
pi                    31.65±1.20    17.57±0.44    12.36±0.31    9.93±1.15   6.65±0.53   4.82±0.17
temporal-ensembling   23.31±1.01    15.64±0.39    12.16±0.24    12.62±2.91  5.12±0.13   4.42±0.16
mean-teacher          21.55±1.48    15.73±0.31    12.31±0.28    4.35±0.50   4.18±0.27   3.95±0.19
vat                   -             -             11.36         -           -           5.42
vat-ent               -             -             10.55         -           -           3.86
vadd-qe               -             -             11.32±0.11    -           -           -
vadd-kl               -             -             -             -           -           4.16±0.08
sntg-te               18.41±0.52    13.64±0.32    10.93±0.14    -           -           -
sntg-mt               -             -             -             4.29±0.23   3.99±0.24   3.86±0.27
mt-fast-swa           15.58         11.02         9.05          -           -           -
ict                   15.48±0.78    9.26±0.09     7.29±0.02     4.78±0.68   4.23±0.15   3.89±0.04
ict-no-teacher        19.56±0.56    14.35±0.15    11.19±0.14    -           -           -
ict-plain-supervised  14.86±0.39    9.02±0.12     8.23±0.22     -           -           -

method                cifar10-4000-wrn  svhn-1000-wrn
supervised            20.26±0.38        12.83±0.47
mean-teacher          15.87±0.28        5.65±0.47
vat                   13.86±0.27        5.63±0.20
vat-ent               13.13±0.39        5.35±0.19
ict                   7.66±0.17         3.53±0.07
"""


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


@pytest.mark.parametrize("cell", [*CELLS, *WRN_CELLS])
def test_the_authors_program_differs_from_the_papers_text_in_these_fields_alone(cell: str) -> None:
    """Each pair is (text, program), from the table of docs/deviations.md; all other fields are the same."""
    text, program = (flat(RECIPES[f"{cell}/{method}"]) for method in ("ict", "ict-program"))
    assert {key: (text[key], program[key]) for key in text if text[key] != program[key]} == {
        "algorithm.targets": ("probs", "logits"),
        "algorithm.logging_forwards": (False, True),
        "optimizer.nesterov": (True, False),
        "train.labeled_order": ("reshuffled", "repeated"),
        "eval.augmented_valid": (False, True),
    }
    assert text.keys() == program.keys()
    # the program's choices that both have
    shared = {"average.when": "after", "average.warmup": True, "average.batchnorm": "own", "split.unlabeled": "rest"}
    shared |= {"algorithm.pairs": "within", "algorithm.mix_labeled": True, "algorithm.consistency": "mse"}
    shared |= {"rate.stretch": 1.125, "train.rampup_from_zero": False, "optimizer.weight_decay": 1e-4}
    shared |= (
        {"inputs.scale": "half"} if cell.startswith("svhn") else {"inputs.scale": "channels", "inputs.zca": "authors"}
    )
    if cell.endswith("-wrn"):
        shared |= {"network.variant": "authors"}
    assert shared.items() <= program.items()
    # the page about deviations names them all, as one would write them after --set
    page = (Path(__file__).parent.parent / "docs/deviations.md").read_text()
    named = {key: program[key] for key in shared.keys() | {key for key in text if text[key] != program[key]}}
    del named["optimizer.weight_decay"]  # in the text and in the program
    for key, value in named.items():
        assert f"{key}={str(value).lower()}" in page, key


def flat(recipe: Recipe) -> dict[str, object]:
    """Every field by its key."""
    sections = recipe.resolved().to_dict().items()
    return {f"{section}.{key}": value for section, values in sections for key, value in values.items()}


def test_every_printed_number_is_a_recipes_and_no_other() -> None:
    printed: dict[str, str] = {}
    for block in PRINTED.strip().split("\n\n"):
        (_, *cells), *rows = (line.split() for line in block.splitlines())
        for method, *numbers in rows:
            printed |= {f"{c}/{method}": n for c, n in zip(cells, numbers, strict=True) if n != "-"}
    reported = {name: recipe.reported for name, recipe in RECIPES.items() if recipe.reported}
    told = {n: f"{r.mean:.2f}" + ("" if r.std is None else f"±{r.std:.2f}") for n, r in reported.items()}
    assert told == printed


def test_every_method_has_a_recipe_in_every_cell() -> None:
    cells = [f"{cell}/{method}" for cell in CELLS for method in METHODS]
    cells += [f"{cell}/{method}" for cell in WRN_CELLS for method in WRN_METHODS]
    cells += [f"{cell}/{method}" for cell in FAIR_CELLS for method in METHODS[:15]]
    cells += [*(f"{cell}/{method}" for cell in (*CELLS, *WRN_CELLS) for method in ("ict-fast", "ict-program")), *FAST]
    assert sorted(cells) == sorted(name for name in RECIPES if name.startswith(("cifar10", "svhn")))
    for name in cells:
        recipe = RECIPES[name]
        dataset, labels = name.split("/")[0].split("-")[:2]
        assert recipe.dataset.name == dataset and recipe.split.labeled == int(labels), name
        assert recipe.network.name == ("wrn-28-2" if "-wrn" in name else "cnn13"), name
        assert recipe.split.valid == {"cifar10": 5000, "svhn": 1000}[dataset], name
        assert recipe.note.endswith(".") and "\n" not in recipe.note, name


def test_a_tables_cells_are_recipes_whose_numbers_the_paper_prints() -> None:
    assert list(TABLES) == ["cifar10", "svhn", "wrn", "ablations"]
    shown = {name for table in TABLES.values() for row in table.rows for name in row.cells if name}
    assert {name for name, recipe in RECIPES.items() if recipe.reported} <= shown <= set(RECIPES)
    for table in TABLES.values():
        assert all(len(row.cells) == len(table.columns) for row in table.rows)
    titles = {row.cells[-1]: row.title for row in TABLES["svhn"].rows}
    assert titles["svhn-1000/vadd-kl"] == "VAdD" and titles["svhn-1000/sntg-mt"] == "SNTG"


# what the sources' programs say, as they count it: updates and epochs
SOURCES: dict[str, dict[str, object]] = {
    "cifar10-4000/pi": {
        "train.layout": "within", "train.unlabeled_batch": 100, "train.weight": 8.0, "train.steps": 150_000,
        "train.rampup": 80 / 300, "rate.shape": "gaussian", "rate.rampup": 80 / 300, "rate.rampdown": 50 / 300,
        "optimizer.name": "adam", "optimizer.lr": 0.003, "optimizer.final_momentum": 0.5, "optimizer.weight_decay": 0.0,
        "average.decay": None, "inputs.zca": "ridge", "inputs.zca_epsilon": 1e-5, "inputs.scale": "none",
        "inputs.augment": "inputs", "inputs.reflect": True, "inputs.flip": True, "inputs.shared_flip": True,
        "inputs.noise": 0.15, "network.norm": "mean-only", "network.norm_momentum": 0.001, "network.dropout": 0.5,
        "network.weight_norm": True, "algorithm.consistency_on": "all", "split.unlabeled": "rest",
    },
    "cifar10-1000/pi": {"train.weight": 2.0},
    "svhn-500/pi": {
        "train.weight": 100 * 500 / 73_257, "train.steps": 219_600, "inputs.scale": "image", "inputs.zca": "none",
        "inputs.flip": False, "inputs.pad": 2, "optimizer.lr": 0.003,
    },
    "cifar10-2000/temporal-ensembling": {"train.weight": 1.2, "optimizer.lr": 0.003, "algorithm.momentum": 0.6},
    "svhn-250/temporal-ensembling": {"train.weight": 30 * 250 / 73_257, "optimizer.lr": 0.001},
    "cifar10-2000/mean-teacher": {
        "train.layout": "within", "train.weight": 4.0, "train.steps": 150_000, "train.rampup": 40 / 150,
        "rate.rampdown": 25 / 150, "inputs.scale": "gcn", "inputs.zca_epsilon": 0.1, "inputs.shared_flip": False,
        "average.decay": 0.999, "average.warmup": False, "average.when": "before", "average.batchnorm": "own",
        "algorithm.consistency_on": "all",
    },
    "svhn-250/mean-teacher": {
        "train.layout": "joined", "train.labeled_batch": 1, "train.unlabeled_batch": 99, "train.weight": 1.0,
        "train.steps": 180_000, "rate.rampup": 40 / 180, "algorithm.consistency_on": "unlabeled",
    },
    "cifar10-4000/vat": {
        "train.layout": "apart", "train.labeled_batch": 32, "train.unlabeled_batch": 128, "train.weight": 1.0,
        "train.rampup": 0.0, "train.steps": 200_000, "rate.shape": "linear", "rate.rampdown": 40 / 500,
        "optimizer.lr": 1e-3, "algorithm.epsilon": 8.0, "algorithm.entropy": 0.0, "inputs.scale": "centered",
        "inputs.zca": "authors", "inputs.augment": "inputs", "inputs.reflect": False, "inputs.noise": 0.0,
        "network.weight_norm": False, "network.norm": "batch", "network.norm_momentum": 0.01,
        "network.top_norm": False,
    },
    "svhn-1000/vat-ent": {
        "train.steps": 48_000, "rate.rampdown": 40 / 120, "algorithm.epsilon": 3.5, "algorithm.entropy": 1.0,
        "algorithm.direction": "clean-perturbed", "inputs.zca": "none", "network.top_norm": True,
    },
    "cifar10-4000/vadd-qe": {
        "train.weight": 25.0, "train.steps": 120_000, "algorithm.distance": "mse", "algorithm.flips": 0.05,
        "algorithm.entropy": 1.0, "network.norm": "mean-only", "network.weight_norm": False, "inputs.noise": 0.15,
    },
    "svhn-1000/vadd-kl": {
        "train.weight": 1.0, "algorithm.distance": "kl", "network.norm": "batch", "network.top_norm": True,
        "inputs.noise": 0.0, "inputs.flip": False, "rate.rampdown": 50 / 300,
    },
    "cifar10-4000/sntg-te": {
        "algorithm.base": "temporal-ensembling", "algorithm.strength": 0.4, "train.weight": 2.4,
        "average.decay": 0.999, "average.batchnorm": "averaged",
    },
    "svhn-500/sntg-mt": {
        "algorithm.base": "mean-teacher", "algorithm.consistency_on": "unlabeled", "train.labeled_batch": 1,
        "average.batchnorm": "own",
    },
    "cifar10-4000/mt-fast-swa": {
        "train.steps": 1200 * 820, "train.layout": "joined", "train.labeled_batch": 50, "train.unlabeled_batch": 50,
        "train.weight": 100.0, "train.rampup": 5 / 1200, "split.unlabeled": "disjoint", "rate.shape": "cyclic",
        "rate.stretch": 0.175, "rate.cycle_from": 0.15, "rate.cycle": 0.025, "swa.start": 0.125, "swa.every": 0.0025,
        "average.decay": 0.97, "average.warmup": True, "optimizer.name": "sgd", "optimizer.weight_decay": 1e-4,
        "inputs.pad": 4, "inputs.reflect": True, "inputs.zca": "none", "algorithm.consistency_on": "all",
    },
    "svhn-250/mt-fast-swa": {"train.steps": 1200 * 1440, "inputs.flip": False},
    "cifar10-1000/manifold-mixup": {"algorithm.alpha": 0.2, "algorithm.depth": 3, "train.steps": 180_000},
    "cifar10-4000-wrn/supervised": {
        "train.layout": "apart", "train.labeled_batch": 100, "train.steps": 500_000, "optimizer.lr": 3e-3,
        "rate.shape": "step", "rate.rampdown": 0.2, "rate.drop": 0.2, "optimizer.final_momentum": None,
        "inputs.scale": "gcn", "inputs.zca": "ridge", "inputs.noise": 0.15, "network.variant": "oliver",
    },
    "svhn-1000-wrn/pi": {
        "optimizer.lr": 3e-4, "train.weight": 20.0, "train.rampup": 0.4, "train.layout": "joined",
        "algorithm.consistency_on": "unlabeled", "inputs.scale": "half", "inputs.noise": 0.0, "inputs.reflect": True,
    },
    "cifar10-4000-wrn/mean-teacher": {"optimizer.lr": 4e-4, "train.weight": 8.0, "average.decay": 0.95},
    "cifar10-4000-wrn/vat": {
        "optimizer.lr": 3e-3, "train.weight": 0.3, "algorithm.epsilon": 6.0, "algorithm.direction": "perturbed-clean",
        "train.labeled_batch": 50, "train.unlabeled_batch": 50,
    },
    "svhn-1000-wrn/vat-ent": {
        "algorithm.epsilon": 1.0, "algorithm.entropy": 0.1, "algorithm.entropy_of": "perturbed",
    },
    "cifar10-4000-wrn/ict": {"network.variant": "authors"},
}  # fmt: skip


@pytest.mark.parametrize("name", list(SOURCES))
def test_a_baseline_runs_as_its_source_did(name: str) -> None:
    settings = RECIPES[name].resolved().to_dict()
    found = {key: settings[key.split(".")[0]][key.split(".")[1]] for key in SOURCES[name]}
    assert found == pytest.approx(SOURCES[name])


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
    assert replace(recipe, name="other", note="a remark").hash == recipe.hash
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
    found = part.options[key] if isinstance(part, Component) else getattr(part, key)
    assert found == value and type(found) is type(value)


def test_a_part_can_be_replaced_and_brings_its_own_options() -> None:
    recipe = change(RECIPES["digits-100/ict"], ["algorithm=mixup", "algorithm.alpha=0.3", "network=mlp-wide"])
    assert recipe.algorithm == Component("mixup", {"alpha": 0.3})
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
    from ict.experiment.run_folder import Folder

    recipe = change(RECIPES["digits-100/ict"], ["train.steps=9"])
    Folder(tmp_path).create(recipe, 5, changed_at=[4])
    assert find(str(tmp_path / "recipe.json")).to_dict() == recipe.to_dict()


def test_sections_check_their_types() -> None:
    with pytest.raises(UserError, match="steps"):
        Train(steps="5")  # type: ignore[arg-type]


@pytest.mark.parametrize("setting", ["optimizer.lr=inf", "train.weight=inf", "inputs.noise=inf", "algorithm.alpha=inf"])
def test_an_infinite_setting_is_refused(setting: str) -> None:
    with pytest.raises(UserError, match=f"{setting.split('=')[0].split('.')[1]} is inf: .* and finite"):
        changed = change(RECIPES["digits-100/ict"], [setting])
        prepare(changed, 0, load_data(changed, 0), None, torch.device("cpu"))


def test_a_setting_that_came_later_is_part_of_the_hash_where_it_is_not_the_default() -> None:
    """The names of older runs hold: this one was computed before there was such a setting."""
    ran = json.loads(Path("results/h200/cifar10-4000-ict-fast-seed0.json").read_text())
    recipe = from_dict(ran["settings"], ran["recipe"])
    assert "turn" not in ran["settings"]["optimizer"] and recipe.hash == ran["recipe_id"]
    assert change(recipe, ["optimizer.turn=0.02"]).hash != recipe.hash
