"""Several runs at once, each in a process with one thread: small networks gain nothing from more.

A worker has one pipe, which receives tasks and sends records and results. When the parent ends, even by a crash, the
pipe closes and the worker ends too.
"""

import multiprocessing
import os
import signal
import socket
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar

import torch

from ict.base.errors import Diverged, UserError, show_warning
from ict.base.interrupts import stops_interrupt
from ict.engine.device import Device, Mode
from ict.engine.loop import Record
from ict.experiment.result import Result, diverged
from ict.experiment.run import train
from ict.experiment.run_folder import Folder
from ict.recipes.recipe import Recipe

THREADS = 1
Pipe = Connection
T = TypeVar("T")
_STOP = (signal.SIGINT, signal.SIGTERM)
_PATIENCE = 5.0  # seconds in which a worker is expected to have heard a signal


@dataclass(frozen=True)
class Task:
    """A run of a resolved recipe."""

    recipe: Recipe
    seed: int
    out: Path
    device: Device = "cpu"
    data_dir: Path | None = None
    mode: Mode = "exact"
    test: bool = True  # otherwise the test set is dropped right after reading


def run_all(
    tasks: Sequence[Task],
    workers: int,
    progress: Callable[[int, Record], None],
    finished: Callable[[int, Result], None] | None = None,
    *,
    keep_diverged: bool = False,
    more: Callable[[Task, Result], Sequence[Task]] | None = None,
) -> list[Result]:
    """The results of all tasks, in order. `progress` gets a task's index and its records, `finished` its result.

    Finished runs are reused; interrupted ones continue from their checkpoints. The first failure ends all. With
    `keep_diverged`, a diverged run is not a failure: the key "diverged" of its result holds the message. `more` gives
    the tasks that a result calls for: they are added at the end, and run before those that still wait.
    """
    tasks = list(tasks)
    results: dict[int, Result] = {}
    waiting: deque[int] = deque()

    def finish(index: int, result: Result) -> None:
        results[index] = result
        if finished:
            finished(index, result)
        if more:
            add(more(tasks[index], result))

    def add(new: Sequence[Task]) -> None:
        indices = range(len(tasks), len(tasks) + len(new))
        tasks.extend(new)
        take(indices)

    def take(indices: Sequence[int]) -> None:
        old = {index: _old_result(tasks[index]) for index in indices}
        waiting.extendleft(index for index in reversed(indices) if old[index] is None)
        for index, result in old.items():
            if result is not None:
                finish(index, result)

    take(range(len(tasks)))
    with crew(workers if more and waiting else min(workers, len(waiting)), _run) as pipes:
        for index, kind, content in served(pipes, waiting, lambda index: tasks[index], _killed):
            if kind == "record":
                progress(index, content)
            else:
                finish(index, content if kind == "result" else _failed(content, tasks[index], keep_diverged))
    return [results[index] for index in range(len(tasks))]


def _old_result(task: Task) -> Result | None:
    folder = Folder(task.out)
    folder.check(task.recipe, task.seed, resume=True, force=False)
    return folder.load_result()


def _killed(task: Task) -> UserError:
    return UserError(
        f"{task.recipe.name} seed {task.seed}: its process was killed, perhaps for lack of memory; "
        "run the same command to continue from the last checkpoint."
    )


def _failed(problem: Exception, task: Task, keep_diverged: bool) -> Result:
    if keep_diverged and isinstance(problem, Diverged):
        return diverged(task.recipe, task.seed, str(problem))
    if isinstance(problem, UserError | Diverged):
        raise type(problem)(f"{task.recipe.name}: {problem}")
    raise problem


def served(
    pipes: Sequence[Pipe], waiting: deque[int], message: Callable[[int], T], killed: Callable[[T], UserError]
) -> Iterator[tuple[int, str, Any]]:
    """Send a message for each index that waits to a worker that is free, and yield what comes back: the index, the
    kind and the content. An answer of the kind "record" is not the last to its message.

    `killed` is the error if a worker dies. Indices may be added meanwhile.
    """
    busy: dict[Pipe, tuple[int, T]] = {}
    while waiting or busy:
        for pipe in pipes:
            if waiting and pipe not in busy:
                index = waiting.popleft()
                busy[pipe] = index, message(index)
                try:
                    pipe.send(busy[pipe][1])
                except OSError:
                    raise killed(busy[pipe][1]) from None
        ready = wait(list(busy))
        for pipe in [pipe for pipe in busy if pipe in ready]:
            index, sent = busy[pipe]
            try:
                kind, content = pipe.recv()
            except (EOFError, OSError):
                raise killed(sent) from None
            if kind != "record":
                del busy[pipe]
            yield index, kind, content


