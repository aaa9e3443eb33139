"""The other methods of the paper's tables with the settings of their own sources, as far as a recipe can express them.

All hold out ICT's validation images and train on the rest, since ICT's protocol chooses settings on them; most sources
train on everything. The number of updates is the source's. Lengths in epochs are written as fractions of a run.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ict.engine.settings import Average, Eval, Inputs, Optimizer, Rate, Split, Swa, Train
from ict.recipes.recipe import Component, Recipe

_N_TRAIN = {"cifar10": 50_000, "svhn": 73_257}
_NO_AVERAGE = Average(decay=None)
_VALIDATIONS = 200  # validation passes per run

# random shifts after scaling, as in all programs except fast-SWA's
_SHIFTED = Inputs(pad=2, augment="inputs")
_REFLECTED = replace(_SHIFTED, reflect=True, noise=0.15)
_GCN_ZCA = replace(_REFLECTED, flip=True, scale="gcn", zca="ridge", zca_epsilon=0.1)
_PER_IMAGE = replace(_REFLECTED, scale="image")

# Laine and Aila's network, and the optimizer of all programs that build on theirs
_MEAN_ONLY = Component("cnn13", {"norm": "mean-only", "norm_momentum": 0.001, "dropout": 0.5})
_ADAM = Optimizer(name="adam", lr=0.003, final_momentum=0.5, weight_decay=0.0)

# features of a source's program that a recipe cannot express
_DATA_INIT = "initial gains from the first batch (here He's)"
_EPOCH_RAMPS = "ramps that change once per epoch"
_MIYATO_NET = ("He initialization", "convolutions without bias")
_XI = "a step of 1e-6 for the perturbation's gradient (float32 needs 0.1)"

# how a source composes a batch and weights its losses
_FROM_ALL = "Batches of 100 from all images; the cross-entropy of the labeled ones is divided by 100."
_WEIGHT_SCALED = "The consistency weight is multiplied by labels / examples."
_JOINED = "{} labeled and {} other images in one batch; both losses are divided by 100."
_APART = "32 labeled and 128 unlabeled images; each loss is the mean over its own batch."

_HELD_OUT = {name: f"Holds out {n} validation images" for name, n in (("cifar10", "5,000"), ("svhn", "1,000"))}


def cnn13_rows(dataset: Component, split: Split) -> dict[str, Recipe]:
    """The other methods' rows of the first two tables, for one dataset and number of labels."""
    made = _laine(dataset, split) | _mean_teacher(dataset, split) | _vat(dataset, split) | _vadd(dataset, split)
    return made | _sntg(made) | _fast_swa(dataset, split)


