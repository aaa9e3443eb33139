"""Code of the user's own, which a command line names as module:Class. Nothing else makes the command import it."""

import sys
from collections.abc import Iterable
from pathlib import Path

from ict.base.registry import is_outside

_PARTS = ("dataset", "network", "algorithm")


def find_beside_caller(names: Iterable[str] | None, settings: Iterable[str] | None = None) -> tuple[str, ...]:
    """`names` as a tuple; where they or the settings hold a module:Class, it may be a file in the working folder."""
    named = tuple(names or ())
    values = (
        text.partition("=")[2] for text in settings or () if text.partition("=")[0].removesuffix(".name") in _PARTS
    )
    here = str(Path.cwd())
    if any(map(is_outside, (*named, *values))) and here not in sys.path:
        sys.path.append(here)
    return named
