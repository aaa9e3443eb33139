"""Networks of pixels on the folds, side by side: each in a process with one thread.

Two networks on two cores gain more than one network on two threads. The probabilities have the bits of fits one after
the other on one thread. Processes import the program that starts them, so only our own commands ask for them.
"""

import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import fsum
from typing import Any

from ict.base.array_types import Array, Labels, Rows
from ict.base.errors import UserError
from ict.engine.device import pick_device
from ict.estimators.candidates import ICT, Fits
from ict.estimators.comparison import signal_of_fit
from ict.estimators.default_recipes import default_steps
from ict.estimators.fitter import Fitter, Model
from ict.experiment.pool import Pipe, crew, served
from ict.experiment.progress_line import SILENT, ProgressLine
from ict.experts.graph import GRAPH, GRAPH_LIMIT

_WORTH = 200  # updates of a fit from which on it is worth the seconds that a process takes to start
_LARGEST = 3 * 32 * 32  # numbers of an image; larger ones need gigabytes in each process, and use several threads well
_SECONDS = 0.2  # between reports of a fit's progress


@dataclass(frozen=True)
class FoldFit:
    """A method, fitted to labels without those of a fold, whose rows it then guesses."""

    fitter: Fitter
    method: str
    inputs: Array
    hidden: Labels
    held_out: Rows
    n_classes: int
    seed: int


@dataclass(frozen=True)
class Guessed:
    """What is left of a model in another process: its probabilities for the rows of its fold."""

    probs: Array

    def predict_proba(self, inputs: Array, /) -> Array:  # noqa: ARG002
        return self.probs


def pays(method: str, fitter: Fitter, inputs: Array) -> bool:
    """Whether to fit folds side by side."""
    steps = fitter.steps or default_steps(len(inputs))
    suitable = method != GRAPH and fitter.network is None and inputs.ndim == 4 and inputs[0].size <= _LARGEST
    return fitter.processes > 1 and suitable and steps >= _WORTH and pick_device(fitter.device).type == "cpu"


def guess_folds(
    fitter: Fitter,
    methods: Sequence[str],
    inputs: Array,
    folds: Sequence[tuple[Labels, Rows]],
    n_classes: int,
    seed: int,
    report: Callable[[float], None],
) -> dict[str, list[Guessed]]:
    """The guesses of every method on every fold. `report` gets how many fits are done, with parts of those under way.

    `folds`: of each the labels that are left, and the rows without theirs.
    """
    if ICT in methods and len(inputs) <= GRAPH_LIMIT:
        fitter.neighbors(inputs)  # searched once, and sent along
    sent = replace(fitter, progress=SILENT)
    fits = [FoldFit(sent, name, inputs, *fold, n_classes, seed) for name in methods for fold in folds]
    found, parts = dict[int, Guessed](), dict[int, float]()
    report(0.0)
    with crew(min(fitter.processes, len(fits)), _guess) as pipes:
        for index, kind, content in served(pipes, deque(range(len(fits))), fits.__getitem__, _killed):
            if kind == "failed":
                raise content
            if kind == "record":
                parts[index] = max(content, parts.get(index, 0.0))  # a fit of two trainings counts twice up to 1
            else:
                found[index] = Guessed(content)
                parts.pop(index, None)
            report(fsum((len(found), *parts.values())))
    made = iter(sorted(found))
    return {name: [found[next(made)] for _ in folds] for name in methods}


def with_guesses(fits: Fits, names: tuple[str, ...], guessed: Mapping[str, Sequence[Guessed]]) -> Fits:
    """Fits of the names that were not guessed, together with what was guessed on each fold, in the order of `names`."""
    folds = count()

    def both(hidden: Labels) -> Iterator[tuple[str, Model]]:
        fold, others = next(folds), fits(hidden)
        for name in names:
            yield (name, guessed[name][fold]) if name in guessed else next(others)

    return both


def _killed(fit: FoldFit) -> UserError:
    return UserError(
        f"a process that fitted {fit.method} to a fold was killed, perhaps for lack of memory: "
        "set the variable OMP_NUM_THREADS=1 to fit one after the other."
    )


def _guess(pipe: Pipe, fit: FoldFit) -> tuple[str, Any]:
    """The main function of a process."""
    fitter = replace(fit.fitter, progress=_Reports(pipe))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "interrupted")  # the command says so
        model = fitter.fit(fit.method, fit.inputs, fit.hidden, fit.n_classes, fit.seed)
    if number := signal_of_fit(model):
        raise KeyboardInterrupt(number)
    return "result", model.predict_proba(fit.inputs[fit.held_out])


class _Reports(ProgressLine):
    """Sends the shares of a fit to the process that waits for it."""

    def __init__(self, pipe: Pipe) -> None:
        super().__init__()
        self._pipe, self._sent = pipe, time.monotonic()

    def part(self, share: float) -> None:
        if time.monotonic() - self._sent > _SECONDS:
            self._sent = time.monotonic()
            self._pipe.send(("record", share))
