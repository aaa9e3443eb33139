"""Try damaged files: python -m tests.fuzz.run --cases 50 [--total] [--formats csv,npy] [--workers 4] [--keep FOLDER].

A worker, forked after the imports, takes one case after the other under limits of memory and time. When it dies, its
case counts as failed and another worker goes on. A case is a function of its format, its number and the seed.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import torch

from ict.base.errors import Diverged, UserError
from tests.fuzz.formats import FORMATS
from tests.fuzz.mutation import mutated

MEMORY = 3_000_000_000  # bytes above what the imports take
SECONDS = 20
SHARE = 100  # cases of a format that one process takes at a time
FINE = (UserError, Diverged)  # what a command turns into one sentence


def try_case(name: str, home: Path, sample: Path, seed: str) -> tuple[str, Path, bytes]:
    """Damage one file of a sample and read it: what happened, the file's place in the sample and its bytes."""
    rng = random.Random(seed)
    case = home / "case"
    shutil.rmtree(case, ignore_errors=True)
    shutil.copytree(sample, case)
    files = sorted(path for path in case.glob(FORMATS[name].damaged) if path.is_file())
    chosen = rng.choice(files)
    content = mutated(chosen.read_bytes(), rng)
    chosen.write_bytes(content)
    return read(name, case), chosen.relative_to(case), content


def read(name: str, case: Path) -> str:
    """How reading a case ended: "read", "refused", or a traceback."""
    try:
        FORMATS[name].finish(case)
    except Exception:
        return "refused"  # the sample's own preparation
    signal.alarm(SECONDS)
    try:
        FORMATS[name].read(case)
    except FINE as problem:
        return "refused" if "\n" not in str(problem).strip() else f"several lines: {problem}"
    except Exception:
        return traceback.format_exc()
    finally:
        signal.alarm(0)
    return "read"


def limited() -> None:
    """Limits for this process, and silence."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")


def work(name: str, cases: range, seed: int, home: Path, out: int) -> None:
    """Run cases in this process, and write a line for each."""
    limited()
    os.environ["ICT_CACHE"] = str(home / "cache")
    sample = home / "sample"
    if not sample.exists():
        sample.mkdir()
        FORMATS[name].make(sample)
        assert read(name, shutil.copytree(sample, home / "whole")) == "read", "the sample itself must be readable"
    for i in cases:
        outcome, place, content = try_case(name, home, sample, f"{name} {seed} {i}")
        line = {"case": i, "outcome": outcome, "place": str(place), "content": content.hex()}
        if outcome in ("read", "refused"):
            line = {"case": i, "outcome": outcome}
        os.write(out, (json.dumps(line) + "\n").encode())


def run_cases(name: str, cases: range, seed: int, keep: Path | None) -> Counter[str]:
    """Some cases of a format, by outcome; failures are printed."""
    counts: Counter[str] = Counter()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ict-fuzz-") as temporary:
        done, deaths = cases.start, 0
        while done < cases.stop and deaths < 50:
            ours, theirs = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(ours)
                try:
                    work(name, range(done, cases.stop), seed, Path(temporary), theirs)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
                os._exit(0)
            os.close(theirs)
            with os.fdopen(ours) as lines:
                for text in lines:
                    line = json.loads(text)
                    done = line["case"] + 1
                    fine = line["outcome"] in ("read", "refused")
                    counts[line["outcome"] if fine else "failed"] += 1
                    if not fine:
                        report(name, line, keep)
            _, status = os.waitpid(child, 0)
            if status:
                counts["failed"] += 1
                ended = os.waitstatus_to_exitcode(status)
                sys.stderr.write(f"{name} case {done}: the worker ended with {ended}\n")
                done, deaths = done + 1, deaths + 1
    counts["seconds"] = round(time.monotonic() - began)
    return counts


def report(name: str, line: dict[str, str], keep: Path | None) -> None:
    last = line["outcome"].strip().splitlines()
    sys.stderr.write(f"{name} case {line['case']} ({line['place']}): {' | '.join(last[-3:])}\n")
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{name}-{line['case']}.json").write_text(json.dumps({"format": name, **line}))


def replay(folder: Path) -> int:
    """Read the kept inputs again, each in a worker of its own: how many fail."""
    failed = 0
    for kept in sorted(folder.glob("*.json")):
        line = json.loads(kept.read_text())
        name = line["format"]
        with tempfile.TemporaryDirectory(prefix="ict-fuzz-") as temporary:
            child = os.fork()
            if child == 0:
                try:
                    limited()
                    sample = Path(temporary) / "sample"
                    sample.mkdir()
                    FORMATS[name].make(sample)
                    (sample / line["place"]).write_bytes(bytes.fromhex(line["content"]))
                    outcome = read(name, sample)
                    sys.stdout.write(f"{kept.name}: {outcome}\n")
                    sys.stdout.flush()
                    os._exit(outcome not in ("read", "refused"))
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
            _, status = os.waitpid(child, 0)
        failed += status != 0
    return failed


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", type=int, default=50, help="for each format")
    options.add_argument("--total", action="store_true", help="--cases is the number over all formats")
    options.add_argument("--formats", default=",".join(FORMATS))
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--workers", type=int, default=1, help="processes")
    options.add_argument("--keep", type=Path, help="a folder for the inputs that fail")
    options.add_argument("--replay", type=Path, help="a folder of kept inputs, instead of new cases")
    given = options.parse_args()
    if given.replay:
        return min(replay(given.replay), 1)
    names = given.formats.split(",")
    n = -(-given.cases // len(names)) if given.total else given.cases
    shares = [(name, range(i, min(i + SHARE, n))) for name in names for i in range(0, n, SHARE)]
    # each worker is forked before this process has a second thread, and has none itself
    with ProcessPoolExecutor(given.workers, get_context("fork")) as workers:
        running = [(name, workers.submit(run_cases, name, cases, given.seed, given.keep)) for name, cases in shares]
        counts = {name: sum((one.result() for of, one in running if of == name), Counter[str]()) for name in names}
    for name, count in counts.items():
        sys.stdout.write(f"{name}: {n} cases, {dict(sorted(count.items()))}\n")
    total = sum(counts.values(), Counter[str]())
    sys.stdout.write(f"total: {n * len(names)} cases, {dict(sorted(total.items()))}\n")
    return min(total["failed"], 1)


if __name__ == "__main__":
    sys.exit(main())
