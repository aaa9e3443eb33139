"""scikit-learn's digits with ten labels per class: all methods on the same small network, each with its own settings.

The settings were chosen by validation error, on other seeds than the reported ones. For each method 14 random settings
and about six by hand were tried, and the best again with more seeds and validation images; for supervised training and
ICT many more. No dropout, as in the paper's experiments. ICT does best with the plain supervised loss, as in the
paper's Algorithm 1.
"""

from collections.abc import Iterator
from dataclasses import replace

from ict.engine.settings import Anchor, Average, Eval, Inputs, Optimizer, Rate, Split, Swa, Train
from ict.recipes.recipe import Component, Recipe

_NO_AVERAGE = Average(decay=None)
_SLOW, _FAST = Optimizer(lr=0.1, weight_decay=2e-3), Optimizer(lr=0.2, weight_decay=1e-3)

_ICT = Recipe(
    dataset=Component("digits"),
    network=Component("convnet", {"width": 16}),
    algorithm=Component("ict", {"alpha": 1.0, "mix_labeled": False}),
    split=Split(labeled=100, valid=100, unlabeled="disjoint"),
    inputs=Inputs(pad=1),
    optimizer=_FAST,
    average=Average(decay=0.98),
    train=Train(steps=3000, labeled_batch=32, unlabeled_batch=100, weight=100.0),
    eval=Eval(every=100),
)


def digits_recipes() -> Iterator[tuple[str, Recipe]]:
    made = {**_supervised(), **_two_views(), **_adversarial(), **_graphs(), **_ict(), **_anchored()}
    for method, recipe in made.items():
        yield f"digits-100/{method}", recipe


def _supervised() -> dict[str, Recipe]:
    base = replace(_ICT, optimizer=_SLOW, average=_NO_AVERAGE, train=replace(_ICT.train, labeled_batch=16))
    return {
        "supervised": replace(base, algorithm=Component("supervised")),
        "mixup": replace(base, algorithm=Component("mixup", {"alpha": 0.5})),
        "manifold-mixup": replace(base, algorithm=Component("manifold-mixup", {"alpha": 0.5, "depth": 1})),
    }


def _two_views() -> dict[str, Recipe]:
    mean_teacher = replace(_ICT, algorithm=Component("mean-teacher"))
    return {
        "pi": _own(Component("pi"), _SLOW, weight=30.0),
        "temporal-ensembling": _own(Component("temporal-ensembling"), _SLOW, weight=100.0),
        "mean-teacher": mean_teacher,
        "mt-fast-swa": replace(
            mean_teacher,
            optimizer=Optimizer(lr=0.1, weight_decay=5e-3),
            rate=Rate(shape="cyclic", cycle_from=0.7, cycle=0.1),
            average=Average(decay=0.97),
            swa=Swa(start=0.5, every=0.01, batches=20),
            train=replace(_ICT.train, weight=300.0),
        ),
    }


def _adversarial() -> dict[str, Recipe]:
    entropy = {"flips": 0.1, "entropy": 0.1}
    return {
        "vat": _own(Component("vat", {"epsilon": 1.0}), Optimizer(lr=0.3, weight_decay=1e-3), weight=3.0),
        "vat-ent": _own(Component("vat", {"epsilon": 1.0, "entropy": 0.1}), _FAST, weight=3.0, rampup=0.0),
        "vadd-kl": _own(Component("vadd", {"distance": "kl", **entropy}), _SLOW, weight=3.0),
        "vadd-qe": _own(Component("vadd", {"distance": "mse", **entropy}), _FAST, weight=100.0),
    }


def _graphs() -> dict[str, Recipe]:
    """Without a teacher in the base, the average is used only for evaluation, so it runs in eval mode."""
    evaluated = Average(decay=0.98, batchnorm="averaged")
    bases = {
        "pi": ("pi", 0.1, _FAST, evaluated),
        "te": ("temporal-ensembling", 0.03, _SLOW, evaluated),
        "mt": ("mean-teacher", 0.1, _SLOW, Average(decay=0.98)),
    }
    return {
        f"sntg-{short}": replace(
            _ICT, algorithm=Component("sntg", {"base": base, "strength": k}), optimizer=optimizer, average=average
        )
        for short, (base, k, optimizer, average) in bases.items()
    }


def _ict() -> dict[str, Recipe]:
    """ICT, and variants of it without further tuning."""

    def variant(weight: float = 100.0, **options: object) -> Recipe:
        algorithm = Component("ict", {**_ICT.algorithm.options, **options})
        return replace(_ICT, algorithm=algorithm, train=replace(_ICT.train, weight=weight))

    return {
        "ict": _ICT,
        "ict-mixed-labels": variant(mix_labeled=True, alpha=0.5),
        "ict-no-teacher": replace(_ICT, average=_NO_AVERAGE),
        "ict-hidden": variant(depth=2),
        "ict-dropout": replace(_ICT, network=Component("convnet", {"width": 16, "dropout": 0.25})),
        # the gradient of cross-entropy or KL is about 10 times that of the mean squared error
        "ict-ce": variant(weight=10.0, consistency="ce"),
        "ict-kl": variant(weight=10.0, consistency="kl"),
        "ict-sharpened": variant(temperature=0.5),
    }


def _anchored() -> dict[str, Recipe]:
    """A perceptron that follows experts; settings from other tables than these digits, none of them tuned here."""
    anchored = replace(
        _ICT,
        network=Component("mlp-norm", {"dropout": 0.1}),
        algorithm=Component("anchored"),
        inputs=Inputs(),
        optimizer=Optimizer(name="adamw", lr=2e-3, weight_decay=0.01),
        rate=Rate(stretch=1.0),
        average=Average(decay=0.99, batchnorm="averaged"),
        train=Train(steps=600, labeled_batch=50, unlabeled_batch=200, labeled_order="replaced", weight=1.0, rampup=0.0),
    )
    # a small alpha, since long mixes leave the thin shapes that a graph follows: on two moons 1 costs two points
    graph = replace(anchored, algorithm=Component("anchored", {"alpha": 0.1}), anchor=Anchor(experts="graph"))
    return {"anchored": anchored, "anchored-graph": graph}


def _own(algorithm: Component, optimizer: Optimizer, weight: float, rampup: float = 0.25) -> Recipe:
    """A method without a teacher."""
    train = replace(_ICT.train, weight=weight, rampup=rampup)
    return replace(_ICT, algorithm=algorithm, optimizer=optimizer, average=_NO_AVERAGE, train=train)
