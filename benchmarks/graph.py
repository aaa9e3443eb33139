"""What label spreading over a graph costs: 100,000 rows of 64 features, 10 classes, 10 labels a class.

    python benchmarks/graph.py [--out results/graph.json]

Prints the seconds of the fit and of 10,000 new rows, and the peak memory of the whole process.
"""

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import torch

from ict.experiment.provenance import provenance
from ict.experts.graph import GraphPropagation

SECONDS, GIGABYTES = 60.0, 2.0  # what the fit may take
FEATURES, CLASSES, LABELS, NEW = 64, 10, 10, 10_000
SCALE = 0.6  # of the class centers: near enough that neighbors of other classes occur


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    parser.add_argument("--rows", type=int, default=100_000)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    centers = SCALE * rng.normal(size=(CLASSES, FEATURES))
    truth = np.arange(arguments.rows + NEW) % CLASSES
    x = centers[truth] + rng.normal(size=(len(truth), FEATURES))
    y = np.full(arguments.rows, -1)
    y[: CLASSES * LABELS] = truth[: CLASSES * LABELS]

    began = time.perf_counter()
    graph = GraphPropagation().fit(x[: arguments.rows], y)
    fitted = time.perf_counter()
    new = graph.predict_proba(x[arguments.rows :])
    predicted = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)
    result = {
        "benchmark": "label spreading over a nearest-neighbor graph",
        "rows": arguments.rows,
        "features": FEATURES,
        "fit_seconds": round(fitted - began, 1),
        "predict_seconds": round(predicted - fitted, 1),
        "peak_gigabytes": round(peak, 2),
        "limits": {"fit_seconds": SECONDS, "peak_gigabytes": GIGABYTES},
        "new_rows": NEW,
        "new_rows_error": round(float((new.argmax(axis=1) != truth[arguments.rows :]).mean()), 4),
        **provenance(torch.device("cpu")),
    }
    print(json.dumps(result, indent=2))
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(fitted - began > SECONDS or peak > GIGABYTES)


if __name__ == "__main__":
    main()
