"""The signals that end a program, and the one behind a KeyboardInterrupt or behind a fit that ended early."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_Handler = Callable[[int, FrameType | None], None]


def signal_of(stop: KeyboardInterrupt) -> int:
    """SIGTERM or SIGHUP if the handler set it, otherwise SIGINT (Ctrl-C). The exit code is 128 more."""
    return int(stop.args[0]) if stop.args else int(signal.SIGINT)


def pass_on(number: int) -> None:
    """Raise again the signal that ended a fit early, for the program's handlers. 0: none; Ctrl-C ends only the fit."""
    if number not in (0, signal.SIGINT):
        signal.raise_signal(number)


@contextmanager
def stops_interrupt() -> Iterator[None]:
    """Treat SIGTERM and a closed terminal like Ctrl-C inside, so that workers are stopped and files are tidied up."""

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise KeyboardInterrupt(number)

    with _handling(interrupt):
        yield


@contextmanager
def stops_exit() -> Iterator[None]:
    """End the program at SIGTERM and a closed terminal with 128 more as exit code, after its temporary files."""

    def leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        sys.exit(128 + number)

    with _handling(leave):
        yield


def stops() -> tuple[signal.Signals, ...]:
    """SIGTERM and, except under nohup, SIGHUP."""
    known = [number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None]
    return tuple(number for number in known if signal.getsignal(number) is not signal.SIG_IGN)


@contextmanager
def _handling(handler: _Handler) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in stops()}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
