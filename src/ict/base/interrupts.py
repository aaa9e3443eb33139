"""Which signal a KeyboardInterrupt stands for."""

import signal


def signal_of(stop: KeyboardInterrupt) -> int:
    """SIGTERM where the handler named it, else that of Ctrl-C; the exit code is 128 more."""
    return int(stop.args[0]) if stop.args else int(signal.SIGINT)
