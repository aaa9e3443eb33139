"""Disturb scenarios in forked children, or run them twice at once, and check what is left.

Counts go to stdout as JSON, bad ends to stderr. The exit code is 1 after a bad end.

python -m tests.chaos [SCENARIO ...] [--points N] [--workers N]
"""

import argparse
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # no threads, which a fork would leave behind

from tests.forking import fork  # first: it must come before other imports

from ict.base.errors import UserError  # isort: skip
from tests.chaos.scenarios import SCENARIOS, Scenario  # isort: skip
from tests.chaos.trouble import Kind, Trouble, counting  # isort: skip

_DONE, _SENTENCE, _BUG = 0, 2, 70
_SECONDS = 120  # in which a child must have ended
_SIZES = (0, 1, 100, 1000, 3000, 10_000, 30_000, 100_000)  # of the largest file that may be written


def in_child(root: Path, work: Callable[[], None], trouble: Trouble | None = None) -> int:
    """The exit code of a child that does some work, or minus the signal that ended it."""
    return ended(begun(root, work, trouble))


def begun(root: Path, work: Callable[[], None], trouble: Trouble | None = None) -> int:
    """A child that does some work."""
    child = fork()
    if child == 0:
        os.environ["ICT_CACHE"] = str(root / "cache")
        del sys.modules["pyarrow"]  # kept out of the parent for its threads; scikit-learn stumbles over the gap
        warnings.simplefilter("ignore")
        code = _BUG
        try:
            if trouble is not None:
                trouble.begin(root)
            work()
            code = _DONE
        except (UserError, OSError) as problem:
            code = _SENTENCE
            if trouble is None:
                print(f"without trouble: {problem}", file=sys.stderr)  # noqa: T201
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return child


def ended(child: int) -> int:
    """Wait for a child; its exit code, or minus the signal that ended it."""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        finished, status = os.waitpid(child, os.WNOHANG)
        if finished:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -signal.SIGALRM  # it hung


def undisturbed(scenario: Scenario, root: Path) -> int:
    """Run a scenario in a new folder; the number of its file operations."""
    root.mkdir()
    prepared = in_child(root, lambda: scenario.prepare(root))
    note = root.with_suffix(".count")

    def work() -> None:
        count = counting(root)
        scenario.run(root)
        note.write_text(str(count()))

    assert (prepared, in_child(root, work)) == (_DONE, _DONE), "it fails undisturbed"
    return int(note.read_text())


def files(root: Path) -> set[str]:
    """Their names; a run that could not write one checkpoint goes on, and keeps others."""
    return {re.sub(r"checkpoint-\d+", "checkpoint", str(path.relative_to(root))) for path in root.rglob("*")}


def disturbed(scenario: Scenario, root: Path, trouble: Trouble, expected: Any, names: set[str]) -> str:
    """Disturb it and run it again; what is wrong then, nothing if nothing is."""
    root.mkdir()
    assert in_child(root, lambda: scenario.prepare(root)) == _DONE
    code = in_child(root, lambda: scenario.run(root), trouble)
    if code not in (_DONE, _SENTENCE, -signal.SIGKILL) or (trouble.kind != "kill" and code == -signal.SIGKILL):
        return f"it ended with {code}"
    try:
        if scenario.seems_done(root) and scenario.outputs(root) != expected:
            return f"it ended with {code} and left outputs that only seem whole"
    except Exception as problem:
        return f"it ended with {code} and left what cannot be read: {problem!r}"
    again = in_child(root, lambda: scenario.run(root))
    if again != _DONE:
        return f"it ended with {code}, and a second time with {again}"
    if (left := files(root)) != names:
        return f"files differ: {sorted(left ^ names)}"
    return "" if scenario.outputs(root) == expected else "the outputs differ"


def raced(scenario: Scenario, root: Path, expected: Any, names: set[str]) -> str:
    """Run it twice at once in one folder; what is wrong then, nothing if one did it and the other did or said no."""
    root.mkdir()
    assert in_child(root, lambda: scenario.prepare(root)) == _DONE
    children = [begun(root, lambda: scenario.run(root)) for _ in range(2)]
    codes = sorted(ended(child) for child in children)
    if codes not in ([_DONE, _DONE], [_DONE, _SENTENCE]):
        return f"they ended with {codes}"
    if (left := files(root)) != names:
        return f"files differ: {sorted(left ^ names)}"
    return "" if scenario.outputs(root) == expected else "the outputs differ"


def troubles(operations: int, points: int | None) -> Iterator[Trouble]:
    """All of them, or that many of each kind, evenly spaced."""
    kinds: dict[Kind, list[int]] = {
        "kill": list(range(operations)),
        "error": list(range(operations)),
        "full": list(_SIZES),
    }
    for number, (kind, places) in enumerate(kinds.items()):
        step = max(len(places) // (points or len(places)), 1)
        chosen = places[(number * step) // len(kinds) :: step][:points]  # the kinds at different places
        yield from (Trouble(kind, at) for at in chosen)


@dataclass(frozen=True)
class Case:
    """A disturbance of a scenario, or a race, and what must come out of it."""

    name: str
    root: Path
    trouble: Trouble | None
    expected: Any
    files: set[str]

    def problem(self) -> str:
        scenario = SCENARIOS[self.name]
        try:
            if self.trouble is None:
                return raced(scenario, self.root, self.expected, self.files)
            return disturbed(scenario, self.root, self.trouble, self.expected, self.files)
        finally:
            shutil.rmtree(self.root, ignore_errors=True)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("scenarios", nargs="*", default=list(SCENARIOS))
    arguments.add_argument("--points", type=int, help="of each kind of trouble [default: all]")
    arguments.add_argument("--races", type=int, default=3, help="how often two processes run at once [default: 3]")
    arguments.add_argument("--workers", type=int, default=1, help="cases at a time [default: 1]")
    chosen = arguments.parse_args()
    counts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        home, cases = Path(temporary).resolve(), list[Case]()
        for name in chosen.scenarios:
            whole = home / f"{name}-whole"
            operations = undisturbed(SCENARIOS[name], whole)
            counts[name] = Counter(operations=operations, bad=0)
            expected, names = SCENARIOS[name].outputs(whole), files(whole)
            for trouble in [*troubles(operations, chosen.points), *[None] * chosen.races]:
                cases.append(Case(name, home / f"{name}-{len(cases)}", trouble, expected, names))
        # each worker is forked before this process has a second thread, and has none itself
        with ProcessPoolExecutor(chosen.workers, get_context("fork")) as workers:
            for case, problem in zip(cases, workers.map(Case.problem, cases), strict=True):
                counts[case.name][case.trouble.kind if case.trouble else "race"] += 1
                if problem:
                    counts[case.name]["bad"] += 1
                    print(f"{case.name}, {case.trouble or 'race'}: {problem}", file=sys.stderr, flush=True)  # noqa: T201
    print(json.dumps(counts))  # noqa: T201
    sys.exit(any(count["bad"] for count in counts.values()))


if __name__ == "__main__":
    main()
