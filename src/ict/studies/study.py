"""A study: trials in a database, shared by any number of workers on any machines.

A study has all its trials from the start; each waits, runs or is finished. A worker claims one that waits, and a trial
whose worker died waits again: it keeps its number, its parameters and its folder, so none is lost or counted twice.
Every change of state is made under one lock, which no dead process can hold.

A running trial carries the name of its worker and a count that grows as long as the worker lives. Whoever sees the
same count for `grace` seconds of its own clock puts the trial back; no two clocks are compared. A worker that was only
asleep finds the trial no longer its own, and drops it.
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
from ict.studies.trial import Outcome, Seen

_OUTCOMES: dict[TrialState, Outcome] = {
    TrialState.WAITING: "waiting",
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}
_STATES = {outcome: state for state, outcome in _OUTCOMES.items()}
_BEATS = 6  # in a period of grace, or more
_BEAT_SECONDS = 5.0  # for those who watch


class Lost(Exception):
    """The trial is another worker's by now, or finished."""


@dataclass(frozen=True)
class Slot:
    """A trial to be made: what is fixed of its parameters, and what is noted with it."""

    params: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A trial that this process runs."""

    trial: optuna.Trial
    seen: Seen
    key: str  # in the trial's notes for as long as it is ours


class Study:
    def __init__(self, storage: Storage, name: str, grace: float) -> None:
        self.storage, self.name, self.grace = storage, name, grace
        self._heard: dict[int, tuple[Any, float]] = {}  # by trial: its last count, and when that was first seen
        with storage.told():
            self._optuna = storage.connect()

    def __enter__(self) -> "Study":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._optuna.engine.dispose()
        self.storage.close()

    def open(self, description: Mapping[str, Any]) -> None:
        """Make the study, or join the one of that name if it was made for the same."""
        with self._changing():
            study = optuna.create_study(storage=self._optuna, study_name=self.name, load_if_exists=True)
            old = study.user_attrs.get("description")
            if old is None:
                study.set_user_attr("description", dict(description))
            elif differing := sorted(k for k in old.keys() | description if old.get(k) != description.get(k)):
                raise UserError(
                    f"the study {self.name} in {self.storage} was made for another {', '.join(differing)}: "
                    "name another one with --study."
                )
        self._study = study

    def exists(self) -> bool:
        with self.storage.told():
            return self.name in optuna.get_all_study_names(self._optuna)

    def fill(self, slots: Sequence[Slot]) -> None:
        """Make the trials that are not there yet; the first is trial 0, and so on."""
        with self._changing():
            self._add(slots[len(self._study.get_trials(deepcopy=False)) :])

    def add_missing(self, slots: Sequence[Slot]) -> None:
        """Make a trial for each slot unless one with its notes waits, runs or is complete."""
        with self._changing():
            alive = [_seen(trial).notes for trial in self._study.get_trials(deepcopy=False) if _alive(trial)]
            self._add([s for s in slots if not any(s.notes.items() <= notes.items() for notes in alive)])

    def claim(
        self,
        distributions: Mapping[str, BaseDistribution],
        sampler: Callable[[int], optuna.samplers.BaseSampler],
        worker: Mapping[str, Any],
    ) -> Claim | None:
        """The first trial that waits, now ours and with all its parameters; `sampler` makes one for its number."""
        with self._changing():
            self._put_back_silent()
            waiting = self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
            if not waiting:
                return None
            self._study.sampler = sampler(waiting[0].number)
            trial = self._study.ask(dict(distributions))
            key = secrets.token_hex(4)
            trial.set_user_attr("worker", {**worker, "host": platform.node(), "pid": os.getpid(), "key": key})
            return Claim(trial, self._look(trial), key)

    def beat(self, claim: Claim, progress: Mapping[str, Any]) -> None:
        """Say that we live, and how far we are; raises Lost where the trial is no longer ours."""
        with self._changing():
            beats = self._own(claim).notes.get("progress", {}).get("beats", 0)
            claim.trial.set_user_attr("progress", {**progress, "beats": beats + 1, "key": claim.key})

    def report(self, claim: Claim, step: int, value: float, pruner: optuna.pruners.BasePruner | None) -> bool:
        """Note a validation error; whether the trial should end here."""
        with self._changing():
            if step not in self._own(claim).curve:  # a resumed trial comes by the same steps again
                claim.trial.report(value, step)
        if pruner is None:
            return False
        self._study.pruner = pruner
        with self.storage.told():
            return claim.trial.should_prune()

    def finish(
        self, claim: Claim, outcome: Literal["complete", "pruned", "failed"], value: float | None, **notes: Any
    ) -> None:
        """Raises Lost where the trial is no longer ours: somebody else's result counts."""
        with self._changing():
            self._own(claim)
            for name, note in notes.items():
                claim.trial.set_user_attr(name, note)
            self._study.tell(claim.trial, value, state=_STATES[outcome])

    def release(self, claim: Claim) -> None:
        """Let somebody else go on with it."""
        with self._changing():
            self._own(claim)
            self._optuna.set_trial_state_values(claim.trial._trial_id, TrialState.WAITING)

    def look(self) -> list[Seen]:
        with self.storage.told():
            return [_seen(trial) for trial in self._study.get_trials(deepcopy=False)]

    def importances(self) -> dict[str, float]:
        """The share of each parameter in what a forest of trees explains of the validation error; they sum to 1.

        Functional analysis of variance, Optuna's default, is far off on logarithmic ranges with a few dozen trials.
        """
        evaluator = optuna.importance.MeanDecreaseImpurityImportanceEvaluator(seed=0)
        with self.storage.told(), warnings.catch_warnings(action="ignore"):
            try:
                shares = optuna.importance.get_param_importances(self._study, evaluator=evaluator)
            except (ValueError, RuntimeError):  # fewer than two complete trials, or all alike
                return {}
        return {name: float(share) for name, share in shares.items()}

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self.storage.told(), self.storage.lock(self.name):
            yield

    def _add(self, slots: Sequence[Slot]) -> None:
        for slot in slots:
            self._study.enqueue_trial(dict(slot.params), user_attrs=dict(slot.notes))

    def _look(self, trial: optuna.Trial) -> Seen:
        return _seen(self._optuna.get_trial(trial._trial_id))

    def _own(self, claim: Claim) -> Seen:
        """The trial as it is now, if it is still ours."""
        seen = self._look(claim.trial)
        if seen.outcome != "running" or seen.notes.get("worker", {}).get("key") != claim.key:
            raise Lost(f"trial {seen.number} of {self.name}")
        return seen

    def _put_back_silent(self) -> None:
        now = time.monotonic()
        running = self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        for trial in running:
            signs = [trial.user_attrs.get(name) for name in ("worker", "progress")]
            heard, since = self._heard.get(trial.number, (None, now))
            if heard != signs:
                self._heard[trial.number] = (signs, now)
            elif now - since > self.grace:
                self._optuna.set_trial_state_values(trial._trial_id, TrialState.WAITING)
                del self._heard[trial.number]


class Pulse:
    """Beats for a claim in a thread of its own while a trial runs; `check` raises Lost once that is known."""

    def __init__(self, study: Study, claim: Claim, progress: Mapping[str, Any]) -> None:
        """`progress`, which the caller keeps up to date, goes out with every beat."""
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
            except StorageError:
                pass  # the next beat may get through; training needs no database
            self._over.wait(min(self.study.grace / _BEATS, _BEAT_SECONDS))


def _seen(trial: FrozenTrial) -> Seen:
    return Seen(
        trial.number,
        _OUTCOMES[trial.state],
        dict(trial.params),
        dict(trial.user_attrs),
        trial.values[0] if trial.values else None,
        dict(sorted(trial.intermediate_values.items())),
    )


def _alive(trial: FrozenTrial) -> bool:
    return trial.state in (TrialState.WAITING, TrialState.RUNNING, TrialState.COMPLETE)
