"""Workers of a study: claim a trial, train it and record the outcome, until no trial is waiting or running."""

import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, TypeVar

import optuna
import torch
from optuna.distributions import BaseDistribution

from ict.base.errors import CannotWrite, Diverged, FolderInUse, UserError
from ict.base.interrupts import stops_interrupt
from ict.engine.device import Device, Mode, pick_device
from ict.engine.loop import Record
from ict.experiment.console import validation_error
from ict.experiment.pool import Pipe, crew, stop_if_hung_up
from ict.experiment.result import Result
from ict.experiment.run import train
from ict.recipes.recipe import Recipe
from ict.studies.storage import Storage, StorageError
from ict.studies.study import Claim, Lost, Pulse, Slot, Study
from ict.studies.trial import TrialSnapshot

GRACE = 60.0
_PATIENCE = (1, 2, 4, 8, 16, 32, 64)  # seconds between attempts to reach the database
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Place:
    """Where and how trials run: the choices of this process, which do not depend on the study."""

    storage: str = field(repr=False)  # may contain a password
    workers: int | None = None
    device: Device = "auto"
    mode: Mode = "exact"
    data_dir: Path | None = None
    grace: float = GRACE  # seconds without a heartbeat after which a worker counts as dead
    timeout: float | None = None  # seconds after which no new trial starts
    checkpoint_seconds: float = 10.0


@dataclass(frozen=True)
class TrialRun:
    """The run of a trial."""

    recipe: Recipe
    seed: int
    out: Path


@dataclass(frozen=True)
class StudyPlan(ABC):
    """What a study runs. It is sent to the workers."""

    place: Place
    name: str  # of the study

    test = True  # whether the test set is evaluated at the end of a run
    keeps_diverged = False  # whether a diverged run counts as a (bad) result, not as a failure

    @property
    @abstractmethod
    def description(self) -> dict[str, Any]:
        """The settings that two commands must share to work on the same study."""

    def updated(self, description: Mapping[str, Any]) -> Mapping[str, Any]:
        """A stored description, which an earlier release may have written, in the form of today's."""
        return description

    @property
    @abstractmethod
    def slots(self) -> list[Slot]: ...

    @abstractmethod
    def trial_run(self, trial: TrialSnapshot) -> TrialRun: ...

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        return {}

    def sampler(self, number: int) -> optuna.samplers.BaseSampler:
        """The sampler that chooses the open parameters of a trial."""
        return optuna.samplers.RandomSampler(number)

    @abstractmethod
    def pruner(self, trial_run: TrialRun) -> optuna.pruners.BasePruner | None:
        """The pruner that stops bad trials early, or None."""

    @abstractmethod
    def value(self, result: Result) -> float:
        """The value by which finished trials are compared."""

    @abstractmethod
    def finished(self, trial_run: TrialRun, result: Result) -> None:
        """Called when a trial is complete, on the machine where it ran."""

    def connect(self) -> Study:
        """The study, before `open`."""
        return Study(Storage(self.place.storage), self.name, self.place.grace)

    def study(self) -> Study:
        """The study, opened."""
        study = self.connect()
        study.open(self.description, self.updated)
        return study


def run_plan(plan: StudyPlan) -> None:
    """Work on the study on this machine until it is done or the time is up."""
    gpus = _gpus(plan.place.device)
    workers = plan.place.workers or len(gpus) or os.cpu_count() or 1
    with plan.study() as study:
        workers = min(workers, sum(not trial.finished for trial in study.snapshots()))
    if workers == 0:
        return
    if workers == 1:
        with stops_interrupt():
            work(plan, gpus[0] if gpus else None)
        return
    with crew(workers, serve) as pipes:
        for i, pipe in enumerate(pipes):
            with suppress(BrokenPipeError):  # the worker died already, which is reported below
                pipe.send((plan, gpus[i % len(gpus)] if gpus else None))
        died, busy = 0, list(pipes)
        while busy:
            ready = wait(busy)
            for pipe in [pipe for pipe in busy if pipe in ready]:
                busy.remove(pipe)
                try:
                    kind, problem = pipe.recv()
                except (EOFError, OSError):
                    died += 1  # the others continue its trial
                    continue
                if kind == "failed":
                    raise problem
    if died == workers:
        raise UserError("every worker was killed, perhaps for lack of memory: try fewer --workers.")


def serve(pipe: Pipe, order: tuple[StudyPlan, str | None]) -> tuple[str, Any]:
    """The main function of a worker process."""
    plan, gpu = order
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # CUDA reads it once, at its first use
    work(plan, gpu, pipe)
    return "done", None


