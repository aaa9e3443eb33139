"""Python runs this first in the processes that a test starts: what learns there gets as much of the machine as others.

With a lower priority it would get next to nothing where many tests run at once, and a test waits for it.
"""

import os

if hasattr(os, "nice"):
    os.nice = lambda _: 0
