"""The signal behind a KeyboardInterrupt, or behind a fit that ended early."""

import signal


def signal_of(stop: KeyboardInterrupt) -> int:
    """SIGTERM if the handler set it, otherwise SIGINT (Ctrl-C). The exit code is 128 more."""
    return int(stop.args[0]) if stop.args else int(signal.SIGINT)


def pass_on(number: int) -> None:
    """Raise again the signal that ended a fit early, for the program's handlers. 0: none; Ctrl-C ends only the fit."""
    if number not in (0, signal.SIGINT):
        signal.raise_signal(number)
