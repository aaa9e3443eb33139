"""Methods on vectors side by side: what one cell of `tables.py` and `features.py` measures, and how cells are kept.

A cell is a data set, a number of labels a class and a seed. 30 % of the rows are held out to test, up to 2,000 others
are there to train on, and all but the labeled ones of those are unlabeled.
"""

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from cells import options, timed
from cells import run as run_cells
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from ict import ICTClassifier
from ict.base.rng import fold
from ict.data.array_inputs import fit_inputs, has_same_length
from ict.estimators.fitter import DISTILLED, Fitter
from ict.experts.experts import Experts, Kind
from ict.experts.graph import GraphPropagation

Array = NDArray[Any]
Sets = dict[str, Callable[[], tuple[Array, Array]]]
_TRAIN = 2000  # rows
TEST = 0.3

# Students of the experts' prior, by the settings in which they differ from anchored ICT.
MAIN = {"anchored": (), "supervised": ("train.weight=0",)}
VARIANTS = {
    "unmixed": ("algorithm.alpha=0.000001",),  # lambda is 0 or 1
    "unanchored": ("anchor.share=0", "anchor.fall=0"),
    "share .25": ("anchor.share=0.25",),
    "share .75": ("anchor.share=0.75",),
    "weight 3": ("train.weight=3",),
    "not sharpened": ("algorithm.temperature=1",),
    "distilled": DISTILLED,
}


@dataclass(frozen=True)
class Cell:
    data: str
    labels: int  # a class
    seed: int
    skewed: bool = False  # classes of the pool and of the labels, ten to one


def measure(
    cell: Cell, x: Array, truth: Array, variants: bool, trees: int = 200, steps: int | None = None
) -> dict[str, Any]:
    """Accuracies on new rows and on the unlabeled ones, in fractions, and CPU seconds."""
    x, x_test, truth, y_test = train_test_split(x, truth, test_size=TEST, stratify=truth, random_state=cell.seed)
    rows, labels = pool(truth, cell)
    x, truth = x[rows], truth[rows]
    scale = fit_inputs(x)
    inputs, new = scale(x), scale(x_test)
    known, n_classes = labels >= 0, int(labels.max()) + 1
    kind: Kind = "features" if has_same_length(inputs) else "table"
    accuracy: dict[str, dict[str, float]] = {}
    seconds: dict[str, float] = {}

    def add(name: str, predict: Callable[[Array], Array]) -> None:
        accuracy[name] = {
            "test": float((predict(new).argmax(1) == y_test).mean()),
            "unlabeled": float((predict(inputs[~known]).argmax(1) == truth[~known]).mean()),
        }

    with timed(seconds, "forest of 200"):
        RandomForestClassifier(200, random_state=cell.seed).fit(inputs[known], labels[known])
    for name, model in {
        "forest": RandomForestClassifier(100, random_state=cell.seed),
        "trees": ExtraTreesClassifier(100, random_state=cell.seed),
        "logistic": LogisticRegression(C=10 / x.shape[1] if kind == "features" else 1.0, max_iter=1000),
    }.items():
        with timed(seconds, name):
            model.fit(inputs[known].clip(-8, 8), labels[known])
        add(name, lambda z, model=model: model.predict_proba(z.clip(-8, 8)))  # type: ignore[misc]
    experts = Experts(kind=kind, trees=trees)
    with timed(seconds, "experts"):
        opinion = experts.fit(inputs, labels, n_classes, cell.seed)
    add("graph", GraphPropagation().fit(inputs.clip(-8, 8), labels).predict_proba)
    accuracy["mean of experts"] = {"unlabeled": float((opinion.mean[~known].argmax(1) == truth[~known]).mean())}
    fitter = Fitter(steps=steps, settings=(f"anchor.experts={kind}", f"anchor.trees={trees}"), device="cpu")

    def student(name: str, prior: Array, settings: tuple[str, ...]) -> None:
        with timed(seconds, name):
            model = fitter.student(inputs, labels, prior, cell.seed, settings=settings)
        if model.interrupted:  # a signal leaves a usable model, which is not what is measured here
            raise KeyboardInterrupt
        add(name, model.predict_proba)
        if name == "anchored":
            both = model.predict_proba(inputs[~known]) + opinion.mean[~known]
            accuracy["mean of both"] = {"unlabeled": float((both.argmax(1) == truth[~known]).mean())}

    for name, settings in (MAIN | (VARIANTS if variants else {})).items():
        student(name, opinion.prior, settings)
    if variants:
        whole = ICTClassifier(steps=steps, settings=(f"anchor.trees={trees}",), device="cpu", random_state=cell.seed)
        with timed(seconds, "ICTClassifier"):  # with the folds of its calibration
            whole.fit(x, labels)
        graph = Experts(kind="graph").fit(inputs, labels, n_classes, cell.seed)
        student("anchored on the graph", graph.prior, ())
        equal = np.mean([opinion.probs[name] for name in opinion.probs], axis=0)
        accuracy["equal weights"] = {"unlabeled": float((equal[~known].argmax(1) == truth[~known]).mean())}
    about = {
        "rows": len(x),
        "features": x.shape[1],
        "classes": n_classes,
        "kind": kind,
        "weights": dict(opinion.weights),
    }
    return about | {"accuracy": accuracy, "seconds": seconds}


