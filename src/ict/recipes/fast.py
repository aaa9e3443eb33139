"""ICT's cells with settings for the shortest time to accuracy.

They are changes of the paper's recipes, by the keys of `--set`. The only augmentation is shifts and flips.
research/LOG.md describes how the settings were chosen, and which of them not on our own validation images.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ict.recipes.recipe import Component, Recipe

Changes = Mapping[str, Any]

_COMMON: Changes = {
    "inputs.reflect": True,
    "optimizer.weight_decay": 5e-4,
    "rate.stretch": 1.0,
    "average.decay": 0.999,
    "train.rampup": 0.4,
    "train.steps": 72_000,
    "eval.every": 2000,
}
_BASES: dict[str, Changes] = {
    "cifar10": {**_COMMON, "inputs.zca": "none", "inputs.pad": 4},
    "svhn": {**_COMMON, "inputs.pad": 2, "train.steps": 84_000, "train.labeled_batch": 50},
}
_CNN13: Changes = {"network.weight_norm": False}

_MUON: Changes = {"optimizer.name": "muon", "optimizer.turn": 0.01, "optimizer.momentum": 0.95}
_LINEAR: Changes = {"rate.shape": "linear", "rate.rampdown": 1.0}  # from the first update on
_TWO_MINUTES: Changes = {**_MUON, "train.steps": 35_500, "average.decay": 0.9985}
_ONE_MINUTE: Changes = {**_MUON, "train.steps": 17_700, "average.decay": 0.997}
_SVHN_WITH_FEW: Changes = {
    **_MUON,
    **_LINEAR,
    "train.steps": 36_000,
    "average.decay": 0.9985,
    "train.weight": 30.0,
    "train.rampup": 0.8,
}

# the changes of each cell; lengths, here and above, fit into 240 s on one H200 unless their names say otherwise
_CELLS: dict[str, Changes] = {
    "cifar10-1000": {**_TWO_MINUTES, "train.weight": 100.0, "algorithm.alpha": 1.0},
    "cifar10-2000": _TWO_MINUTES,
    "cifar10-4000": {},
    "svhn-250": _SVHN_WITH_FEW,
    "svhn-500": _SVHN_WITH_FEW,
    "svhn-1000": {},
    "cifar10-4000-wrn": {**_MUON, **_LINEAR, "train.steps": 60_000},
    "svhn-1000-wrn": {**_MUON, "train.steps": 40_000, "average.decay": 0.9985},
}
# the headline cell in less time, and the paper's two ablations of it in 60 s
_SHORTER: dict[str, Changes] = {"120s": _TWO_MINUTES, "60s": _ONE_MINUTE}
_ABLATED: dict[str, Changes] = {
    "60s-no-teacher": {**_ONE_MINUTE, "average.decay": None},
    "60s-plain-supervised": {**_ONE_MINUTE, "algorithm.mix_labeled": False},
}
_HEADLINE = "cifar10-4000"
TUNED = (_HEADLINE, "svhn-1000")  # on their own validation images; the comparison of methods uses them too
_COMPARED = ("cifar10-1000", "svhn-1000-wrn")  # likewise, fewer settings
_AGAIN = ("svhn-250", "svhn-500", "cifar10-4000-wrn")  # likewise, and again after their test errors were known

_NOTES = {
    "tuned": "The paper's cell in 240 s on one H200, with settings tuned for it; research/LOG.md describes how.",
    "compared": "The paper's cell in 240 s on one H200. A few settings were compared, the rest are of other cells.",
    "again": "The paper's cell in 240 s on one H200, tuned again after its test error was known (docs/results.md).",
    "untuned": "The paper's cell in 240 s on one H200, with the settings of the dataset's other cells.",
    "shorter": "The cell's fast recipe for fewer seconds on one H200.",
    "ablated": "The recipe for 60 s without one component; the paper's ablation has SGD and ten times the updates.",
}


def fast_recipes(paper: Mapping[str, Recipe]) -> Iterator[tuple[str, Recipe]]:
    """<cell>/ict-fast and its relatives, from the paper's recipes by name."""
    for cell, own in _CELLS.items():
        recipe = changed(based(paper[f"{cell}/ict"]), own)
        chosen = (
            "tuned" if cell in TUNED else "again" if cell in _AGAIN else "compared" if cell in _COMPARED else "untuned"
        )
        yield f"{cell}/ict-fast", replace(recipe, note=_NOTES[chosen])
        if cell == _HEADLINE:
            for kind, variants in (("shorter", _SHORTER), ("ablated", _ABLATED)):
                for name, changes in variants.items():
                    yield f"{cell}/ict-fast-{name}", replace(changed(recipe, changes), note=_NOTES[kind])


def based(paper: Recipe) -> Recipe:
    """A cell of the paper with the dataset's fast settings. Its alpha, weight and split stay."""
    network = _CNN13 if paper.network.name == "cnn13" else {}
    return changed(replace(paper, reported=None), {**_BASES[paper.dataset.name], **network})


def changed(recipe: Recipe, changes: Changes) -> Recipe:
    """Like `change`, but with values, not strings, and without importing a component's class."""
    for key, value in changes.items():
        section, name = key.split(".")
        old = getattr(recipe, section)
        new: Any = (
            Component(old.name, {**old.options, name: value})
            if isinstance(old, Component)
            else replace(old, **{name: value})
        )
        recipe = replace(recipe, **{section: new})
    return recipe
