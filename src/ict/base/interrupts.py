"""The signal behind a KeyboardInterrupt, or behind a fit that ended early."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def signal_of(stop: KeyboardInterrupt) -> int:
    """SIGTERM if the handler set it, otherwise SIGINT (Ctrl-C). The exit code is 128 more."""
    return int(stop.args[0]) if stop.args else int(signal.SIGINT)


def pass_on(number: int) -> None:
    """Raise again the signal that ended a fit early, for the program's handlers. 0: none; Ctrl-C ends only the fit."""
    if number not in (0, signal.SIGINT):
        signal.raise_signal(number)


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C inside. Otherwise the parent would end at once and the workers would outlive it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise KeyboardInterrupt(number)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
