"""The signal behind a KeyboardInterrupt."""

import signal


def signal_of(stop: KeyboardInterrupt) -> int:
    """SIGTERM if the handler set it, otherwise SIGINT (Ctrl-C). The exit code is 128 more."""
    return int(stop.args[0]) if stop.args else int(signal.SIGINT)
