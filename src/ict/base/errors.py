"""The errors: a user can fix a `UserError`, `Diverged` needs other settings, `RankLost` a restart."""

import sys
from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """A mistake in a file, field or value. The message is one sentence that says how to fix it."""


class FolderInUse(UserError):
    """Another process is training in the same folder."""


class CannotWrite(UserError):
    """The folder of a run cannot be written to, for instance because the disk is full."""


class RankLost(RuntimeError):
    """Another process of a distributed run has ended or cannot be reached."""


class Diverged(RuntimeError):
    """The loss is no longer finite."""


def is_out_of_memory(problem: BaseException) -> bool:
    """Whether memory ran out, on a GPU too; torch has no exception class for the memory of a CPU."""
    words = ("not enough memory", "out of memory")
    return isinstance(problem, MemoryError) or any(word in str(problem) for word in words)


def unknown(kind: str, value: str, choices: Iterable[str]) -> UserError:
    """The error for a name that is not in `choices`. It suggests close matches, or lists all choices."""
    names = sorted(choices)
    near = get_close_matches(value, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"choose from {', '.join(names)}."
    return UserError(f"unknown {kind} '{value}': {hint}")


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as one line on stderr. Replaces `warnings.showwarning`."""
    sys.stderr.write(f"warning: {message}\n")
