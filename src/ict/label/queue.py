"""The order of questions: which example is shown next, and which ones after it.

About one in five is a random check: a fifth of all examples, drawn by a hash of their names, is kept for checks and
never suggested. So the checks are a random sample of all examples, whatever the model finds interesting, and the same
ones after a restart.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence

EVERY = 5  # one of so many questions is a check


def check_ranks(names: Sequence[str], seed: int) -> list[float]:
    """For each example a random number from 0 to 1. Those below 1 / EVERY are checks, asked in ascending order."""
    key = str(seed).encode()
    digests = (hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, key=key) for name in names)
    return [int.from_bytes(one.digest()) / 2**64 for one in digests]


class Queue:
    """Rows to ask about. `closed` ones need no question; they can be added at any time, as can suggestions."""

    def __init__(self, names: Sequence[str], closed: Iterable[int], seed: int, ahead: int = 3) -> None:
        ranks = check_ranks(names, seed)
        order = sorted(range(len(names)), key=ranks.__getitem__)
        self.checks = [row for row in order if ranks[row] * EVERY < 1]
        self._rest = order[len(self.checks) :]
        self._is_check = frozenset(self.checks)
        self._closed = set(closed)
        self._suggested: Sequence[int] = ()
        self._may_suggest = False
        self._ahead = ahead
        self._shown: list[int] = []  # the next questions; their pictures are loaded already
        self._asked = {True: 0, False: 0}  # closed by an answer: checks, others

    def is_check(self, row: int) -> bool:
        return row in self._is_check

    def is_closed(self, row: int) -> bool:
        return row in self._closed

    def suggest(self, rows: Sequence[int]) -> None:
        """What to ask next, besides checks. The next question stays, since it may be on the screen already."""
        self._suggested, self._may_suggest = rows, True
        self._shown = self._shown[:2]

    def close(self, rows: Collection[int], asked: bool = True) -> None:
        """These need no question any more. `asked`: since a person answered."""
        for row in rows:
            if asked and row not in self._closed:
                self._asked[self.is_check(row)] += 1
        self._closed.update(rows)
        self._shown = [row for row in self._shown if row not in self._closed]

    def reopen(self, rows: Sequence[int]) -> None:
        """Ask these again, at once."""
        for row in rows:
            if row in self._closed:
                self._closed.remove(row)
                self._asked[self.is_check(row)] -= 1
        self._shown = [*rows, *(row for row in self._shown if row not in rows)]

    def next(self) -> list[int]:
        """The next question and those after it; empty if there is none."""
        while len(self._shown) < self._ahead:
            row = self._choose()
            if row is None:
                break
            self._shown.append(row)
        return list(self._shown)

    @property
    def n_open(self) -> int:
        return len(self.checks) + len(self._rest) - len(self._closed)

    def _choose(self) -> int | None:
        check = self._first(self.checks)
        if not self._may_suggest:
            return check
        n_checks = sum(map(self.is_check, self._shown))
        checks, others = self._asked[True] + n_checks, self._asked[False] + len(self._shown) - n_checks
        if check is not None and (EVERY - 1) * (checks + 1) <= others:
            return check
        found = (self._first(rows) for rows in (self._suggested, self._rest))
        return next((row for row in found if row is not None), check)

    def _first(self, rows: Sequence[int]) -> int | None:
        return next((row for row in rows if row not in self._closed and row not in self._shown), None)
