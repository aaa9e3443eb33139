"""Whether fast mode on a CPU costs accuracy: ICT in float32 and in bfloat16, the same seeds, data and updates.

    python benchmarks/bfloat16.py --out results/bfloat16.json --svhn DIR [--seeds 12]

Digits as 8x8 images with 10 labels a class, and 2,000 images of SVHN, averaged to 16x16, with 50 labels a class. The
recipe is the estimators' default. The test is paired over seeds; each seed has labeled rows and a test part of its own.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student_t
from scipy.stats import ttest_rel
from sklearn.datasets import load_digits

from ict import from_arrays, train
from ict.base.array_types import Array
from ict.data.array_inputs import fit_inputs
from ict.data.svhn import svhn
from ict.engine.device import Mode
from ict.estimators.default_recipes import default_recipe
from ict.experiment.provenance import provenance

Data = tuple[Array, Array]
STEPS = 1500


def digits() -> Data:
    images, labels = load_digits(return_X_y=True)
    return images.reshape(-1, 8, 8), labels


def small_svhn(folder: Path) -> Data:
    examples = svhn(folder, 0).train
    x = examples.x[:12_000].float().reshape(-1, 3, 16, 2, 16, 2).mean((3, 5))
    return x.numpy(), examples.y[:12_000].numpy()


def errors(data: Data, n_train: int, per_class: int, seed: int) -> dict[str, float]:
    draws = np.random.default_rng(seed)
    order = draws.permutation(len(data[0]))[: 2 * n_train]
    x, y = data[0][order], data[1][order]
    inputs = fit_inputs(x[:n_train])
    known = np.full(n_train, -1)
    for label in np.unique(y):
        rows = np.flatnonzero(y[:n_train] == label)[:per_class]
        known[rows] = label
    given = from_arrays(inputs(x[:n_train]), known, test=(inputs(x[n_train:]), y[n_train:]))
    recipe = default_recipe("ict", given.shape, n_train, STEPS)

    def error(mode: Mode) -> float:
        return float(train(recipe, data=given, seed=seed, device="cpu", mode=mode).result["test_error"])

    return {"float32": error("exact"), "bfloat16": error("fast")}


def compared(found: list[dict[str, float]]) -> dict[str, Any]:
    plain, half = ([one[name] for one in found] for name in ("float32", "bfloat16"))
    differences = np.subtract(half, plain)
    reach = float(student_t.ppf(0.975, len(found) - 1) * differences.std(ddof=1) / np.sqrt(len(found)))
    mean = float(differences.mean())
    return {
        "float32": plain,
        "bfloat16": half,
        "mean": {"float32": fmean(plain), "bfloat16": fmean(half)},
        "difference": mean,
        "interval": [mean - reach, mean + reach],
        "p": float(ttest_rel(half, plain).pvalue),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--svhn", type=Path, required=True, help="the folder of train_32x32.mat and test_32x32.mat")
    parser.add_argument("--seeds", type=int, default=12)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    began = time.process_time()
    cases: dict[str, tuple[Callable[[], Data], int, int]] = {
        "digits": (digits, 898, 10),
        "svhn 16x16": (lambda: small_svhn(arguments.svhn), 2000, 50),
    }
    results = {}
    for name, (read, n_train, per_class) in cases.items():
        data, found = read(), list[dict[str, float]]()
        for seed in range(arguments.seeds):
            found.append(errors(data, n_train, per_class, seed))
            print(name, seed, found[-1], flush=True)
        results[name] = {"labels": 10 * per_class, "examples": n_train, **compared(found)}
    content = {
        "seeds": arguments.seeds,
        "steps": STEPS,
        "cpu_seconds": round(time.process_time() - began),
        "cases": results,
        **provenance(torch.device("cpu")),
    }
    arguments.out.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
