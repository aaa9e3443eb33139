"""Several runs at once, each in a process of its own with one thread: small networks gain nothing from more."""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from ict.recipe import Recipe


@dataclass(frozen=True)
class Task:
    recipe: Recipe
    seed: int
    out: Path


def run_all(
    tasks: Sequence[Task],
    workers: int,
    progress: Callable[[int, int], None],
) -> list[dict[str, Any]]:
    """The result of every task, in order; `progress` is called with a task's index and its step.

    Finished runs are reused, interrupted ones go on from their checkpoints.
    """
    context = multiprocessing.get_context("spawn")  # a forked torch can deadlock in its thread pool
    with context.Manager() as manager, ProcessPoolExecutor(workers, context) as pool:
        steps: Queue[tuple[int, int]] = manager.Queue()
        futures: list[Future[dict[str, Any]]] = [pool.submit(_run, i, t, steps) for i, t in enumerate(tasks)]
        pending = set(futures)
        try:
            while pending:
                done, pending = wait(pending, timeout=0.1, return_when=FIRST_COMPLETED)
                _drain(steps, progress)
                for future in done:
                    future.result()  # the first failure ends the whole
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [future.result() for future in futures]


def _drain(steps: "Queue[tuple[int, int]]", progress: Callable[[int, int], None]) -> None:
    while True:
        try:
            progress(*steps.get_nowait())
        except Empty:
            return


def _run(index: int, task: Task, steps: "Queue[tuple[int, int]]") -> dict[str, Any]:
    import torch

    from ict.run import train

    torch.set_num_threads(1)
    run = train(
        task.recipe,
        seed=task.seed,
        out=task.out,
        device="cpu",
        resume=True,
        log=lambda record: steps.put((index, record["step"])),
    )
    return run.result
