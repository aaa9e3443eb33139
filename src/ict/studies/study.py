"""A study: trials in a database, shared by any number of workers on any machines.

A study has all its trials from the start. Each is waiting, running or finished. A worker claims a waiting trial. If the
worker dies, the trial waits again with the same number, parameters and folder, so no trial is lost or counted twice.
Every change of state happens under one lock, which a dead process cannot hold.

A running trial has the key of its worker and a counter that the worker increments: its heartbeat. A process that sees
the same count for `grace` seconds of its own clock puts the trial back; clocks are never compared. A worker that was
only suspended then notices that the trial is no longer its own, and drops it.
"""

import os
import platform
import secrets
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState

from ict.base.errors import UserError
from ict.studies.storage import Storage, StorageError
from ict.studies.trial import Outcome, TrialSnapshot

_OUTCOMES: dict[TrialState, Outcome] = {
    TrialState.WAITING: "waiting",
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}
_STATES = {outcome: state for state, outcome in _OUTCOMES.items()}
_BEATS = 6  # the fewest heartbeats in a grace period
_BEAT_SECONDS = 5.0  # the longest time between heartbeats, for the live table


class Lost(Exception):
    """The trial now belongs to another worker, or is finished."""


@dataclass(frozen=True)
class Slot:
    """A trial to create: its fixed parameters and its notes."""

    params: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A trial that this process runs."""

    trial: optuna.Trial
    snapshot: TrialSnapshot
    key: str  # is in the trial's notes while this process owns it


class Study:
    def __init__(self, storage: Storage, name: str, grace: float) -> None:
        self.storage, self.name, self.grace = storage, name, grace
        self._last_beats: dict[int, tuple[Any, float]] = {}  # by trial: its heartbeat, and when that was first seen
        with storage.explain_errors():
            self._optuna = storage.connect()

    def __enter__(self) -> "Study":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._optuna.engine.dispose()
        self.storage.close()

    def open(
        self, description: Mapping[str, Any], updated: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    ) -> None:
        """Create the study, or join the existing one of that name if its description is the same.

        `updated` brings a description that an earlier release stored into the form of today's.
        """
        with self._changing():
            study = optuna.create_study(storage=self._optuna, study_name=self.name, load_if_exists=True)
            stored = study.user_attrs.get("description")
            old = description if stored is None else updated(stored)
            if stored is None:
                study.set_user_attr("description", dict(description))
            elif differing := sorted(k for k in old.keys() | description if old.get(k) != description.get(k)):
                raise UserError(
                    f"the study {self.name} in {self.storage} was created for another {', '.join(differing)}: "
                    "choose another name with --study."
                )
        self._study = study

    def exists(self) -> bool:
        with self.storage.explain_errors():
            return self.name in optuna.get_all_study_names(self._optuna)

    def fill(self, slots: Sequence[Slot]) -> None:
        """Create the missing trials; the first slot is trial 0, and so on."""
        with self._changing():
            self._add(slots[len(self._study.get_trials(deepcopy=False)) :])

    def add_missing(self, slots: Sequence[Slot]) -> None:
        """Create a trial for each slot, unless one with its notes is waiting, running or complete."""
        with self._changing():
            alive = [_snapshot(trial).notes for trial in self._study.get_trials(deepcopy=False) if _alive(trial)]
            self._add([s for s in slots if not any(s.notes.items() <= notes.items() for notes in alive)])

    def claim(
        self,
        distributions: Mapping[str, BaseDistribution],
        sampler: Callable[[int], optuna.samplers.BaseSampler],
        worker: Mapping[str, Any],
    ) -> Claim | None:
        """Claim the first waiting trial and choose its parameters. `sampler` gets the trial's number."""
        with self._changing():
            self._put_back_silent()
            waiting = self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
            if not waiting:
                return None
            self._study.sampler = sampler(waiting[0].number)
            trial = self._study.ask(dict(distributions))
            key = secrets.token_hex(4)
            trial.set_user_attr("worker", {**worker, "host": platform.node(), "pid": os.getpid(), "key": key})
            return Claim(trial, self._snapshot_of(trial), key)

    def beat(self, claim: Claim, progress: Mapping[str, Any]) -> None:
        """Write a heartbeat and the progress. Raises Lost if the trial is no longer ours."""
        with self._changing():
            beats = self._own(claim).notes.get("progress", {}).get("beats", 0)
            claim.trial.set_user_attr("progress", {**progress, "beats": beats + 1, "key": claim.key})

    def report(self, claim: Claim, step: int, value: float, pruner: optuna.pruners.BasePruner | None) -> bool:
        """Record a validation error. Returns whether the trial should stop."""
        with self._changing():
            if step not in self._own(claim).curve:  # a resumed trial repeats steps
                claim.trial.report(value, step)
        if pruner is None:
            return False
        self._study.pruner = pruner
        with self.storage.explain_errors():
            return claim.trial.should_prune()

    def finish(
        self, claim: Claim, outcome: Literal["complete", "pruned", "failed"], value: float | None, **notes: Any
    ) -> None:
        """Finish the trial. Raises Lost if it is no longer ours; then another worker's result counts."""
        with self._changing():
            self._own(claim)
            for name, note in notes.items():
                claim.trial.set_user_attr(name, note)
            self._study.tell(claim.trial, value, state=_STATES[outcome])

    def release(self, claim: Claim) -> None:
        """Give the trial back, so that another worker can continue it."""
        with self._changing():
            self._own(claim)
            self._optuna.set_trial_state_values(claim.trial._trial_id, TrialState.WAITING)

    def snapshots(self) -> list[TrialSnapshot]:
        with self.storage.explain_errors():
            return [_snapshot(trial) for trial in self._study.get_trials(deepcopy=False)]

    def importances(self) -> dict[str, float]:
        """The share of each parameter in the variance of the validation error that a random forest explains; sum 1.

        Functional ANOVA, Optuna's default, is inaccurate on logarithmic ranges with a few dozen trials.
        """
        evaluator = optuna.importance.MeanDecreaseImpurityImportanceEvaluator(seed=0)
        with self.storage.explain_errors(), warnings.catch_warnings(action="ignore"):
            try:
                shares = optuna.importance.get_param_importances(self._study, evaluator=evaluator)
            except (ValueError, RuntimeError):  # fewer than two complete trials, or all alike
                return {}
        return {name: float(share) for name, share in shares.items()}

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self.storage.explain_errors(), self.storage.lock(self.name):
            yield

    def _add(self, slots: Sequence[Slot]) -> None:
        for slot in slots:
            self._study.enqueue_trial(dict(slot.params), user_attrs=dict(slot.notes))

    def _snapshot_of(self, trial: optuna.Trial) -> TrialSnapshot:
        return _snapshot(self._optuna.get_trial(trial._trial_id))

    def _own(self, claim: Claim) -> TrialSnapshot:
        """The trial's current snapshot. Raises Lost if it is no longer ours."""
        snapshot = self._snapshot_of(claim.trial)
        if snapshot.outcome != "running" or snapshot.notes.get("worker", {}).get("key") != claim.key:
            raise Lost(f"trial {snapshot.number} of {self.name}")
        return snapshot

    def _put_back_silent(self) -> None:
        now = time.monotonic()
        running = self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        for trial in running:
            signs = [trial.user_attrs.get(name) for name in ("worker", "progress")]
            beat, since = self._last_beats.get(trial.number, (None, now))
            if beat != signs:
                self._last_beats[trial.number] = (signs, now)
            elif now - since > self.grace:
                self._optuna.set_trial_state_values(trial._trial_id, TrialState.WAITING)
                del self._last_beats[trial.number]


