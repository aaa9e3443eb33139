"""A person's answers: what is asked, what was answered, and what the model learned. The page is only its surface.

Without a page, in a loop:

    from ict.label.learner import Learner
    from ict.label.log import AnswerLog
    from ict.label.rounds import Found
    from ict.label.session import Session

    learner = Learner(features, embedded=True, seed=seed)
    with AnswerLog(Path("labels.csv")) as log:
        session = Session(names, log, seed=seed)
        session.found(Found(names, digests))            # before this, only random checks are asked
        for _ in range(100):
            if (request := session.request()) is not None:  # when there is enough new to learn from
                session.learned(learner.round(request))
            row = session.question()                    # None: everything is answered
            session.answer([row], true_label[row])      # or skip(row), flag(row), undo()
        print(session.estimate(), session.advice())

`session.training()` are the labels that the model learns from, `session.checks()` those of the random checks.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from ict.base.errors import UserError
from ict.data.labels import is_unlabeled_text
from ict.data.user.answers import LABELED, Answer, AnswerKind, last_answers
from ict.data.user.remarks import listed
from ict.label.estimate import Advice, Checked, History
from ict.label.log import AnswerLog
from ict.label.queue import Queue
from ict.label.rounds import Found, Request, Round

_NEW, _SHARE = 5, 0.05  # new labels that start a round, at least; as a share of the labels
_LONGEST = 100  # characters of a class's name


def utc() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Session:
    """`given`: labels that the source has already, by row; they are learned from and not asked.

    `digest`: of an example's content; without it that of `found`. `target`: an accuracy at which to stop.
    """

    def __init__(
        self,
        names: Sequence[str],
        log: AnswerLog,
        *,
        given: Mapping[int, str] | None = None,
        classes: Iterable[str] = (),
        seed: int = 0,
        target: float | None = None,
        digest: Callable[[int], str] | None = None,
        clock: Callable[[], str] = utc,
    ) -> None:
        self.names = tuple(names)
        self.given = dict(given or {})
        self.classes: list[str] = []
        self.answers: dict[int, Answer] = {}  # those that count, by row, the oldest first
        self.round: Round | None = None
        self.is_found = False
        self.target, self._log, self._digest, self._clock = target, log, digest, clock
        self._row_of = {name: row for row, name in enumerate(self.names)}
        self._kind_of: dict[int, AnswerKind] = {}  # of rows with an answer that was taken back since
        self._steps: list[list[int]] = []  # rows that were answered together, which undo takes back together
        self._history = History()
        self._learner_rows: list[int] = []  # the row of each row of the learner
        self._place: dict[int, int] = {}  # the learner's row of each row
        self._copies: set[int] = set()
        self._passed: dict[int, str | None] = {}  # rows of groups that were passed over, with the guess they had
        self._asked: dict[int, str] | None = None  # what the last request had to learn from
        unaskable = [row for row, name in enumerate(self.names) if "\n" in name or "\r" in name]
        self.queue = Queue(self.names, [*unaskable, *self.given], seed)
        self.named = {self.add_class(name) for name in classes}  # by a person, before any example of theirs
        self.classes += sorted(set(self.given.values()) - set(self.classes))
        self.remarks = self._missing(log)
        before = ""
        for one in log.answers:
            if one.example in self._row_of:
                self._count([(self._row_of[one.example], one)], together=one.time == before)
                before = one.time

    # What is asked.

    def question(self) -> int | None:
        """The row to ask about; None if there is none, or before `found` none that could be a check."""
        return next(iter(self.questions()), None)

    def questions(self) -> list[int]:
        """That row and those after it. An answer needs a digest, so without any nothing is asked."""
        return self.queue.next() if self._digest is not None else []

    def kind(self, row: int) -> AnswerKind:
        """Whether an answer is learned from or a check. An example never changes sides."""
        return self._kind_of.get(row, "random" if self.queue.is_check(row) else "suggested")

    def group(self) -> list[int]:
        """Rows that are alike and have one guess, to be accepted or labeled together; empty if there are none."""
        if self.round is None:
            return []
        for group in self.round.groups:
            rows = [self._learner_rows[row] for row in group]
            if len(left := [row for row in rows if not self.queue.is_closed(row) and not self._is_passed(row)]) > 1:
                return left
        return []

    def pass_group(self, rows: Sequence[int]) -> None:
        """Show these in no group again before their guess changes. Nothing is written."""
        self._passed |= {row: self._label_guessed(row) for row in rows}

    def _is_passed(self, row: int) -> bool:
        return row in self._passed and self._passed[row] == self._label_guessed(row)

    def _label_guessed(self, row: int) -> str | None:
        found = self._guess(row)
        return None if found is None else found[0]

    def guess(self, row: int) -> tuple[str, float] | None:
        """The model's guess and its probability. There is none for a check, since it would bias the answer."""
        if self.kind(row) == "random":
            return None
        return self._guess(row)

    # What a person can do. Each is on disk when the method returns; a CannotWrite leaves everything as it was.

    def answer(self, rows: Sequence[int], label: str) -> None:
        """Label examples, or correct their labels. A new name becomes a class."""
        label = self.add_class(label)
        self._write([(row, label, self.kind(row)) for row in dict.fromkeys(rows)])

    def skip(self, row: int) -> None:
        self._write([(row, "", "skip")])

    def flag(self, row: int) -> None:
        """Mark an example with which something is wrong."""
        self._write([(row, "", "flag")])

    def undo(self) -> list[int]:
        """Take back the last step and ask these rows again; empty if there is nothing to take back."""
        if not self._steps:
            return []
        rows = list(self._steps[-1])
        self._write([(row, "", "undo") for row in rows])
        return rows

    def add_class(self, name: str) -> str:
        """Add a class, if it is new; return its name as it is written."""
        name = " ".join(name.split())
        if is_unlabeled_text(name) or len(name) > _LONGEST or not name.isprintable():
            raise UserError(
                f"the class {name[: _LONGEST + 1]!a} has no usable name: give it one of up to {_LONGEST} visible "
                "characters."
            )
        if name not in self.classes:
            self.classes.append(name)
        return name

    # What is known.

    def training(self) -> dict[int, str]:
        """The labels to learn from, by row."""
        return self.given | {row: one.label for row, one in self.answers.items() if one.kind == "suggested"}

    def checks(self) -> dict[int, str]:
        return {row: one.label for row, one in self.answers.items() if one.kind == "random"}

    def counts(self) -> tuple[Counter[str], Counter[str]]:
        """The labels to learn from and the checks of each class."""
        return Counter(self.training().values()), Counter(self.checks().values())

    def estimate(self) -> Checked | None:
        return self._history.estimate(self.checks())

    def advice(self) -> Advice:
        return self._history.advice(self.checks(), self.target)

    @property
    def can_undo(self) -> bool:
        return bool(self._steps)

    @property
    def path(self) -> Path:
        """The file of answers."""
        return self._log.path

    @property
    def n_labels(self) -> int:
        return sum(one.kind in LABELED for one in self.answers.values())

    # What the learning process gets and gives.

    def found(self, found: Found) -> None:
        """All examples were read. Those that were left out, and all but one of equal ones, are not asked."""
        digests = dict(zip(found.names, found.digests, strict=True))
        self._learner_rows = [self._row_of[name] for name in found.names if name in self._row_of]
        if len(self._learner_rows) < len(found.names):
            raise UserError("there are new examples since the page was started: start it again.")
        self._check_unchanged(digests)
        self._place = {row: place for place, row in enumerate(self._learner_rows)}
        self._digest = self._digest or (lambda row: digests[self.names[row]])
        self.queue.close(set(range(len(self.names))) - set(self._learner_rows), asked=False)
        alike: dict[str, list[int]] = {}
        for row in self._learner_rows:
            alike.setdefault(digests[self.names[row]], []).append(row)
        for rows in (rows for rows in alike.values() if len(rows) > 1):
            first = min(rows, key=lambda row: (row not in self.answers and row not in self.given, self.kind(row), row))
            self._copies |= set(rows) - {first, *self.answers}
        self.queue.close(self._copies, asked=False)
        self.is_found = True

    def _check_unchanged(self, digests: Mapping[str, str]) -> None:
        changed = [
            one.example
            for one in self.answers.values()
            if one.kind in LABELED and digests.get(one.example, one.digest) != one.digest
        ]
        if changed:
            raise UserError(
                f"{self.path} labels {listed(changed)}, which changed since they were labeled: put them back, or name "
                "another file with --labels."
            )

    def _missing(self, log: AnswerLog) -> tuple[str, ...]:
        """A remark on labels of examples that are gone. A file without any example of this source is another's."""
        labeled = [one.example for one in last_answers(log.answers).values() if one.kind in LABELED]
        missing = [name for name in labeled if name not in self._row_of]
        if missing and len(missing) == len(labeled):
            raise UserError(
                f"{log.path} labels {listed(missing)}, which are not here: name another file with --labels."
            )
        return (f"{log.path} labels {listed(missing)}, which are not here any more",) if missing else ()

    def request(self) -> Request | None:
        """What to learn from now, if it differs enough from the last request."""
        known = self.training()
        if not self.is_found or (self._asked is not None and not self._is_due(known)):
            return None
        self._asked = known
        place = self._place
        rows = [row for row in known if row in place]
        taken = [row for row in (*self.answers, *self._copies) if row in place and row not in known]
        checks = [place[row] for row in self.queue.checks if row in place and row not in known]
        return Request(
            np.array([place[row] for row in rows], np.int64),
            tuple(known[row] for row in rows),
            np.array([place[row] for row in taken], np.int64),
            np.array(checks, np.int64),
            len(self.classes),
        )

    def learned(self, learned: Round) -> None:
        self.round = learned
        self.queue.suggest([self._learner_rows[row] for row in learned.order])
        if learned.guesses is not None:
            guesses = {row: self._guess(row) for row in self._place if self.kind(row) == "random"}
            named = {row: guess[0] for row, guess in guesses.items() if guess is not None}
            self._history.add(learned.n_labels, named, learned.agreement)

    def _guess(self, row: int) -> tuple[str, float] | None:
        one, place = self.round, self._place.get(row)
        if one is None or one.guesses is None or one.chances is None or place is None:
            return None
        return one.classes[one.guesses[place]], float(one.chances[place])

    def _is_due(self, known: Mapping[int, str]) -> bool:
        assert self._asked is not None
        changed = sum(known.get(row) != self._asked.get(row) for row in known.keys() | self._asked.keys())
        new_class = set(known.values()) != set(self._asked.values())
        return changed >= max(_NEW, _SHARE * len(known)) or (changed > 0 and new_class)

    # Writing.

    def _write(self, answers: Sequence[tuple[int, str, AnswerKind]]) -> None:
        for row in {row for row, _, _ in answers}:
            if not 0 <= row < len(self.names) or row in self.given or "\n" in self.names[row]:
                raise UserError(f"example {row} cannot be answered: choose another.")
        time = self._clock()
        lines = [
            (row, Answer(self.names[row], label, time, kind, self._digest_for(row, kind)))
            for row, label, kind in answers
        ]
        self._log.append([line for _, line in lines])
        self._count(lines)

    def _digest_for(self, row: int, kind: AnswerKind) -> str:
        """What can no longer be read can be skipped, but not labeled."""
        try:
            return self._digest(row) if self._digest is not None else ""
        except UserError:
            if kind in LABELED:
                raise
            return ""

    def _count(self, lines: Sequence[tuple[int, Answer]], together: bool = False) -> None:
        step: list[int] = self._steps.pop() if together and self._steps else []
        for row, one in lines:
            for older in self._steps:
                if row in older:
                    older.remove(row)
            self.answers.pop(row, None)
            if one.kind in LABELED:
                self._kind_of[row] = one.kind
                if one.label not in self.classes:
                    self.classes.append(one.label)
            if one.kind == "undo":
                self.queue.reopen([row])
                step = [other for other in step if other != row]
            else:
                self.answers[row] = one
                self.queue.close([row])
                step = [*(other for other in step if other != row), row]
        self._steps = [older for older in (*self._steps, step) if older]
