"""What it gains and costs to share batches between processes: updates of ICT on one and on two ranks of this machine.

    python benchmarks/ranks.py [--out results/ranks.json]

Each rank has one thread, so that two ranks have twice the processor that one has. Rounds are run in turns, and the
medians are compared; "again" is one rank a second time.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch

from ict.data.arrays import from_arrays
from ict.data.dataset import Dataset
from ict.engine import distributed
from ict.engine.device import untouched_globals
from ict.engine.settings import Inputs, Train
from ict.engine.step import update
from ict.engine.sync_batch_norm import shared_norms
from ict.experiment.prepare import load_data, prepare
from ict.experiment.provenance import provenance
from ict.networks import NETWORKS
from ict.recipes import RECIPES
from ict.recipes.recipe import OWN, Component, Recipe

CPU = torch.device("cpu")
UPDATES, MESSAGES = 15, 10
VERSIONS = {"1 rank": (1, True), "2 ranks": (2, True), "2 ranks, own batch norm": (2, False), "again": (1, True)}


def tasks() -> dict[str, tuple[Recipe, Dataset]]:
    digits = RECIPES["digits-100/ict"].resolved()
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(256, (2000, 3, 32, 32), generator=draws, dtype=torch.uint8)
    data = from_arrays(images, torch.arange(2000) % 10)
    recipe = Recipe(
        dataset=Component(OWN),
        network=Component("convnet"),
        algorithm=Component("ict"),
        inputs=Inputs(pad=2, flip=True),
    )
    shared = {"pair_groups": 2, "steps": 100_000}
    found = {
        "convnet, digits": (digits, load_data(digits, 0)),
        "convnet, 32x32 images": (recipe.resolved(), data),
    }
    for name, (of, examples) in found.items():
        sizes = {"labeled_batch": 100, "unlabeled_batch": 100}
        train = Train(**{**vars(of.train), **shared, **sizes})
        found[name] = (Recipe(**{**vars(of), "train": train}), examples)
    return found


def work(sync: bool) -> None:
    """As a rank: the milliseconds of each task's updates, and of a message as large as CNN-13's gradient."""
    torch.set_num_threads(1)
    ranks, found = distributed.joined(), {}
    for name, (recipe, data) in tasks().items():
        with untouched_globals(CPU, 1):
            job = prepare(recipe, 0, data, None, CPU, ranks=ranks)
            with shared_norms(ranks, job.state.networks if sync and ranks.size > 1 else ()):
                found[name] = [_timed(lambda job=job: update(job.program, job.state)) for _ in range(UPDATES + 3)][3:]
    gradient = [torch.zeros(_size_of_cnn13())]
    found["message"] = [_timed(lambda: ranks.average_(gradient)) for _ in range(MESSAGES + 2)][2:]
    if ranks.first:
        print(json.dumps(found))


def _timed(function: Any) -> float:
    began = time.perf_counter()
    function()
    return 1000 * (time.perf_counter() - began)


def _size_of_cnn13() -> int:
    return sum(p.numel() for p in NETWORKS["cnn13"]((3, 32, 32), 10).parameters())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", choices=("sync", "own"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work == "sync")
        return
    times: dict[str, dict[str, list[float]]] = {version: {} for version in VERSIONS}
    for _ in range(arguments.rounds):
        for version, (n, sync) in VERSIONS.items():
            launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n}"]
            command = [*launch, __file__, "--work", "sync" if sync else "own"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            for task, values in json.loads(done.stdout).items():
                times[version].setdefault(task, []).extend(values)
    torch.set_num_threads(1)
    result = {
        "benchmark": "ICT updates at 100 labeled and 100 unlabeled examples, milliseconds by number of ranks",
        "milliseconds": {v: {task: round(median(ms), 2) for task, ms in of.items()} for v, of in times.items()},
        "message_megabytes": round(4 * _size_of_cnn13() / 1e6, 1),
        "rounds": arguments.rounds,
        **provenance(CPU),
    }
    print(json.dumps(result, indent=2))
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