@contextmanager
def crew(size: int, run: Callable[[Pipe, Any], tuple[str, Any]]) -> Iterator[list[Pipe]]:
    """Start `size` workers and yield their pipes. A worker answers each message with the result of `run`,
    or with "failed" and the error.

    `run` must be a module's function. The workers stop at the end; after a failure or Ctrl-C each saves a checkpoint
    first.
    """
    context = multiprocessing.get_context("spawn")  # a forked torch can deadlock in its thread pool
    pipes, processes = [], []
    with stops_interrupt():
        try:
            for _ in range(size):
                ours, theirs = context.Pipe()
                pipes.append(ours)
                process = context.Process(target=_work, args=(theirs, run), daemon=True)
                _start(process)
                processes.append(process)
                theirs.close()  # otherwise the pipe would stay open when a worker dies
            yield pipes
        except BaseException as problem:
            # A terminal sends its signal to the workers too. The same signal twice would stop them without saving, so
            # they get the other one.
            other = signal.SIGINT if problem.args == (signal.SIGTERM,) else signal.SIGTERM
            for process in processes:
                if process.is_alive() and process.pid:
                    os.kill(process.pid, other)
            for pipe, process in zip(pipes, processes, strict=False):
                _dismiss(pipe, process)
            raise
        finally:
            for pipe in pipes:
                pipe.close()
        for process in processes:
            process.join()


def _dismiss(pipe: Pipe, process: multiprocessing.process.BaseProcess) -> None:
    """Wait for a worker that was signaled to stop.

    Its pipe stays open meanwhile: if a record could not be sent, the checkpoint would be lost. A signal can get lost,
    for example during an import. Such a worker learns at its next record that nothing will be sent any more.
    """
    late = threading.Timer(_PATIENCE, _hang_up, [pipe])
    late.start()
    with suppress(EOFError, OSError):
        while pipe.recv()[0] == "record":
            pass
    late.cancel()
    late.join()
    pipe.close()
    process.join()


def _hang_up(pipe: Pipe) -> None:
    """Send nothing any more, but still receive."""
    with suppress(OSError), socket.socket(fileno=os.dup(pipe.fileno())) as ours:  # on Windows a pipe is no socket
        ours.shutdown(socket.SHUT_WR)


def stop_if_hung_up(pipe: Pipe) -> None:
    """Stop this worker, as a signal would, if the parent sends nothing any more. Only while a task runs: then nothing
    but the end can come."""
    if pipe.poll():
        signal.raise_signal(signal.SIGTERM)


def _start(process: multiprocessing.process.BaseProcess) -> None:
    """Start a worker with signals blocked until it can handle them, so that none dies with a traceback."""
    resource_tracker.ensure_running()  # before the block, since its start unblocks signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Pipe, run: Callable[[Pipe, Any], tuple[str, Any]]) -> None:
    """Run tasks from the pipe until it is closed."""
    torch.set_num_threads(THREADS)
    warnings.showwarning = show_warning
    for number in _STOP:
        signal.signal(number, signal.default_int_handler)
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP)
        while True:
            pipe.send(answer(run, pipe, pipe.recv()))
    except (KeyboardInterrupt, EOFError, BrokenPipeError):
        os._exit(0)  # stopped, or nothing left to do; torch's orderly exit takes seconds and saves nothing


def answer(run: Callable[[Pipe, Any], tuple[str, Any]], pipe: Pipe, message: Any) -> tuple[str, Any]:
    """The result of `run`, or "failed" and its error with the traceback as a note."""
    try:
        return run(pipe, message)
    except Exception as problem:
        problem.add_note(traceback.format_exc())  # pickling drops the traceback
        return "failed", problem


def _stop_with_parent() -> None:
    """Save a checkpoint and stop as soon as the parent is gone, however it ended and however long an update takes."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _run(pipe: Pipe, task: Task) -> tuple[str, Any]:
    def report(record: Record) -> None:
        stop_if_hung_up(pipe)
        pipe.send(("record", record))

    run = train(
        task.recipe,
        seed=task.seed,
        out=task.out,
        device=task.device,
        mode=task.mode,
        resume=True,
        data_dir=task.data_dir,
        test=task.test,
        log=report,
    )
    return "result", run.result
