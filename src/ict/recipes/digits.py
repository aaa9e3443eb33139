"""The recipes of the demo: a small network on scikit-learn's digits."""

from collections.abc import Iterator
from dataclasses import replace

from ict.recipe import Part, Recipe
from ict.settings import Average, Eval, Inputs, Optimizer, Split, Train

_NO_AVERAGE = Average(decay=None)


def digits_recipes() -> Iterator[tuple[str, Recipe]]:
    """Ten labels a class of scikit-learn's digits; settings chosen by the validation error of other seeds.

    About as many settings were tried for the supervised network as for ICT, which does best with the plain supervised
    loss, as Algorithm 1 prints it. No dropout, as in the paper's experiments.
    """
    ict = Recipe(
        dataset=Part("digits"),
        network=Part("convnet", {"width": 16}),
        algorithm=Part("ict", {"alpha": 1.0, "mix_labeled": False}),
        split=Split(labeled=100, valid=100, unlabeled="disjoint"),
        inputs=Inputs(pad=1),
        optimizer=Optimizer(lr=0.2, weight_decay=1e-3),
        average=Average(decay=0.98),
        train=Train(steps=3000, labeled_batch=32, unlabeled_batch=100, weight=100.0),
        eval=Eval(every=100),
    )
    yield "digits-100/ict", ict
    yield "digits-100/ict-mixed-labels", replace(ict, algorithm=Part("ict", {"alpha": 0.5}))
    yield "digits-100/ict-no-teacher", replace(ict, average=_NO_AVERAGE)
    supervised = replace(
        ict,
        algorithm=Part("supervised"),
        optimizer=Optimizer(lr=0.03, weight_decay=5e-3),
        average=_NO_AVERAGE,
        train=replace(ict.train, labeled_batch=16),
    )
    yield "digits-100/supervised", supervised
    yield "digits-100/mixup", replace(supervised, algorithm=Part("mixup", {"alpha": 0.5}))
