"""All methods of the paper under one protocol: ICT's fast recipe of a cell, with the same updates for all."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ict.recipes.fast import TUNED, Changes, based, changed
from ict.recipes.recipe import Component, Recipe

_STEPS = 12_000  # within a minute on one H200, for all methods except VAT with entropy
# SGD, since ICT without its teacher collapses with Muon (on digits with mixed labels also with SGD), and other methods
# without a teacher might. The decay of the average suits the length of the run; validation is as frequent as in
# `ict compare`.
_COMMON: Changes = {"train.steps": _STEPS, "average.decay": 0.996, "eval.every": _STEPS // 20}
_NOTE = (
    "Data, augmentation, network, optimizer, batches and updates are the same for all methods of this comparison, and "
    "were tuned with ICT."
)

# The most important setting of each method and its value on each dataset, chosen by validation error in short runs.
# research/fair.py lists the values that were tried and writes these lines.
OWN: dict[str, tuple[str, dict[str, float]]] = {
    "mixup": ("algorithm.alpha", {"cifar10": 0.3, "svhn": 0.3}),
    "manifold-mixup": ("algorithm.alpha", {"cifar10": 1.0, "svhn": 0.3}),
    "pi": ("train.weight", {"cifar10": 30.0, "svhn": 300.0}),
    "temporal-ensembling": ("train.weight", {"cifar10": 10.0, "svhn": 30.0}),
    "mean-teacher": ("train.weight", {"cifar10": 30.0, "svhn": 30.0}),
    "vat": ("algorithm.epsilon", {"cifar10": 16.0, "svhn": 3.5}),
    "vat-ent": ("algorithm.epsilon", {"cifar10": 16.0, "svhn": 3.5}),
    "vadd-kl": ("train.weight", {"cifar10": 1.0, "svhn": 1.0}),
    "vadd-qe": ("train.weight", {"cifar10": 8.0, "svhn": 25.0}),
    "sntg-pi": ("train.weight", {"cifar10": 30.0, "svhn": 30.0}),
    "sntg-te": ("train.weight", {"cifar10": 10.0, "svhn": 30.0}),
    "sntg-mt": ("train.weight", {"cifar10": 30.0, "svhn": 30.0}),
    "mt-fast-swa": ("train.weight", {"cifar10": 30.0, "svhn": 100.0}),
    "ict": ("train.weight", {"cifar10": 30.0, "svhn": 100.0}),
}

_ALONE: Changes = {"average.decay": None}
_EVALUATED: Changes = {"average.batchnorm": "averaged"}  # the average is used only for evaluation
# the exact derivative (xi = 0): in fast mode a finite difference needs float32, which would take most of the time
_VAT: Changes = {**_ALONE, "train.weight": 1.0, "train.rampup": 0.0, "algorithm.xi": 0.0}
_SWA: Changes = {
    "average.decay": 0.97,
    # as on digits: with the source's 150 of 1200 epochs, the mean would start too early in so short a run
    "rate.shape": "cyclic",
    "rate.cycle_from": 0.7,
    "rate.cycle": 0.1,
    "swa.start": 0.5,
    "swa.every": 0.01,
}
_METHODS: dict[str, tuple[Component, Changes]] = {
    "supervised": (Component("supervised"), _ALONE),
    "mixup": (Component("mixup"), _ALONE),
    "manifold-mixup": (Component("manifold-mixup", {"depth": 3}), _ALONE),
    "pi": (Component("pi"), _ALONE),
    "temporal-ensembling": (Component("temporal-ensembling"), _ALONE),
    "mean-teacher": (Component("mean-teacher"), {}),
    "vat": (Component("vat"), _VAT),
    "vat-ent": (Component("vat", {"entropy": 1.0}), _VAT),
    "vadd-kl": (Component("vadd", {"distance": "kl"}), _ALONE),
    "vadd-qe": (Component("vadd", {"distance": "mse"}), _ALONE),
    "sntg-pi": (Component("sntg", {"base": "pi"}), _EVALUATED),
    "sntg-te": (Component("sntg", {"base": "temporal-ensembling"}), _EVALUATED),
    "sntg-mt": (Component("sntg", {"base": "mean-teacher"}), {}),
    "mt-fast-swa": (Component("mean-teacher"), _SWA),
}


def fair_recipes(paper: Mapping[str, Recipe]) -> Iterator[tuple[str, Recipe]]:
    """<cell>-fair/<method>, from the paper's recipes by name."""
    for cell in TUNED:
        ict = replace(changed(based(paper[f"{cell}/ict"]), _COMMON), note=_NOTE)
        for method, (algorithm, changes) in {**_METHODS, "ict": (ict.algorithm, {})}.items():
            key, values = OWN.get(method, ("", {}))
            own = {key: values[ict.dataset.name]} if values else {}
            yield f"{cell}-fair/{method}", changed(replace(ict, algorithm=algorithm), {**changes, **own})
