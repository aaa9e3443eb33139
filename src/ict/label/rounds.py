"""What goes to the process that learns and what comes back; imports nothing heavy, since the page imports it too."""

from dataclasses import dataclass

from ict.base.array_types import Array, Rows


@dataclass(frozen=True)
class Found:
    """All examples were read: their names and digests in the order of the learner's rows."""

    names: tuple[str, ...]
    digests: tuple[str, ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Request:
    """What to learn from. Rows are the learner's."""

    rows: Rows  # with a label to learn from
    labels: tuple[str, ...]  # of these rows
    taken: Rows  # rows that need no question: answered, skipped, or the same as another
    checks: Rows  # rows that are kept for random checks
    n_classes: int  # known by name, with or without a label


@dataclass(frozen=True)
class Round:
    """What was learned. Without two classes there are no guesses yet."""

    n_labels: int
    order: Rows  # what to ask next, the most useful first
    groups: tuple[Rows, ...]  # rows that are alike and have one guess, to be accepted together
    classes: tuple[str, ...] = ()  # those with a label
    guesses: Rows | None = None  # [n] indices into `classes`
    chances: Array | None = None  # [n] the probability of the guess
    agreement: float | None = None  # Cohen's kappa between these guesses and those of the round before
