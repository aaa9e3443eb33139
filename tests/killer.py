"""Train in forked children and kill each with SIGKILL at a random moment until one finishes; prints the kills.

python -m tests.killer FOLDER
"""

import os
import random
import signal
import sys
import time

# slow to import, and needed by every child
import torch
import torch._dynamo

from ict.run import train
from tests.tiny import KILLED, tiny

if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, moments, kills = sys.argv[1], random.Random(0), 0
    while kills < 100:
        child = os.fork()
        if child == 0:
            train(tiny(), out=folder, resume=True, checkpoint_seconds=0, **KILLED)
            os._exit(0)
        deadline = time.monotonic() + 0.05 + 0.8 * moments.random()
        while time.monotonic() < deadline:
            finished, status = os.waitpid(child, os.WNOHANG)
            if finished:
                assert status == 0
                print(kills)  # noqa: T201
                sys.exit(0)
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kills += 1
    sys.exit("no progress between kills")
