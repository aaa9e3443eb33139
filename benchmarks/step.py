"""Milliseconds an update on one GPU, for every algorithm and for the networks of the paper, from naive to fast.

    python benchmarks/step.py --out results/h200/step.json [--networks cnn13,wrn-28-2,convnet] [--algorithms ict,vat]

A version is timed with device events over blocks of updates after a warm-up; the number is the median of the blocks,
and each version is timed twice, to show the spread. Images and labels are made up in the shape of CIFAR-10.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ict.algorithms import ALGORITHMS
from ict.data.dataset import Dataset, Examples
from ict.engine.fast import Captured, networks
from ict.engine.step import apply, begin, differentiate, update
from ict.provenance import provenance
from ict.recipe import Part, Recipe, change
from ict.recipes import RECIPES
from ict.run import Job, prepare, untouched_globals

BLOCKS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/h200/step.json"))
    parser.add_argument("--networks", default="cnn13,wrn-28-2,convnet")
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS))
    parser.add_argument("--versions", default="fp32,tf32,bf16,graph,fast")
    parser.add_argument("--updates", type=int, default=40, help="in a block")
    parser.add_argument("--images", type=int, default=50_000)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = made_up(arguments.images)
    rows = []
    peak = matrix_peak(device)
    for network in arguments.networks.split(","):
        for algorithm in arguments.algorithms.split(","):
            recipe = recipe_for(network, algorithm)
            for version in arguments.versions.split(","):
                row = {"network": network, "algorithm": algorithm, "version": version}
                try:
                    row |= measure(recipe, version, data, device, arguments.updates)
                except Exception as problem:  # a version that fails is a result too
                    row["failed"] = f"{type(problem).__name__}: {problem}"[:300]
                rows.append(row)
                print(json.dumps(row), flush=True)
    content = {"peak_tflops_bf16": peak, "rows": rows, **provenance(device)}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(content, indent=2) + "\n")


def recipe_for(network: str, algorithm: str) -> Recipe:
    """ICT's recipe of the paper with another algorithm and network; 100 labeled and 100 unlabeled images."""
    recipe = replace(RECIPES["cifar10-4000/ict"], network=Part(network))
    needs = ALGORITHMS[algorithm]().needs
    settings = [f"algorithm={algorithm}", "inputs.zca_epsilon=1e-3", "train.steps=10000"]
    return change(recipe, settings if needs.teacher else [*settings, "average.decay=none"])


def made_up(n: int) -> Dataset:
    draws = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (n, 3, 32, 32), dtype=torch.uint8, generator=draws)
    examples = Examples(x, torch.arange(n) % 10)
    test = Examples(x[:1000], torch.arange(1000) % 10)
    return Dataset(examples, test, tuple(map(str, range(10))))


def measure(recipe: Recipe, version: str, data: Dataset, device: torch.device, updates: int) -> dict[str, Any]:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    began = time.monotonic()
    with (
        untouched_globals(device, exact=False),
        torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=False, allow_tf32=version == "tf32"),
    ):
        torch.backends.cuda.matmul.allow_tf32 = version == "tf32"
        job = prepare(recipe, 0, data, None, device)
        step = stepper(job, version)
        for _ in range(5):
            step()
        torch.cuda.synchronize()
        ready = time.monotonic() - began
        first, again = ([block(step, updates) for _ in range(BLOCKS)] for _ in range(2))
        torch.backends.cuda.matmul.allow_tf32 = False
    return {
        "ms": round(statistics.median(first), 3),
        "ms_again": round(statistics.median(again), 3),
        "memory_gb": round(torch.cuda.max_memory_allocated() / 1e9, 2),
        "seconds_to_ready": round(ready, 1),
    }


def stepper(job: Job, version: str) -> Callable[[], None]:
    program, state = job.program, job.state
    if version in ("fp32", "tf32"):
        return lambda: update(program, state)
    if version == "bf16":
        student, teacher = networks(state, compile=False)

        def eager() -> None:
            picked = begin(program, state.step)
            w = torch.full((), program.plan.w[state.step], device=program.rng.device)
            apply(program, state, picked, differentiate(program, state, picked, w, student, teacher))

        return eager
    captured = Captured(program, state, fast=True, compile=version == "fast")
    return lambda: captured(program, state)


def block(step: Callable[[], None], updates: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(updates):
        step()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / updates


def matrix_peak(device: torch.device, n: int = 8192) -> float:
    """TFLOP/s of a large bfloat16 product."""
    a, b = (torch.randn(n, n, device=device, dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)

    def product() -> None:
        torch.mm(a, b, out=out)

    for _ in range(3):
        product()
    return round(2 * n**3 / (statistics.median(block(product, 10) for _ in range(5)) * 1e-3) / 1e12, 1)


if __name__ == "__main__":
    main()
