"""Train on a million images that are never in memory: how much memory it takes, and how fast batches are read.

    python benchmarks/shards.py [--images 1000000] [--updates 50] [--out results/shards.json]

The images are made up, in a temporary folder that is deleted at the end: 3 GB of disk for a million.
"""

import argparse
import json
import mmap
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ict.data.shards import Shards, shards
from ict.data.write_shards import Block, write_shards
from ict.engine.device import untouched_globals
from ict.engine.settings import Inputs, Split, Train
from ict.engine.step import update
from ict.experiment.prepare import prepare
from ict.experiment.provenance import provenance
from ict.recipes.recipe import Component, Recipe

SHAPE, CLASSES, SIZE = (3, 32, 32), 10, 65_536
READ = 200  # batches that are read to see how fast that is


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--updates", type=int, default=50)
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    needed = 2 * arguments.images * int(np.prod(SHAPE))
    if shutil.disk_usage(tempfile.gettempdir()).free < needed:
        parser.error(f"{tempfile.gettempdir()} has less than {needed / 1e9:.0f} GB free")
    with tempfile.TemporaryDirectory() as home:
        folder, began = Path(home) / "shards", time.perf_counter()
        write_shards(folder, {"train": blocks(arguments.images)}, map(str, range(CLASSES)), SIZE)
        written = time.perf_counter() - began
        result = {
            "benchmark": "training on shards that are read as they are used",
            "images": arguments.images,
            "gigabytes": round(sum(path.stat().st_size for path in folder.iterdir()) / 1e9, 2),
            "shards": len(list(folder.glob("*-x.npy"))),
            "seconds_to_write": round(written, 1),
            **measured(folder, arguments.updates),
            **provenance(torch.device("cpu")),
        }
    print(json.dumps(result, indent=2))
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=2) + "\n")


def blocks(n: int) -> Iterator[Block]:
    draws = np.random.default_rng(0)
    for start in range(0, n, SIZE):
        count = min(SIZE, n - start)
        yield draws.integers(0, 256, (count, *SHAPE), dtype=np.uint8), draws.integers(0, CLASSES, count)


def measured(folder: Path, updates: int) -> dict[str, float]:
    recipe = Recipe(
        dataset=Component("shards", {"path": str(folder)}),
        network=Component("convnet", {"width": 4}),
        algorithm=Component("ict"),
        split=Split(labeled=4000, valid=1000),
        inputs=Inputs(pad=2, flip=True),
        train=Train(steps=updates),
    ).resolved()
    cpu, memory = torch.device("cpu"), Memory()
    with untouched_globals(cpu), memory:
        before, began = memory.now(), time.perf_counter()
        job = prepare(recipe, 0, shards(folder, 0), None, cpu)
        ready = time.perf_counter()
        for _ in range(updates):
            update(job.program, job.state)
        trained = time.perf_counter()
    batches = job.program.batches
    rows = [batches.pick(step).unlabeled for step in range(READ)]
    x = batches.examples.x
    assert isinstance(x, Shards)
    seconds = {}
    for name in ("cold", "warm"):
        if name == "cold":
            forget(folder, x)
        at = time.perf_counter()
        for some in rows:
            x[some]
        seconds[name] = time.perf_counter() - at
    n_read = sum(map(len, rows))
    return {
        "updates": updates,
        "seconds_to_prepare": round(ready - began, 1),
        "milliseconds_an_update": round(1000 * (trained - ready) / updates, 2),
        "anonymous_gigabytes_before": round(before, 3),
        "anonymous_gigabytes_at_most": round(memory.most, 3),
        "images_a_second_cold": round(n_read / seconds["cold"]),
        "images_a_second_warm": round(n_read / seconds["warm"]),
    }


def forget(folder: Path, x: Shards) -> None:
    """Drop the files from the page cache, which keeps what a process has mapped."""
    for array in x.arrays:
        mapped: Any = array
        mapped._mmap.madvise(mmap.MADV_DONTNEED)
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Memory(threading.Thread):
    """Looks every few milliseconds at the memory that belongs to no file."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most, self.over = 0.0, threading.Event()

    def now(self) -> float:
        """In gigabytes."""
        (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon"))
        return int(line.split()[1]) * 1024 / 1e9

    def run(self) -> None:
        while not self.over.wait(0.005):
            self.most = max(self.most, self.now())

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()


if __name__ == "__main__":
    main()
