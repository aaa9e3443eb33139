"""The user's own code, which the command line names as module:Class. Code named only in a file is not imported."""

import sys
from collections.abc import Iterable
from pathlib import Path

from ict.base.registry import is_outside

_COMPONENTS = ("dataset", "network", "algorithm")


def find_beside_caller(names: Iterable[str] | None, settings: Iterable[str] | None = None) -> tuple[str, ...]:
    """`names` as a tuple. If these or settings name a module:Class, the working folder is put on the import path."""
    named = tuple(names or ())
    values = (
        text.partition("=")[2] for text in settings or () if text.partition("=")[0].removesuffix(".name") in _COMPONENTS
    )
    here = str(Path.cwd())
    if any(map(is_outside, (*named, *values))) and here not in sys.path:
        sys.path.append(here)
    return named
