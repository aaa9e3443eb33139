"""The recipes of the paper's two-moons figure."""

from collections.abc import Iterator
from dataclasses import replace

from ict.engine.settings import Anchor, Average, Eval, Inputs, Optimizer, Rate, Train
from ict.recipes.recipe import Component, Recipe


def moons_recipes() -> Iterator[tuple[str, Recipe]]:
    """The paper's figure. docs/moons.md describes how these settings were chosen."""
    supervised = Recipe(
        dataset=Component("moons"),
        network=Component("mlp"),
        algorithm=Component("supervised"),
        inputs=Inputs(scale="none"),
        optimizer=Optimizer(name="adam", lr=0.003),
        rate=Rate(shape="constant"),
        average=Average(decay=None),
        train=Train(steps=1000, labeled_batch=6, unlabeled_batch=100, weight=5.0, rampup=0.5),
        eval=Eval(every=100),
    )
    yield "moons/supervised", supervised
    ict = replace(supervised, average=Average(decay=0.9))
    yield (
        "moons/ict",
        replace(
            ict, algorithm=Component("ict", {"alpha": 0.05}), train=replace(ict.train, unlabeled_batch=200, weight=0.5)
        ),
    )
    sharpened = {"alpha": 0.03, "alpha_labeled": 1.0, "temperature": 0.3}
    yield "moons/ict-sharpened", replace(ict, algorithm=Component("ict", sharpened))
    yield (
        "moons/anchored-graph",
        replace(
            supervised,
            network=Component("mlp-norm", {"dropout": 0.1}),
            algorithm=Component("anchored", {"alpha": 0.1}),
            optimizer=Optimizer(name="adamw", lr=2e-3, weight_decay=0.01),
            rate=Rate(stretch=1.0),
            average=Average(decay=0.99, batchnorm="averaged"),
            train=Train(steps=600, labeled_batch=6, unlabeled_batch=200, weight=1.0, rampup=0.0),
            anchor=Anchor(experts="graph"),
        ),
    )
