"""Runs tests against changed copies of the package, each in a child that is forked after the slow imports.

python -m tests.mutant_server: for each line of JSON with the folder of a copy, the tests and a file for their output,
it answers with pytest's exit code.
"""

import gc
import json
import os
import signal
import sys

from tests.forking import fork

import hypothesis  # noqa: F401  # isort: skip
import pytest  # isort: skip

# Whether a test fails is all that matters: no rewriting of assertions, which costs more than most tests.
_OPTIONS = (
    "-x",
    "--assert=plain",
    *(f"-pno:{plugin}" for plugin in ("cacheprovider", "xdist", "hypothesispytest", "anyio")),
)
_SECONDS = 240  # in which the tests of a copy must have ended


def run(folder: str, tests: str, output: str) -> int:
    """In a child: pytest's exit code."""
    file = os.open(output, os.O_WRONLY | os.O_CREAT)
    os.dup2(file, 1)
    os.dup2(file, 2)
    signal.alarm(_SECONDS)
    del sys.modules["pyarrow"]
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = folder  # of processes that the tests start
    return int(pytest.main([*_OPTIONS, tests]))


def main() -> None:
    assert "ict" not in sys.modules, "the children import their own"
    gc.freeze()  # pytest collects garbage at its end
    for line in sys.stdin:
        child = fork()
        if child == 0:
            code = -1
            try:
                code = run(*json.loads(line))
            finally:
                sys.stdout.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
