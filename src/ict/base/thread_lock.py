"""One thread at a time where torch's settings are changed: they belong to the process. Imports no torch."""

import functools
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

TORCH_SETTINGS = threading.RLock()  # torch's default generator, number of threads and switches


def one_thread_at_a_time(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A function that waits until no other thread trains."""

    @functools.wraps(function)
    def waiting(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
        with TORCH_SETTINGS:
            return function(*arguments, **keywords)

    return waiting
