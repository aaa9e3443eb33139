"""Accuracy of the estimators with their defaults on small data: mean of ten seeds, 30 % held out.

    python benchmarks/estimator.py --out results/estimator.json [--seeds 10] [--workers 2] [--estimators ict,auto]

Digits with 10, 4 and 1 labels a class, as images and as flat vectors; two moons (noise .1) with 3. Nothing is tuned.
An interrupted run goes on.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np
from cells import options, run
from sklearn.datasets import load_digits, make_moons
from sklearn.model_selection import train_test_split

from ict import ICTClassifier, SemiSupervisedClassifier


@dataclass(frozen=True)
class Case:
    estimator: str
    data: str
    labels: int  # a class


CASES = [
    *(Case("ict", "digits images", n) for n in (10, 4, 1)),
    *(Case("ict", "digits vectors", n) for n in (10, 4, 1)),
    *(Case("auto", "digits vectors", n) for n in (10, 4, 1)),
    *(Case("graph", "digits vectors", n) for n in (10, 4, 1)),
    *(Case("anchored-graph", "digits vectors", n) for n in (10, 4, 1)),
    *(Case(name, "moons", 3) for name in ("auto", "ict", "anchored-graph", "graph")),
]


@dataclass(frozen=True)
class Cell(Case):
    seed: int


def measure(cell: Cell) -> dict[str, Any]:
    seed = cell.seed
    X, truth = make_moons(1000, noise=0.1, random_state=seed) if cell.data == "moons" else load_digits(return_X_y=True)
    if cell.data == "digits images":
        X = X.reshape(-1, 8, 8)
    x, x_test, y, y_test = train_test_split(X, truth, test_size=0.3, stratify=truth, random_state=seed)
    draws, known = np.random.default_rng(seed), np.full(len(y), -1)
    for label in np.unique(y):
        rows = draws.choice(np.flatnonzero(y == label), cell.labels, replace=False)
        known[rows] = label
    shared: dict[str, Any] = {"device": "cpu", "random_state": seed}
    model = ICTClassifier(**shared) if cell.estimator == "ict" else SemiSupervisedClassifier(cell.estimator, **shared)
    model.fit(x, known)
    return {"accuracy": float(model.score(x_test, y_test)), "method": model.method_}


def rows(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each case, with the accuracies of its seeds."""
    cases: dict[Case, list[dict[str, Any]]] = {}
    for record in records:
        case = Case(record["estimator"], record["data"], record["labels"])
        cases.setdefault(case, []).append(record)
    return [
        {
            **asdict(case),
            "seeds": [record["seed"] for record in found],
            "accuracy": [record["accuracy"] for record in found],
            "seconds": round(fmean(record["cpu_seconds"] for record in found), 1),
            "methods": [record["method"] for record in found],
        }
        for case, found in cases.items()
    ]


def main() -> None:
    parser = options(__doc__.splitlines()[0], "estimator")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--estimators", help="some of them, with commas between")
    parser.add_argument("--data", help="some of the sets, with commas between")
    arguments = parser.parse_args()
    cells = [
        Cell(case.estimator, case.data, case.labels, seed)
        for seed in range(arguments.seeds)
        for case in CASES
        if case.estimator in (arguments.estimators or case.estimator).split(",")
        and case.data in (arguments.data or case.data).split(",")
    ]
    run(cells, measure, arguments, lambda records: {"rows": rows(records)})


if __name__ == "__main__":
    main()