def pool(truth: Array, cell: Cell) -> tuple[Array, Array]:
    """Rows to train on, and their labels: -1 for all but so many of each class; at most half of a class is labeled."""
    draws = np.random.default_rng(fold(cell.seed, cell.labels, cell.skewed))
    classes = np.unique(truth)
    by_class = [draws.permutation(np.flatnonzero(truth == label)) for label in classes]
    shares = 10.0 ** -(np.arange(len(classes)) / max(len(classes) - 1, 1)) if cell.skewed else np.ones(len(classes))
    shares = draws.permutation(shares) / shares.mean()
    chosen = []
    for label, rows, share in zip(classes, by_class, shares, strict=True):
        if cell.skewed:
            rows = rows[: max(round(len(rows) * share / shares.max()), 2)]
        n = min(max(round(cell.labels * share), 1), len(rows) // 2)
        chosen.append((rows, np.where(np.arange(len(rows)) < n, label, -1)))
    rows, labels = (np.concatenate(part) for part in zip(*chosen, strict=True))
    order = np.argsort(labels < 0, kind="stable")  # the labeled ones first, all of which stay
    n_known = int((labels >= 0).sum())
    order = np.r_[order[:n_known], draws.permutation(order[n_known:])][:_TRAIN]
    return rows[order], labels[order]


def run(
    name: str,
    sets: Sets,
    labels: Iterable[int],
    arguments: argparse.Namespace,
    skewed: Iterable[bool] = (False,),
) -> None:
    """All cells, seed by seed."""
    cells = [
        Cell(data, n, seed, skew) for seed in range(arguments.seeds) for skew in skewed for n in labels for data in sets
    ]
    settings = {
        "benchmark": name,
        "train_rows": _TRAIN,
        "test_share": TEST,
        "variant_seeds": arguments.variant_seeds,
    }
    run_cells(
        cells,
        partial(_of_set, sets, arguments.variant_seeds, {"trees": 5, "steps": 30} if arguments.fast else {}),
        arguments,
        lambda records: settings | {"cells": records},
        # a cell without the variants that are wanted now is measured again
        lambda record: record["seed"] >= arguments.variant_seeds or set(VARIANTS) <= set(record["accuracy"]),
    )


def _of_set(sets: Sets, variant_seeds: int, small: dict[str, int], cell: Cell) -> dict[str, Any]:
    x, truth = sets[cell.data]()
    return measure(cell, x, truth, cell.seed < variant_seeds, **small)


def parser(description: str, name: str, labels: list[int]) -> argparse.ArgumentParser:
    parser = options(description, name)
    parser.add_argument("--sets", help="some of them, with commas between")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--variant-seeds", type=int, default=2, help="seeds with all variants of the method")
    parser.add_argument("--labels", type=int, nargs="+", default=labels, help="a class")
    parser.add_argument("--fast", action="store_true", help="a few trees and updates, to see that it runs")
    return parser
