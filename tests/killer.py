"""Train in forked children and kill each with SIGKILL at a random moment until one finishes; prints the kills.

python -m tests.killer FOLDER
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

from ict.experiment.run import train
from tests.forking import fork
from tests.tiny import KILLED, tiny


def survives(child: int, seconds: float) -> bool:
    """Wait for the child to finish; kill it when the time is over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        finished, status = os.waitpid(child, os.WNOHANG)
        if finished:
            assert status == 0
            return True
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def main(folder: Path) -> None:
    moments, longest, kills = random.Random(0), 0.4, 0
    while True:
        before = sorted(folder.glob("checkpoint-*.pt"))
        child = fork()
        if child == 0:
            train(tiny(), out=folder, resume=True, checkpoint_seconds=0, **KILLED)
            os._exit(0)
        if survives(child, 0.05 + longest * moments.random()):
            break
        kills += 1
        if sorted(folder.glob("checkpoint-*.pt")) == before:
            longest *= 1.2  # on a busy machine a child may need longer to get anywhere
    print(kills)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
