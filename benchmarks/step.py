"""Milliseconds an update on one GPU, for every algorithm and for the networks of the paper, from naive to fast.

    python benchmarks/step.py --out results/h200/step.json [--networks cnn13,wrn-28-2,convnet] [--algorithms ict,vat]

A version is timed with device events over blocks of updates after a warm-up; the number is the median of the blocks,
and each version is timed twice, to show the spread. Rows of a file that is there already stay, but for those that are
measured now. Images and labels are made up in the shape of CIFAR-10. Arithmetic
is counted by torch on the eager step: convolutions and matrix products, forward and backward.
"""

import argparse
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from ict.algorithms import ALGORITHMS
from ict.data.dataset import Dataset, Examples
from ict.engine.device import untouched_globals
from ict.engine.evaluate import error
from ict.engine.fast.cuda_graph import Captured
from ict.engine.fast.forward import evaluator
from ict.engine.forward import Forward
from ict.engine.step import apply, begin, differentiate, update
from ict.experiment.prepare import Job, prepare
from ict.experiment.provenance import provenance
from ict.experiment.run_folder import Folder
from ict.recipes import RECIPES
from ict.recipes.recipe import Component, Recipe, change

BLOCKS = 5
EAGER = ("fp32", "tf32", "bf16")
_OF_VERSIONS = {"muon": ["optimizer.name=muon"], "derivative": ["algorithm.xi=0"]}  # the second is VAT's alone


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/h200/step.json"))
    parser.add_argument("--networks", default="cnn13,wrn-28-2,convnet")
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS))
    parser.add_argument("--versions", default="fp32,tf32,bf16,fast", help="also: captured, streamed, muon, derivative")
    parser.add_argument("--updates", type=int, default=40, help="in a block; an eighth of it for what is eager")
    parser.add_argument("--images", type=int, default=50_000)
    arguments = parser.parse_args()
    device = torch.device("cuda")
    bench = Bench(made_up(arguments.images), device, arguments.updates)
    old = json.loads(arguments.out.read_text())["rows"] if arguments.out.exists() else []
    rows = {(row["network"], row["algorithm"], row["version"]): row for row in old}
    wanted = (arguments.networks, arguments.algorithms, arguments.versions)
    for network, algorithm, version in product(*(names.split(",") for names in wanted)):
        row = {"network": network, "algorithm": algorithm, "version": version}
        try:
            row |= bench.measure(recipe_for(network, algorithm, version), version)
        except Exception as problem:  # a version that fails is a result too
            row["failed"] = f"{type(problem).__name__}: {problem}"[:300]
        now = provenance(device)
        row |= {"commit": now["commit"], "finished": now["finished"]}
        rows[network, algorithm, version] = row
        print(json.dumps(row), flush=True)
        content = {"peak_tflops_bf16": bench.peak, "rows": list(rows.values()), **now}
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(content, indent=2) + "\n")  # so that nothing measured is lost


def recipe_for(network: str, algorithm: str, version: str = "fast") -> Recipe:
    """ICT's recipe of the paper with another algorithm and network; 100 labeled and 100 unlabeled images."""
    recipe = replace(RECIPES["cifar10-4000/ict"], network=Component(network))
    needs = ALGORITHMS[algorithm]().needs
    settings = [f"algorithm={algorithm}", "inputs.zca_epsilon=1e-3", "train.steps=10000"]
    settings += [] if needs.teacher else ["average.decay=none"]
    return change(recipe, [*settings, *_OF_VERSIONS.get(version, ())])


def made_up(n: int) -> Dataset:
    draws = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (n, 3, 32, 32), dtype=torch.uint8, generator=draws)
    examples = Examples(x, torch.arange(n) % 10)
    test = Examples(x[:10_000], torch.arange(n)[:10_000] % 10)
    return Dataset(examples, test, tuple(map(str, range(10))))


class Bench:
    def __init__(self, data: Dataset, device: torch.device, updates: int) -> None:
        self.data, self.device, self.updates = data, device, updates
        self.peak = matrix_peak(device)
        self.folder = Folder(Path(tempfile.mkdtemp()))  # holds the fitted ZCA, which is the same for all

    def measure(self, recipe: Recipe, version: str) -> dict[str, Any]:
        updates = max(self.updates // 8, 1) if version in EAGER else self.updates
        with (
            untouched_globals(self.device, exact=False),
            torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=False, allow_tf32=version == "tf32"),
        ):
            torch.backends.cuda.matmul.allow_tf32 = version not in ("fp32", "bf16")
            job = prepare(recipe, 0, self.data, None, self.device, self.folder, resident=version != "streamed")
            if not self.folder.inputs.exists():
                self.folder.save_tensors(self.folder.inputs, job.transform.whiten.state_dict())
            gflop = counted(job)
            gc.collect()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            began = time.monotonic()
            step = stepper(job, version)
            for _ in range(5):
                step()
            torch.cuda.synchronize()
            ready = time.monotonic() - began
            first, again = (statistics.median(block(step, updates) for _ in range(BLOCKS)) for _ in range(2))
            found = {
                "ms": round(first, 3),
                "ms_again": round(again, 3),
                "gflop": round(gflop, 1),
                "share_of_peak": round(gflop / first / self.peak, 4),
                "memory_gb": round(torch.cuda.max_memory_allocated() / 1e9, 2),
                "seconds_to_ready": round(ready, 1),
            }
            if recipe.algorithm.name == "ict" and version in ("fp32", "fast"):
                found |= {"evaluation_seconds": self.evaluation(job, version)}
        return found

    def evaluation(self, job: Job, version: str) -> float:
        """Seconds for 10,000 images, as the loop looks at validation images."""
        network, test = job.state.evaluated, job.data.test
        test = Examples(test.x.to(self.device), test.y.to(self.device))

        def once() -> None:
            error(
                network,
                test,
                job.transform,
                job.recipe.eval.batch,
                None,
                evaluator(network) if version == "fast" else None,
            )

        once()
        return round(statistics.median(block(once, 1) for _ in range(3)) / 1000, 4)


class Unnamed(nullcontext[None]):
    """Counts for no module by name: torch's own way to tell modules apart fails where a loss takes a gradient."""

    parents = frozenset({"Global"})


def counted(job: Job) -> float:
    """GFLOP of an update."""
    counter: Any = FlopCounterMode(display=False)
    counter.mod_tracker = Unnamed()
    with counter:
        update(job.program, job.state)
    return float(counter.get_total_flops()) / 1e9


def stepper(job: Job, version: str) -> Callable[[], None]:
    program, state = job.program, job.state
    if version in ("fp32", "tf32"):
        return lambda: update(program, state)
    if version == "bf16":
        student, teacher = Half(state.student), Half(state.evaluated, gradient=False)

        def eager() -> None:
            picked = begin(program, state.step)
            w = torch.full((), program.plan.w[state.step], device=program.rng.device)
            batch = program.batches.make(picked, program.rng, state.memory)
            apply(program, state, picked, differentiate(program, state, batch, w, student, teacher))

        return eager
    captured = Captured(program, state, fast=version != "captured")
    return lambda: captured(program, state)


class Half(Forward):
    """The plain network under autocast, channels last: what one gets by asking torch for it."""

    def _run(self, function: Callable[..., Tensor], x: Tensor, **options: Any) -> Tensor:
        if x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        with torch.autocast("cuda", torch.bfloat16):
            return super()._run(function, x, **options).float()


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