class Pulse:
    """Writes heartbeats from a thread while a trial runs. `check` raises Lost once the trial is no longer ours."""

    def __init__(self, study: Study, claim: Claim, progress: Mapping[str, Any]) -> None:
        """`progress`, which the caller updates, is written with every heartbeat."""
        self.study, self.claim, self.progress = study, claim, progress
        self._lost, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> "Pulse":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def check(self) -> None:
        if self._lost.is_set():
            raise Lost

    def _beat(self) -> None:
        while not self._over.is_set():
            try:
                self.study.beat(self.claim, self.progress)
            except Lost:
                self._lost.set()
                return
            except (StorageError, OSError):
                pass  # the next heartbeat may succeed; training does not need the database
            self._over.wait(min(self.study.grace / _BEATS, _BEAT_SECONDS))


def _snapshot(trial: FrozenTrial) -> TrialSnapshot:
    return TrialSnapshot(
        trial.number,
        _OUTCOMES[trial.state],
        dict(trial.params),
        dict(trial.user_attrs),
        trial.values[0] if trial.values else None,
        dict(sorted(trial.intermediate_values.items())),
    )


def _alive(trial: FrozenTrial) -> bool:
    return trial.state in (TrialState.WAITING, TrialState.RUNNING, TrialState.COMPLETE)
