"""Accuracy of the estimators with their defaults on small data: mean of ten seeds, 30 % held out.

    python benchmarks/estimator.py --out results/estimator.json [--seeds 10] [--processes 2] [--estimators ict,auto]

Digits with 10, 4 and 1 labels a class, as images and as flat vectors; two moons (noise .1) with 3. Nothing is tuned.
"""

import argparse
import json
import multiprocessing
import time
import warnings
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_digits, make_moons
from sklearn.model_selection import train_test_split

from ict import ICTClassifier, SemiSupervisedClassifier
from ict.experiment.provenance import provenance


class Case(NamedTuple):
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


def measure(job: tuple[Case, int]) -> dict[str, Any]:
    case, seed = job
    torch.set_num_threads(1)
    X, truth = make_moons(1000, noise=0.1, random_state=seed) if case.data == "moons" else load_digits(return_X_y=True)
    if case.data == "digits images":
        X = X.reshape(-1, 8, 8)
    x, x_test, y, y_test = train_test_split(X, truth, test_size=0.3, stratify=truth, random_state=seed)
    draws, known = np.random.default_rng(seed), np.full(len(y), -1)
    for label in np.unique(y):
        rows = draws.choice(np.flatnonzero(y == label), case.labels, replace=False)
        known[rows] = label
    options: dict[str, Any] = {"device": "cpu", "random_state": seed}
    model = ICTClassifier(**options) if case.estimator == "ict" else SemiSupervisedClassifier(case.estimator, **options)
    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x, known)
    seconds = time.monotonic() - began
    return {"accuracy": float(model.score(x_test, y_test)), "seconds": round(seconds, 1), "method": model.method_}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--estimators", help="some of them, with commas between")
    parser.add_argument("--data", help="some of the sets, with commas between")
    arguments = parser.parse_args()
    cases = [
        case
        for case in CASES
        if case.estimator in (arguments.estimators or case.estimator).split(",")
        and case.data in (arguments.data or case.data).split(",")
    ]
    jobs = [(case, seed) for seed in range(arguments.seeds) for case in cases]
    found: dict[Case, list[dict[str, Any]]] = defaultdict(list)
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        for (case, seed), result in zip(jobs, pool.imap(measure, jobs), strict=True):
            found[case].append(result)
            print(
                *case,
                f"seed {seed}: {result['accuracy']:.1%} in {result['seconds']} s by {result['method']}",
                flush=True,
            )
    rows = [
        {
            **case._asdict(),
            "accuracy": [r["accuracy"] for r in results],
            "seconds": round(fmean(r["seconds"] for r in results), 1),
            "methods": [r["method"] for r in results],
        }
        for case, results in found.items()
    ]
    if arguments.out and arguments.out.exists():  # cases that were not measured again stay
        kept = {
            Case(*(row[name] for name in Case._fields)): row for row in json.loads(arguments.out.read_text())["rows"]
        }
        rows = [row for case, row in kept.items() if case not in cases] + rows
    for row in rows:
        print(f"{row['estimator']:6} {row['data']:15} {row['labels']:3} a class: {fmean(row['accuracy']):.1%}")
    if arguments.out:
        content = {"seeds": list(range(arguments.seeds)), "rows": rows, **provenance(torch.device("cpu"))}
        arguments.out.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
