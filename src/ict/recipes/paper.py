"""The paper's table cells: ICT and its supervised baselines. The other methods are in `baselines`."""

from collections.abc import Iterator
from dataclasses import replace

from ict.engine.settings import Average, Eval, Inputs, Split, Train
from ict.recipes.baselines import cnn13_rows, wrn_rows
from ict.recipes.recipe import Component, Recipe
from ict.recipes.reported import REPORTED

_LABELS = {"cifar10": (1000, 2000, 4000), "svhn": (250, 500, 1000)}
_IMAGES = {
    # the unlabeled pool is everything except validation; an epoch is one pass over it in batches of 100
    "cifar10": Recipe(
        dataset=Component("cifar10"),
        network=Component("cnn13"),
        algorithm=Component("ict"),
        split=Split(valid=5000),
        inputs=Inputs(pad=2, flip=True, scale="channels", zca="authors"),
        train=Train(steps=400 * 450),
        eval=Eval(every=4 * 450),  # every fourth epoch: validation on 5,000 images costs as much as a dozen updates
    ),
    "svhn": Recipe(
        dataset=Component("svhn"),
        network=Component("cnn13"),
        algorithm=Component("ict"),
        split=Split(valid=1000),
        inputs=Inputs(pad=2, scale="half"),
        train=Train(steps=400 * 722),
        eval=Eval(every=722),
    ),
}

_NOTES = {
    "supervised": "The paper does not say how this row was trained: ICT's data, network and number of updates.",
    "mixup": "The paper does not say how this row was trained: ICT's data, network, alpha and number of updates.",
    "manifold-mixup": "The paper does not say how this row was trained: ICT's data, network, alpha and number of "
    "updates, mixed at the input or after one of the three blocks, as its program can.",
    "ict": "Settings of the paper's text or of its program; docs/deviations.md says which, and what is in neither.",
    "ict-no-teacher": "ICT's settings of this cell, with the student as its own teacher; reported for CIFAR-10 only.",
    "ict-plain-supervised": "ICT's settings of this cell, without mixing labeled examples; reported for CIFAR-10 only.",
}
_WRN_NOTE = "ICT's settings for the 13-layer network, as the paper says, for 600 epochs."


def paper_recipes() -> Iterator[tuple[str, Recipe]]:
    """Tables 1 to 3 and the ablations, by name."""
    for name, recipe in _cells():
        yield name, replace(recipe, reported=REPORTED.get(name))


def _cells() -> Iterator[tuple[str, Recipe]]:
    for name, counts in _LABELS.items():
        for labels in counts:
            ict = _ict(name, labels)
            cell = _supervised(ict) | cnn13_rows(ict.dataset, ict.split) | _ablated(ict)
            for method, recipe in cell.items():
                yield f"{name}-{labels}/{method}", replace(recipe, note=recipe.note or _NOTES[method])
        # the third table has only the most labels
        for method, recipe in wrn_rows(ict.dataset, ict.split).items():
            yield f"{name}-{labels}-wrn/{method}", recipe
        yield f"{name}-{labels}-wrn/ict", _wrn(ict)


def _ict(name: str, labels: int) -> Recipe:
    """ICT with the values that the paper's search chose."""
    # w = 100 and alpha = 1 (CIFAR-10) or .1 (SVHN), but 10 and .2 at 1000 CIFAR-10 labels
    few = (name, labels) == ("cifar10", 1000)
    alpha = 0.2 if few else {"cifar10": 1.0, "svhn": 0.1}[name]
    base = _IMAGES[name]
    return replace(
        base,
        split=replace(base.split, labeled=labels),
        algorithm=Component("ict", {"alpha": alpha}),
        train=replace(base.train, weight=10.0 if few else 100.0),
    )


def _supervised(ict: Recipe) -> dict[str, Recipe]:
    """Methods on labels only, with the same data, network and number of updates."""
    alpha = ict.algorithm.options["alpha"]
    algorithms = {
        "supervised": Component("supervised"),
        "mixup": Component("mixup", {"alpha": alpha}),
        "manifold-mixup": Component("manifold-mixup", {"alpha": alpha, "depth": 3}),
    }
    return {
        method: replace(ict, algorithm=algorithm, average=Average(decay=None))
        for method, algorithm in algorithms.items()
    }


def _ablated(ict: Recipe) -> dict[str, Recipe]:
    plain = Component("ict", {**ict.algorithm.options, "mix_labeled": False})
    return {
        "ict": ict,
        "ict-no-teacher": replace(ict, average=Average(decay=None)),
        "ict-plain-supervised": replace(ict, algorithm=plain),
    }


def _wrn(ict: Recipe) -> Recipe:
    steps = ict.train.steps * 600 // 400
    return replace(ict, network=Component("wrn-28-2"), train=replace(ict.train, steps=steps), note=_WRN_NOTE)
