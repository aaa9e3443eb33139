"""ICT's cells for time to accuracy, and every method of the paper on equal terms: one number of updates for all.

Written as changes of the paper's recipes, by the keys of `--set`. Shifts and flips are the only augmentation. How the
settings were chosen, and which of them not by validation images of our own, is in docs/experiments.md.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ict.recipe import Part, Recipe

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
_TWO_MINUTES: Changes = {**_MUON, "train.steps": 35_500, "average.decay": 0.9985}
_ONE_MINUTE: Changes = {**_MUON, "train.steps": 17_700, "average.decay": 0.997}

# what a cell has of its own; lengths, here and above, are for 240 s on one H200 with room to spare, unless they say so
_CELLS: dict[str, Changes] = {
    "cifar10-1000": {**_TWO_MINUTES, "train.weight": 100.0, "algorithm.alpha": 1.0},
    "cifar10-2000": _TWO_MINUTES,
    "cifar10-4000": {},
    "svhn-250": {"train.steps": 36_000, "average.decay": 0.9985, "train.weight": 30.0},
    "svhn-500": {"train.steps": 36_000, "average.decay": 0.9985, "train.weight": 30.0},
    "svhn-1000": {},
    "cifar10-4000-wrn": {**_MUON, "train.steps": 60_000},
    "svhn-1000-wrn": {"train.steps": 66_000},
}
# the headline cell in less time, and the paper's two ablations of it within 60 s
_SHORTER: dict[str, Changes] = {"120s": _TWO_MINUTES, "60s": _ONE_MINUTE}
_ABLATED: dict[str, Changes] = {
    "60s-no-teacher": {**_ONE_MINUTE, "average.decay": None},
    "60s-plain-supervised": {**_ONE_MINUTE, "algorithm.mix_labeled": False},
}
_HEADLINE = "cifar10-4000"
_TUNED = (_HEADLINE, "svhn-1000")  # methods are compared there too

_FAIR_STEPS = 12_000  # within a minute on one H200, for all methods but VAT
# SGD: with Muon a student that is its own teacher falls apart, which would not be fair to half of the methods. An
# average that changes as fast as a run of this length needs, and as many looks as `ict compare` has
_FAIR: Changes = {"train.steps": _FAIR_STEPS, "average.decay": 0.996, "eval.every": _FAIR_STEPS // 20}

_NOTES = {
    "tuned": "The paper's cell for 240 s on one H200: settings of our own. docs/experiments.md: how they were chosen.",
    "untuned": "The paper's cell within 240 s on one H200: settings of the dataset's tuned cells, none chosen for it.",
    "weighed": "The paper's cell within 240 s on one H200: alpha and weight for few labels, the rest of other cells.",
    "shorter": "The cell's fast recipe for fewer seconds on one H200.",
    "ablated": "The cell's recipe for 60 s with one thing taken away.",
    "fair": "Data, augmentation, network, optimizer, batches and updates the same for every method of this comparison.",
}


def fast_recipes(paper: Mapping[str, Recipe]) -> Iterator[tuple[str, Recipe]]:
    """<cell>/ict-fast and its relatives, and <cell>-fair/<method>, from the paper's recipes by name."""
    for cell, own in _CELLS.items():
        recipe = _changed(_based(paper[f"{cell}/ict"]), own)
        chosen = "tuned" if cell in _TUNED else "weighed" if "train.weight" in own else "untuned"
        yield f"{cell}/ict-fast", replace(recipe, note=_NOTES[chosen])
        if cell == _HEADLINE:
            for kind, variants in (("shorter", _SHORTER), ("ablated", _ABLATED)):
                for name, changes in variants.items():
                    yield f"{cell}/ict-fast-{name}", replace(_changed(recipe, changes), note=_NOTES[kind])
    for cell in _TUNED:
        recipe = replace(_changed(_based(paper[f"{cell}/ict"]), _FAIR), note=_NOTES["fair"])
        for method, (algorithm, changes) in _methods(recipe).items():
            yield f"{cell}-fair/{method}", _changed(replace(recipe, algorithm=algorithm), changes)


def _based(paper: Recipe) -> Recipe:
    """The dataset's fast settings in a cell of the paper, whose alpha, weight and split stay."""
    network = _CNN13 if paper.network.name == "cnn13" else {}
    return _changed(replace(paper, reported=None), {**_BASES[paper.dataset.name], **network})


def _methods(ict: Recipe) -> dict[str, tuple[Part, Changes]]:
    """Each method's algorithm and settings of its own.

    Weights are those of the sources, as `baselines` has them, where each loss is a mean over its own batch: there the
    labels are one image in twelve or fewer of a batch that all losses are divided by.
    """
    alpha = ict.algorithm.options["alpha"]
    epsilon = {"cifar10": 8.0, "svhn": 7.0}[ict.dataset.name]  # Miyato et al.'s 3.5, in inputs of twice the size
    alone: Changes = {"average.decay": None}
    evaluated: Changes = {"average.batchnorm": "averaged"}  # an average that nothing but the evaluation runs

    def own(weight: float, **others: Any) -> Changes:
        return {**alone, "train.weight": weight, **{f"train.{key}": value for key, value in others.items()}}

    return {
        "supervised": (Part("supervised"), alone),
        "mixup": (Part("mixup", {"alpha": alpha}), alone),
        "manifold-mixup": (Part("manifold-mixup", {"alpha": alpha, "depth": 3}), alone),
        "pi": (Part("pi"), own(100.0)),
        "temporal-ensembling": (Part("temporal-ensembling"), own(30.0)),
        "mean-teacher": (Part("mean-teacher"), {"train.weight": 100.0}),
        "vat": (Part("vat", {"epsilon": epsilon}), own(1.0, rampup=0.0)),
        "vat-ent": (Part("vat", {"epsilon": epsilon, "entropy": 1.0}), own(1.0, rampup=0.0)),
        "vadd-kl": (Part("vadd", {"distance": "kl"}), own(1.0)),
        "vadd-qe": (Part("vadd", {"distance": "mse"}), own(25.0)),
        "sntg-pi": (Part("sntg", {"base": "pi"}), {"train.weight": 100.0, **evaluated}),
        "sntg-te": (Part("sntg", {"base": "temporal-ensembling"}), {"train.weight": 30.0, **evaluated}),
        "sntg-mt": (Part("sntg", {"base": "mean-teacher"}), {"train.weight": 100.0}),
        "mt-fast-swa": (
            Part("mean-teacher"),
            {
                "train.weight": 100.0,
                "average.decay": 0.97,
                # as on digits: the source's 150 of 1200 epochs leave too little of a run this short before the mean
                "rate.shape": "cyclic",
                "rate.cycle_from": 0.7,
                "rate.cycle": 0.1,
                "swa.start": 0.5,
                "swa.every": 0.01,
            },
        ),
        "ict": (ict.algorithm, {}),
    }


def _changed(recipe: Recipe, changes: Changes) -> Recipe:
    """As `change` does, but of values instead of texts and without loading a part's class."""
    for key, value in changes.items():
        section, name = key.split(".")
        old = getattr(recipe, section)
        new: Any = (
            Part(old.name, {**old.options, name: value}) if isinstance(old, Part) else replace(old, **{name: value})
        )
        recipe = replace(recipe, **{section: new})
    return recipe