def wrn_rows(dataset: Component, split: Split) -> dict[str, Recipe]:
    """Oliver et al.'s rows of the third table, and their Pi-model, which is not in the paper."""
    name, steps = dataset.name, 500_000
    inputs = {"cifar10": _GCN_ZCA, "svhn": replace(_SHIFTED, reflect=True, scale="half")}[name]
    base = Recipe(
        dataset=dataset,
        network=Component("wrn-28-2", {"variant": "oliver"}),
        algorithm=Component("supervised"),
        split=split,
        inputs=inputs,
        optimizer=Optimizer(name="adam", lr=3e-3, weight_decay=0.0),
        rate=Rate(shape="step", rampdown=100 / 500, drop=0.2),
        average=_NO_AVERAGE,
        train=Train(steps=steps, labeled_batch=50, unlabeled_batch=50, layout="joined", rampup=200 / 500),
        eval=Eval(every=steps // _VALIDATIONS),
    )
    held_out = {"cifar10": [], "svhn": [f"{_HELD_OUT[name]}, the source 7,326."]}[name]

    def made(algorithm: Component, missing: Sequence[str], lr: float, weight: float = 0.0, **changes: Any) -> Recipe:
        batch = [] if "layout" in changes else [_JOINED.format(50, 50)]
        return replace(
            base,
            algorithm=algorithm,
            optimizer=replace(base.optimizer, lr=lr),
            train=replace(base.train, weight=weight, **changes),
            note=_note("Oliver et al.'s program", missing, *batch, *held_out),
        )

    on_unlabeled = {"consistency_on": "unlabeled"}
    teacher, student = Average(decay=0.95, warmup=False, when="before"), "the student's error as the result"
    vat = {"epsilon": {"cifar10": 6.0, "svhn": 1.0}[name], "direction": "perturbed-clean"}
    entropy = {"entropy": 0.1, "entropy_of": "perturbed"}
    # VAT has its labels in a batch apart: Adam is invariant to a loss half as large, so only batch norm differs
    missing = ["new crops and noise for the perturbed pass", "batch norm over both halves of a batch", _XI]
    return {
        "supervised": made(Component("supervised"), [], 3e-3, layout="apart", labeled_batch=100),
        "pi": made(Component("pi", on_unlabeled), ["a second view without gradient"], 3e-4, 20.0),
        "mean-teacher": replace(made(Component("mean-teacher", on_unlabeled), [student], 4e-4, 8.0), average=teacher),
        "vat": made(Component("vat", vat), missing, 3e-3, 0.3, layout="apart"),
        "vat-ent": made(Component("vat", vat | entropy), missing, 3e-3, 0.3, layout="apart"),
    }


def _laine(dataset: Component, split: Split) -> dict[str, Recipe]:
    """The Pi-model and temporal ensembling: 300 epochs of batches drawn from all images."""
    name = dataset.name
    steps = 300 * (_N_TRAIN[name] // 100)
    zca = replace(_REFLECTED, flip=True, shared_flip=True, scale="none", zca="ridge", zca_epsilon=1e-5)
    pi = Recipe(
        dataset=dataset,
        network=_MEAN_ONLY,
        algorithm=Component("pi"),
        split=split,
        inputs={"cifar10": zca, "svhn": _PER_IMAGE}[name],
        optimizer=_ADAM,
        rate=Rate(shape="gaussian", rampup=80 / 300, rampdown=50 / 300),
        average=_NO_AVERAGE,
        train=Train(steps=steps, layout="within", weight=_scaled(100.0, name, split), rampup=80 / 300),
        eval=Eval(every=steps // _VALIDATIONS),
        note=_note(
            "Laine and Aila's program", [_DATA_INIT, _EPOCH_RAMPS], _FROM_ALL, _WEIGHT_SCALED, _trained_on(name)
        ),
    )
    ensembling = replace(
        pi,
        algorithm=Component("temporal-ensembling"),
        optimizer=replace(_ADAM, lr={"cifar10": 0.003, "svhn": 0.001}[name]),
        train=replace(pi.train, weight=_scaled(30.0, name, split)),
    )
    return {"pi": pi, "temporal-ensembling": ensembling}


def _mean_teacher(dataset: Component, split: Split) -> dict[str, Recipe]:
    """Batches of 100 from all images for CIFAR-10; one labeled image and 99 others for SVHN."""
    name = dataset.name
    steps = {"cifar10": 150_000, "svhn": 180_000}[name]
    weight = {"cifar10": _scaled(100.0, name, split), "svhn": 1.0}[name]
    train = Train(steps=steps, layout="within", weight=weight, rampup=40_000 / steps)
    if name == "svhn":
        train = replace(train, layout="joined", labeled_batch=1, unlabeled_batch=99)
    early = {"cifar10": [], "svhn": ["decay and beta2 of .99 in the first 40,000 updates"]}[name]
    batch = {"cifar10": [_FROM_ALL, _WEIGHT_SCALED], "svhn": [_JOINED.format(1, 99)]}[name]
    recipe = Recipe(
        dataset=dataset,
        network=_MEAN_ONLY,
        algorithm=Component("mean-teacher", {"consistency_on": {"cifar10": "all", "svhn": "unlabeled"}[name]}),
        split=split,
        inputs={"cifar10": _GCN_ZCA, "svhn": _PER_IMAGE}[name],
        optimizer=_ADAM,
        rate=Rate(shape="gaussian", rampup=40_000 / steps, rampdown=25_000 / steps),
        average=Average(decay=0.999, warmup=False, when="before"),
        train=train,
        eval=Eval(every=steps // _VALIDATIONS),
        note=_note("Tarvainen and Valpola's TensorFlow program", [_DATA_INIT, *early], *batch, _trained_on(name)),
    )
    return {"mean-teacher": recipe}


def _vat(dataset: Component, split: Split) -> dict[str, Recipe]:
    name = dataset.name
    epochs, decay = {"cifar10": (500, 40), "svhn": (120, 40)}[name]
    steps = 400 * epochs
    svhn = name == "svhn"
    unbalanced = ["labels drawn without regard to class"] if svhn else []
    vat = Recipe(
        dataset=dataset,
        network=Component("cnn13", {"weight_norm": False, "norm_momentum": 0.01, "dropout": 0.5, "top_norm": svhn}),
        algorithm=Component("vat", {"epsilon": 3.5 if svhn else 8.0}),
        split=split,
        inputs=_miyato_inputs(name),
        optimizer=replace(_ADAM, lr=1e-3),
        rate=Rate(shape="linear", rampdown=decay / epochs),
        average=_NO_AVERAGE,
        train=Train(steps=steps, labeled_batch=32, unlabeled_batch=128, weight=1.0, rampup=0.0),
        eval=Eval(every=steps // _VALIDATIONS),
        note=_note(
            _of_most("Miyato et al.'s program", name, split),
            [*_MIYATO_NET, _XI, *unbalanced],
            _APART,
            _trained_on(name),
        ),
    )
    entropy = Component("vat", {**vat.algorithm.options, "entropy": 1.0})
    return {"vat": vat, "vat-ent": replace(vat, algorithm=entropy)}


def _vadd(dataset: Component, split: Split) -> dict[str, Recipe]:
    """Park et al.'s program: Miyato et al.'s with Laine and Aila's schedules."""
    name, steps = dataset.name, 300 * 400
    network: dict[str, Any] = {"weight_norm": False, "norm_momentum": 0.01, "dropout": 0.5}
    own: dict[str, dict[str, Any]] = {"cifar10": {"norm": "mean-only"}, "svhn": {"top_norm": True}}
    norm = {"cifar10": ["a gain in mean-only norm", "logits without it"], "svhn": []}[name]
    kl = Recipe(
        dataset=dataset,
        network=Component("cnn13", network | own[name]),
        algorithm=Component("vadd", {"distance": "kl"}),
        split=split,
        inputs=replace(_miyato_inputs(name), noise={"cifar10": 0.15, "svhn": 0.0}[name]),
        optimizer=_ADAM,
        rate=Rate(shape="gaussian", rampup=80 / 300, rampdown=50 / 300),
        average=_NO_AVERAGE,
        train=Train(steps=steps, labeled_batch=32, unlabeled_batch=128, weight=1.0, rampup=80 / 300),
        eval=Eval(every=steps // _VALIDATIONS),
        note=_note(
            _of_most("Park et al.'s program", name, split),
            [*_MIYATO_NET, *norm, _EPOCH_RAMPS],
            _APART,
            _trained_on(name),
        ),
    )
    qe = replace(kl, algorithm=Component("vadd", {"distance": "mse"}), train=replace(kl.train, weight=25.0))
    # the variant that the paper quotes
    quoted = {"cifar10": "QE", "svhn": "KL"}[name]
    return {
        "vadd-kl": replace(kl, note=f"The KL variant; the paper quotes {quoted} here. {kl.note}"),
        "vadd-qe": replace(qe, note=f"The QE variant; the paper quotes {quoted} here. {qe.note}"),
    }


_SNTG_NOTES = {
    "pi": "Luo et al.'s program on top of the Pi-model, evaluated with an average of the weights.",
    "temporal-ensembling": "Luo et al.'s program on temporal ensembling, evaluated with an average of the weights.",
    "mean-teacher": "Luo et al.'s loss on the mean teacher, which their program lacks, as strong as on the others.",
}
_SNTG_QUOTED = {"cifar10": "temporal ensembling", "svhn": "the mean teacher"}


def _sntg(bases: dict[str, Recipe]) -> dict[str, Recipe]:
    """Luo et al.'s loss on top of another method. On top of the first two they evaluate an average of the weights."""
    average = Average(decay=0.999, warmup=False, batchnorm="averaged")
    made = {}
    for short, base in (("pi", "pi"), ("te", "temporal-ensembling"), ("mt", "mean-teacher")):
        recipe = bases[base]
        made[f"sntg-{short}"] = replace(
            recipe,
            algorithm=Component("sntg", {**recipe.algorithm.options, "base": base}),
            average=recipe.average if base == "mean-teacher" else average,
            note=f"{_SNTG_NOTES[base]} The paper quotes it on {_SNTG_QUOTED[recipe.dataset.name]}. {recipe.note}",
        )
    return made


_SMALLER_EPOCH = "An epoch is a pass over the remaining images."


def _fast_swa(dataset: Component, split: Split) -> dict[str, Recipe]:
    """1200 epochs; an epoch is one pass over the unlabeled images in batches of 50."""
    name = dataset.name
    steps = 1200 * ((_N_TRAIN[name] - split.valid - (split.labeled or 0)) // 50)
    source = {
        "cifar10": _of_most("Athiwaratkun et al.'s program", name, split),
        "svhn": "Athiwaratkun et al.'s program for CIFAR-10 without the flip",
    }[name]
    held_out = {"cifar10": _trained_on(name), "svhn": f"{_HELD_OUT[name]}."}[name]
    batch = _JOINED.format(50, 50)
    recipe = Recipe(
        dataset=dataset,
        network=Component("cnn13", {"dropout": 0.5}),
        algorithm=Component("mean-teacher"),
        split=replace(split, unlabeled="disjoint"),
        inputs=Inputs(pad=4, reflect=True, flip=name == "cifar10"),
        optimizer=Optimizer(),  # ICT took this optimizer from fast-SWA
        rate=Rate(shape="cyclic", stretch=210 / 1200, cycle_from=180 / 1200, cycle=30 / 1200),
        average=Average(decay=0.97),
        swa=Swa(start=150 / 1200, every=3 / 1200),
        train=Train(steps=steps, labeled_batch=50, unlabeled_batch=50, layout="joined", weight=100.0, rampup=5 / 1200),
        eval=Eval(every=steps // _VALIDATIONS),
        note=_note(source, ["a second head for consistency", _EPOCH_RAMPS], batch, held_out, _SMALLER_EPOCH),
    )
    return {"mt-fast-swa": recipe}


def _miyato_inputs(name: str) -> Inputs:
    """Scaled and whitened images, then padded with zeros."""
    centered = replace(_SHIFTED, scale="centered")
    return {"cifar10": replace(centered, flip=True, zca="authors"), "svhn": centered}[name]


def _scaled(weight: float, name: str, split: Split) -> float:
    """The weight times the labeled fraction of the whole training set, as Laine and Aila scale it."""
    return weight * (split.labeled or 0) / _N_TRAIN[name]


def _of_most(source: str, name: str, split: Split) -> str:
    """The name of a source that has settings only for the largest number of labels."""
    most = {"cifar10": 4000, "svhn": 1000}[name]
    return source if split.labeled == most else f"{source} for {most} labels"


def _trained_on(name: str) -> str:
    return f"{_HELD_OUT[name]}, on which the source trained."


def _note(source: str, missing: Sequence[str], *others: str) -> str:
    """The source of a row's settings, what of the source is missing, and other sentences."""
    gaps = [f"Missing: {', '.join(missing)}."] if missing else []
    return " ".join([f"{source}.", *gaps, *others])