def work(plan: StudyPlan, gpu: str | None = None, pipe: Pipe | None = None) -> None:
    """Run trials one after the other. Waits while others run theirs, to continue the trial of a worker that dies."""
    began, timeout = time.monotonic(), plan.place.timeout
    with plan.study() as study:
        while timeout is None or time.monotonic() - began < timeout:
            claim = _retrying(lambda: study.claim(plan.distributions, plan.sampler, {"gpu": gpu}))
            if claim is not None:
                with suppress(FolderInUse):  # by a worker that was only suspended; it will raise Lost and leave
                    _run(plan, study, claim, pipe)
                    continue
            elif all(trial.finished for trial in _retrying(study.snapshots)):
                return
            if pipe is not None and pipe.poll():  # the parent is gone; no training runs that a signal would end well
                raise KeyboardInterrupt
            time.sleep(min(1.0, plan.place.grace / 10))


def _run(plan: StudyPlan, study: Study, claim: Claim, pipe: Pipe | None) -> None:
    """Train a claimed trial and record its outcome."""
    place = plan.place
    progress: dict[str, Any] = {}
    try:
        trial_run = plan.trial_run(claim.snapshot)
        pruner = plan.pruner(trial_run)
        progress |= {"step": 0, "steps": trial_run.recipe.train.steps}
        with Pulse(study, claim, progress) as pulse:

            def log(record: Record) -> None:
                if pipe is not None:
                    stop_if_hung_up(pipe)
                pulse.check()
                progress.update(step=record["step"], seconds=record["seconds"])
                if (error := validation_error(record)) is not None:
                    progress["valid_error"] = error
                    _judge(study, claim, record["step"], trial_run, error, pruner)

            run = train(
                trial_run.recipe,
                seed=trial_run.seed,
                out=trial_run.out,
                device=place.device,
                mode=place.mode,
                resume=True,
                data_dir=place.data_dir,
                checkpoint_seconds=place.checkpoint_seconds,
                test=plan.test,
                log=log,
            )
        plan.finished(trial_run, run.result)
        _hand_in(study, claim, "complete", plan.value(run.result), result=run.result)
    except Lost:
        return
    except optuna.TrialPruned:
        _hand_in(study, claim, "pruned", None, progress=progress)
    except Diverged as problem:
        _hand_in(
            study, claim, "pruned" if plan.keeps_diverged else "failed", None, progress=progress, error=str(problem)
        )
    except StorageError:
        raise
    except (FolderInUse, CannotWrite, OSError):  # the place is at fault, such as a full disk, and not the trial
        with suppress(Lost):
            _retrying(lambda: study.release(claim))
        raise
    except UserError as problem:
        _hand_in(study, claim, "failed", None, progress=progress, error=str(problem))
    except Exception as problem:
        _hand_in(study, claim, "failed", None, progress=progress, error=f"{type(problem).__name__}: {problem}")
        raise
    except BaseException:
        with _ignoring_signals(), suppress(Lost, StorageError):
            study.release(claim)
        raise


def _judge(
    study: Study, claim: Claim, step: int, trial_run: TrialRun, error: float, pruner: optuna.pruners.BasePruner | None
) -> None:
    """Record a validation error and stop the trial if it is bad. At its last step stopping would save nothing."""
    try:
        bad = study.report(claim, step, error, pruner)
    except StorageError:
        return  # without the database there is no reason to stop
    if bad and step < trial_run.recipe.train.steps:
        raise optuna.TrialPruned


def _hand_in(study: Study, claim: Claim, outcome: Any, value: float | None, **notes: Any) -> None:
    """Finish a trial, unless another worker has."""
    with suppress(Lost):
        _retrying(lambda: study.finish(claim, outcome, value, **notes))


def _retrying(attempt: Callable[[], Answer]) -> Answer:
    """Retry for about two minutes while the database cannot be reached."""
    for seconds in _PATIENCE:
        try:
            return attempt()
        except StorageError:
            time.sleep(seconds)
    return attempt()


@contextmanager
def _ignoring_signals() -> Iterator[None]:
    """Ignore signals inside, so that a second one cannot stop a worker that is giving back its trial."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _gpus(device: Device) -> Sequence[str]:
    """The GPUs that this process may use, by CUDA's names."""
    if pick_device(device).type != "cuda":
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",") if visible else [str(i) for i in range(torch.cuda.device_count())]
