"""The setting that each method of the comparison on equal terms has of its own: what to try, and what came out best.

    python research/fair.py variants VARIANTS.jsonl   # then: python research/tune.py VARIANTS.jsonl RESULTS.jsonl ...
    python research/fair.py choose RESULTS.jsonl...   # writes the values into src/ict/recipes/fair.py

Every method tries three values on each dataset, in runs of the same length with a seed that no published number has.
What came out is in results/h200/tuning/fair; tools/render.py shows it.
"""

import argparse
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tune

from ict.recipes import RECIPES
from ict.recipes.fair import OWN

SOURCE = Path(__file__).parent.parent / "src/ict/recipes/fair.py"
CELLS = {"cifar10": "cifar10-4000-fair", "svhn": "svhn-1000-fair"}
SEED, STEPS, LOOKS = 10, 2000, 10

# The value of the method's source second, which is taken where another is no better. Weights are those of `baselines`,
# where each loss is a mean over its own batch: there the labels are one image in twelve or fewer of a batch that all
# losses are divided by. VAT's epsilon is Miyato et al.'s, on SVHN in inputs of twice the size.
_WEIGHTS = (30.0, 100.0, 300.0)
_FEWER = (10.0, 30.0, 100.0)
TRIED: dict[str, dict[str, tuple[float, float, float]]] = {
    "mixup": {"cifar10": (0.3, 1.0, 3.0), "svhn": (0.03, 0.1, 0.3)},
    "manifold-mixup": {"cifar10": (0.3, 1.0, 3.0), "svhn": (0.03, 0.1, 0.3)},
    "pi": dict.fromkeys(CELLS, _WEIGHTS),
    "temporal-ensembling": dict.fromkeys(CELLS, _FEWER),
    "mean-teacher": dict.fromkeys(CELLS, _WEIGHTS),
    "vat": {"cifar10": (4.0, 8.0, 16.0), "svhn": (3.5, 7.0, 14.0)},
    "vat-ent": {"cifar10": (4.0, 8.0, 16.0), "svhn": (3.5, 7.0, 14.0)},
    "vadd-kl": dict.fromkeys(CELLS, (0.3, 1.0, 3.0)),
    "vadd-qe": dict.fromkeys(CELLS, (8.0, 25.0, 80.0)),
    "sntg-pi": dict.fromkeys(CELLS, _WEIGHTS),
    "sntg-te": dict.fromkeys(CELLS, _FEWER),
    "sntg-mt": dict.fromkeys(CELLS, _WEIGHTS),
    "mt-fast-swa": dict.fromkeys(CELLS, _WEIGHTS),
    "ict": dict.fromkeys(CELLS, _WEIGHTS),
}
_LINE = re.compile(r'^    "([a-z-]+)": \("([a-z._]+)", \{"cifar10": ([0-9.]+), "svhn": ([0-9.]+)\}\),$', re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("variants").add_argument("out", type=Path)
    commands.add_parser("choose").add_argument("results", type=Path, nargs="+")
    arguments = parser.parse_args()
    if arguments.command == "variants":
        arguments.out.write_text("".join(json.dumps(row) + "\n" for row in variants()))
    else:
        rows = [row for path in arguments.results for row in tune.lines(path)]
        SOURCE.write_text(with_values(SOURCE.read_text(), best(rows)))


def variants() -> list[dict[str, Any]]:
    """In the form of research/tune.py."""
    return [
        variant(dataset, method, value)
        for method, of_dataset in TRIED.items()
        for dataset, values in of_dataset.items()
        for value in values
    ]


def variant(dataset: str, method: str, value: float) -> dict[str, Any]:
    name, of_ict = f"{CELLS[dataset]}/{method}", RECIPES[f"{CELLS[dataset]}/ict"]
    settings = [f"train.steps={STEPS}", f"eval.every={STEPS // LOOKS}"]
    decay = of_ict.average.decay
    if decay is not None and RECIPES[name].average.decay == decay:  # the same share of the run
        settings.append(f"average.decay={1 - (1 - decay) * of_ict.train.steps / STEPS:.3g}")
    return {
        "id": f"{dataset} {method} {value:g}",
        "recipe": name,
        "seed": SEED,
        "set": [*settings, f"{OWN[method][0]}={value:g}"],
        "dataset": dataset,
        "method": method,
        "value": value,
    }


def best(rows: Iterable[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """By method and dataset the value with the least validation error after the last update."""
    return {key: min(of_key, key=lambda row: _rank(*key, row))["value"] for key, of_key in _grouped(rows).items()}


def _grouped(rows: Iterable[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """By method and dataset."""
    of: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        of.setdefault((row["method"], row["dataset"]), []).append(row)
    return of


def _rank(method: str, dataset: str, row: dict[str, Any]) -> tuple[float, bool]:
    return row["valid_error"], row["value"] != TRIED[method][dataset][1]


def with_values(source: str, chosen: dict[tuple[str, str], float]) -> str:
    """The text of recipes/fair.py with these values; those that were not tried stay."""

    def line(match: re.Match[str]) -> str:
        method, key, *old = match.groups()
        cifar10, svhn = (chosen.get((method, dataset), float(v)) for dataset, v in zip(CELLS, old, strict=True))
        return f'    "{method}": ("{key}", {{"cifar10": {cifar10}, "svhn": {svhn}}}),'

    return _LINE.sub(line, source)


if __name__ == "__main__":
    main()
