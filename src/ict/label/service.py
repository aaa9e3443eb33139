"""All that the page shows and does, without the web: the session, what learns for it, and one fit at a time.

Everything runs in one thread, the server's; only pictures are made in others. `state` is what the page draws.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ict.base.errors import UserError
from ict.data.user.remarks import counted, word
from ict.label.fit_now import FitNow
from ict.label.learning import Failed, Message, Progress
from ict.label.rounds import Found, Request, Round
from ict.label.session import Session
from ict.label.source import Source
from ict.report.page import printable

_PAST = 60  # last answers that the page has at hand
_LARGEST_GROUP = 1000


class Learns(Protocol):
    """What learns, in a process of its own or in a test."""

    def ask(self, request: Request) -> None: ...


class Service:
    def __init__(self, source: Source, session: Session, learning: Learns, fit: FitNow) -> None:
        self.source, self.session = source, session
        self._learning, self._fit = learning, fit
        self._busy, self._failed = False, False
        self._progress = Progress(0, None)
        self._remarks: tuple[str, ...] = (*source.remarks, *session.remarks)
        self._problem = ""
        self.began = self.version = time.time_ns() // 1000  # versions of an earlier start are smaller

    # What comes from the process that learns.

    def receive(self, message: Message) -> None:
        """Take what was learned; a UserError says that the source or the file of labels must change first."""
        match message:
            case Progress():
                self._progress = message
            case Found():
                self.session.found(message)
                self._remarks += message.remarks
                self._fit.skip_bad |= len(message.names) < len(self.source.names)
            case Round():
                self._busy = False
                self.session.learned(message)
            case Failed():
                if message.is_mistake:
                    raise UserError(message.why)
                self.fail(message.why)
        self._changed()

    def fail(self, why: str) -> None:
        """Nothing more will be learned."""
        self._failed, self._problem = True, why
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        if self._busy or self._failed or (request := self.session.request()) is None:
            return
        self._busy = True
        self._learning.ask(request)

    # What a person does; each method's answer is on disk when it returns.

    def answer(self, rows: Sequence[int], label: str) -> None:
        if not 0 < len(rows) <= _LARGEST_GROUP:
            raise UserError("an answer is about one example or about a few.")
        self.session.answer(rows, label)
        self._changed()

    def skip(self, row: int) -> None:
        self.session.skip(row)
        self._changed()

    def flag(self, row: int) -> None:
        self.session.flag(row)
        self._changed()

    def pass_group(self, rows: Sequence[int]) -> None:
        self.session.pass_group(rows)
        self._changed()

    def undo(self) -> None:
        self.session.undo()
        self._changed()

    def add_class(self, name: str) -> None:
        self.session.named.add(self.session.add_class(name))
        self._changed()

    def fit(self, finished: Callable[[], None]) -> None:
        """Start `ict fit`; `finished` is called by another thread when it has ended."""
        self._fit.start(finished)
        self._changed()

    def fit_ended(self) -> None:
        self.version += 1

    # What the page draws.

    def state(self) -> dict[str, Any]:
        session = self.session
        asked = session.questions()
        labels, checks = session.counts()
        estimate, advice = session.estimate(), session.advice()
        group = session.group()
        return {
            "version": self.version,
            "began": self.began,
            "items": self.source.items,
            "pictures": self.source.picture is not None,
            "classes": [self._class(one, labels[one], checks[one]) for one in session.classes],
            "target": session.target,
            "questions": [self._example(row) for row in asked],
            "group": [self._example(row) for row in group],
            "groupGuess": None if not group else self._guess(group[0]),
            "past": [self._past(row) for row in list(session.answers)[-_PAST:]],
            "canUndo": session.can_undo,
            "answered": session.n_labels,
            "open": session.queue.n_open,
            "estimate": None
            if estimate is None
            else {
                "accuracy": estimate.accuracy,
                "low": estimate.interval[0],
                "high": estimate.interval[1],
                "n": estimate.n,
            },
            "advice": {
                "stop": advice.stop,
                "stable": advice.stable,
                "precise": advice.precise,
                "more": advice.more,
            },
            "learning": self._learning_state(),
            "remarks": [printable(remark) for remark in self._remarks],
            "problem": printable(self._problem),
            "command": printable(self._fit.command),
            "fit": {"running": self._fit.is_running, "ended": self._fit.ended, "text": self._fit.text},
        }

    def _class(self, name: str, labels: int, checks: int) -> dict[str, Any]:
        """One whose answers were all taken back is not shown, but keeps its key."""
        hidden = not (labels or checks or name in self.session.named)
        return {"name": name, "labels": labels, "checks": checks, "hidden": hidden}

    def _learning_state(self) -> dict[str, Any]:
        if self._failed:
            stage = "failed"
        elif not self.session.is_found:
            stage = "reading"
        elif self.session.round is None:
            stage = "first"
        else:
            stage = "learning" if self._busy else "waiting"
        done, total = self._progress.done, self._progress.total
        learned = 0 if self.session.round is None else self.session.round.n_labels
        return {"stage": stage, "done": done, "total": total, "labels": learned, "name": word(self.source.items)}

    def _example(self, row: int) -> dict[str, Any]:
        return {
            "row": row,
            "name": printable(self.session.names[row]),
            "kind": self.session.kind(row),
            "guess": self._guess(row),
            **self._shown(row),
        }

    def _past(self, row: int) -> dict[str, Any]:
        one = self.session.answers[row]
        return {"row": row, "name": printable(one.example), "label": one.label, "kind": one.kind}

    def _guess(self, row: int) -> dict[str, Any] | None:
        found = self.session.guess(row)
        return None if found is None else {"label": found[0], "chance": found[1]}

    def example(self, row: int) -> dict[str, Any]:
        """One that was answered before, to look at it again."""
        return self._example(row)

    def _shown(self, row: int) -> dict[str, Any]:
        if self.source.picture is not None:
            return {}
        try:
            found = self.source.show(row)
        except UserError as problem:
            return {"unreadable": printable(str(problem))}
        if isinstance(found, str):
            return {"text": "".join(c if c in "\n\t" else printable(c) for c in found)}
        return {"cells": [(printable(name), printable(value)) for name, value in found]}

    def summary(self) -> str:
        """What to say at the end, and what to run next."""
        n = self.session.n_labels
        labels = counted(n, "label", "labels")
        return f"{labels} in {self.session.path}" + (f"; now run: {self._fit.command}" if n else "")
