"""A simulated person who answers every question of a labeling session with the true class, at once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ict.base.array_types import Array, Labels, Rows
from ict.label.learner import Learner
from ict.label.log import AnswerLog
from ict.label.rounds import Found, Request, Round
from ict.label.session import Session


class Desk:
    """Examples of which the first `n_pool` may be asked; all others stand by like checks that nobody answers."""

    def __init__(self, x: Array, truth: Labels, n_pool: int, seed: int) -> None:
        self.x, self.truth, self.n_pool, self._seed = x, truth, n_pool, seed
        self.others = np.arange(n_pool, len(x))
        self.learner = Learner(x, embedded=True, seed=seed)

    def answers(self) -> Iterator[Session]:
        """The session after each answer. It begins without a label and without the name of a class.

        A round is over before the next answer, so the model is never behind.
        """
        names = tuple(str(row) for row in range(self.n_pool))
        with TemporaryDirectory() as folder, AnswerLog(Path(folder) / "labels.csv") as log:
            session = Session(names, log, seed=self._seed)
            session.found(Found(names, names))
            while True:
                if (request := session.request()) is not None:
                    session.learned(self._learn(request))
                row = session.question()
                if row is None:
                    return
                session.answer([row], self._name(row))
                yield session

    def after(self, rows: Rows) -> Round:
        """What a round learns from the labels of these rows."""
        labels = tuple(map(self._name, rows))
        return self._learn(Request(rows, labels, rows[:0], rows[:0], len(set(labels))))

    def accuracy(self, learned: Round | None) -> float | None:
        """A round's accuracy on the examples that nobody is asked about."""
        if learned is None or learned.guesses is None:
            return None
        guesses = np.array(learned.classes)[learned.guesses[self.others]]
        return float((guesses == self.truth[self.others].astype(str)).mean())

    def _name(self, row: int) -> str:
        return str(self.truth[row])

    def _learn(self, request: Request) -> Round:
        return self.learner.round(replace(request, checks=np.concatenate([request.checks, self.others])))
