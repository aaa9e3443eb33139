"""Measures the cells of a benchmark in processes of one thread each, and keeps a line of JSON for every cell.

An interrupted run goes on. The result file is written every few cells, so that a run that was cut off leaves one too.
"""

import argparse
import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from ict.base.files import write_atomic
from ict.experiment.provenance import provenance

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = dict[str, Any]
T = TypeVar("T", bound="DataclassInstance")
_WRITE_EVERY = 20  # cells


def options(description: str, name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--workers", type=int, default=1, help="processes of one thread each")
    parser.add_argument("--progress", type=Path, default=Path(f"runs/benchmarks/{name}.jsonl"))
    parser.add_argument("--out", type=Path)
    return parser


def run(
    cells: Sequence[T],
    measure: Callable[[T], Record],
    arguments: argparse.Namespace,
    content: Callable[[list[Record]], Record],
    usable: Callable[[Record], bool] = lambda _: True,
) -> None:
    """Measure the cells, in their order, that the progress file does not have. `content`: of the result file."""
    progress: Path = arguments.progress
    progress.parent.mkdir(parents=True, exist_ok=True)
    keys = [_key(cell) for cell in cells]
    lines = progress.read_text().splitlines() if progress.exists() else []
    names = list(asdict(cells[0])) if cells else []
    done = {json.dumps([record[name] for name in names]): record for record in map(json.loads, lines) if usable(record)}
    missing = [cell for cell, key in zip(cells, keys, strict=True) if key not in done]
    print(f"{len(missing)} of {len(cells)} cells to measure", flush=True)
    try:
        with _results(partial(_alone, measure), missing, arguments.workers) as results:
            for i, (key, record) in enumerate(results, 1):
                done[key] = record
                with progress.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                print(f"{i} of {len(missing)}, {record['cpu_seconds']:.0f} s:", *json.loads(key), flush=True)
                if i % _WRITE_EVERY == 0:
                    _write(arguments.out, content([done[key] for key in keys if key in done]))
    finally:  # also after Ctrl-C
        _write(arguments.out, content([done[key] for key in keys if key in done]))


@contextmanager
def timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    """CPU seconds, of one thread."""
    began = time.process_time()
    yield
    seconds[name] = round(time.process_time() - began, 3)


@contextmanager
def _results(measure: Callable[[T], Any], cells: Sequence[T], workers: int) -> Iterator[Iterator[Any]]:
    if workers == 1:
        yield map(measure, cells)
        return
    os.environ["OMP_NUM_THREADS"] = "1"  # for the processes, before they import NumPy
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield pool.imap_unordered(measure, cells)


def _alone(measure: Callable[[T], Record], cell: T) -> tuple[str, Record]:
    torch.set_num_threads(1)
    seconds: dict[str, float] = {}
    with timed(seconds, "cpu_seconds"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record = measure(cell)
    return _key(cell), asdict(cell) | record | seconds


def _key(cell: "DataclassInstance") -> str:
    return json.dumps(list(asdict(cell).values()))


def _write(path: Path | None, content: Record) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, (json.dumps(content | provenance(torch.device("cpu")), indent=1) + "\n").encode())
