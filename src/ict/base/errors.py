"""What can go wrong: the caller can mend a `UserError`, a `Diverged` run needs other settings, `RankLost` a restart."""

import sys
from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """A mistake in a file, field or value. The message is one sentence that says what to do."""


class FolderInUse(UserError):
    """Another process trains in the same folder."""


class RankLost(RuntimeError):
    """Another process of a run that several share has ended or cannot be reached."""


class Diverged(RuntimeError):
    """Training produced a loss that is not finite."""


def unknown(kind: str, value: str, choices: Iterable[str]) -> UserError:
    """The error for a name that is not among `choices`, with its near matches or, failing those, all of them."""
    names = sorted(choices)
    near = get_close_matches(value, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"choose from {', '.join(names)}."
    return UserError(f"unknown {kind} '{value}': {hint}")


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """A warning as one line on stderr, in place of `warnings.showwarning`."""
    sys.stderr.write(f"warning: {message}\n")
