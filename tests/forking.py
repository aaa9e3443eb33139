"""What forked children need, imported once, and a fork that is safe.

A child has one thread. What another thread of its parent held at the moment of the fork, a lock of an allocator for
one, is held in the child for ever. So the parent must have no other thread; pyarrow would make one.
"""

import os
import sys
from pathlib import Path

sys.modules["pyarrow"] = None  # type: ignore[assignment]

# slow to import, and needed by every child
import sklearn.datasets  # noqa: E402, F401
import torch  # noqa: E402
import torch._dynamo  # noqa: E402

torch.set_num_threads(1)


def fork() -> int:
    """As os.fork does."""
    threads = Path("/proc/self/task")
    assert not threads.exists() or len(list(threads.iterdir())) == 1, "a child of several threads may wait for ever"
    return os.fork()
