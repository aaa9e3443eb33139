"""Work on a study in forked children, killed with SIGKILL at random moments; prints the kills and who finished what.

python -m tests.study_killer FOLDER, the storage's address on stdin
"""

import json
import os
import random
import sys
import time
from pathlib import Path
from signal import SIGKILL
from typing import Any

from ict.recipes.recipe import change
from ict.studies.search import SearchPlan
from ict.studies.search_space import Choices, Space
from ict.studies.study import Claim, Study
from ict.studies.workers import Place, work
from tests.tiny import tiny

SPACE = Space((Choices("train.weight", (1.0, 5.0)), Choices("algorithm.alpha", (0.5, 1.0))))


def killed_plan(address: str, folder: Path) -> SearchPlan:
    place = Place(address, 1, "cpu", grace=0.5, checkpoint_seconds=0.0)
    recipe = change(tiny(), ["train.steps=40", "eval.every=10", "eval.log_every=10"])
    return SearchPlan(place, f"killed {folder.name}", recipe, SPACE, "grid", 4, 0, False, folder)


class Notes:
    """Which worker claimed which trial, and which trials the database took from one; a line in one write each."""

    def __init__(self, folder: Path) -> None:
        self.claims, self.finishes = folder / "claims", folder / "finishes"
        for file in (self.claims, self.finishes):
            file.touch()

    def take(self) -> None:
        """From now on, in this process."""
        claim, finish = Study.claim, Study.finish

        def noted_claim(study: Study, *arguments: Any) -> Claim | None:
            made = claim(study, *arguments)
            if made:
                _append(self.claims, f"{made.snapshot.number} {os.getpid()}")
            return made

        def noted_finish(study: Study, made: Claim, *arguments: Any, **notes: Any) -> None:
            finish(study, made, *arguments, **notes)
            _append(self.finishes, f"{made.snapshot.number}")

        Study.claim, Study.finish = noted_claim, noted_finish  # type: ignore[method-assign,assignment]

    def half_done(self, folder: Path, workers: list[int]) -> int | None:
        """A worker that has saved a part of its trial."""
        last = dict(line.split() for line in self.claims.read_text().splitlines())
        for number, worker in ((number, int(pid)) for number, pid in last.items()):
            run = folder / f"trial{number}"
            if worker in workers and list(run.glob("checkpoint-*.pt")) and not (run / "result.json").exists():
                return worker
        return None


def _append(file: Path, line: str) -> None:
    with file.open("a") as opened:
        opened.write(f"{line}\n")


def child(plan: SearchPlan, notes: Notes) -> int:
    """A worker."""
    from tests.forking import fork  # not above: it changes the process, and tests import this file

    pid = fork()
    if pid:
        return pid
    notes.take()
    work(plan)
    os._exit(0)


def all_done(folder: Path) -> bool:
    return len(list(folder.glob("trial*/result.json"))) == SPACE.size


def ended(worker: int) -> bool:
    return os.waitid(os.P_PID, worker, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def main(folder: Path, address: str) -> None:
    plan = killed_plan(address, folder)
    with plan.study() as study:
        study.fill(plan.slots)
    moments, kills, notes = random.Random(0), 0, Notes(folder)
    workers = [child(plan, notes) for _ in range(2)]
    while kills < 4 and not all_done(folder):
        assert not any(map(ended, workers)) or all_done(folder), "a worker left before all was done"
        if kills % 2:  # every other one dies wherever it is
            time.sleep(0.3 * moments.random())
            victim = moments.choice(workers)
        elif (victim := notes.half_done(folder, workers) or 0) == 0:
            time.sleep(0.005)
            continue
        os.kill(victim, SIGKILL)
        os.waitpid(victim, 0)
        kills += 1
        workers.remove(victim)
        workers.append(child(plan, notes))
    assert [os.waitpid(worker, 0)[1] for worker in workers] == [0, 0]
    finished = [int(line) for line in notes.finishes.read_text().split()]
    print(json.dumps([kills, finished]))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.stdin.read())
