"""Run the tests that need a GPU, a few processes beside each other, and keep the log.

    python tools/gpu_suite.py [--out results/h200/suite.txt] [--processes 4]

Most of a test's time there goes into compiling kernels, which one core does; the GPU is idle meanwhile.
"""

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from ict.provenance import provenance

PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "gpu or not slow"]
FILES = ["tests/test_gpu.py", "tests/test_kernels.py"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/h200/suite.txt"))
    parser.add_argument("--processes", type=int, default=4)
    arguments = parser.parse_args()
    listed = subprocess.run([*PYTEST, "--collect-only", *FILES], capture_output=True, text=True)
    tests = [line for line in listed.stdout.splitlines() if "::" in line]
    if not tests:
        raise SystemExit(listed.stdout + listed.stderr)
    shares = [tests[first :: arguments.processes] for first in range(arguments.processes)]
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(_run, shares))
    facts = json.dumps(provenance(torch.device("cuda")), indent=2)
    lines = [facts, *(f"{run.stdout}{run.stderr}" for run in done)]
    lines += [f"{len(tests)} tests in {len(done)} processes: {' | '.join(_last_line(run.stdout) for run in done)}"]
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text("\n".join(lines) + "\n")
    print(lines[-1])
    sys.exit(any(run.returncode for run in done))


def _run(tests: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PYTEST, "-v", *tests], capture_output=True, text=True)


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1] if text.strip() else "nothing printed"


if __name__ == "__main__":
    main()
