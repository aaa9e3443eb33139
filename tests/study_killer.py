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

# slow to import, and needed by every child
import sklearn.datasets  # noqa: F401
import torch
import torch._dynamo

from ict.recipe import change
from ict.search import SearchPlan
from ict.search_space import Choices, Space
from ict.study import Claim, Study
from ict.workers import Place, work
from tests.tiny import tiny

SPACE = Space((Choices("train.weight", (1.0, 5.0, 10.0)), Choices("algorithm.alpha", (0.5, 1.0))))


def killed_plan(address: str, folder: Path) -> SearchPlan:
    place = Place(address, 1, "cpu", grace=0.5, checkpoint_seconds=0.0)
    recipe = change(tiny(), ["train.steps=60", "eval.every=10", "eval.log_every=10"])
    return SearchPlan(place, f"killed {folder.name}", recipe, SPACE, "grid", 6, 0, False, folder)


def child(plan: SearchPlan, finishes: Path) -> int:
    """A worker that notes, in one write, every trial that the database took from it."""
    pid = os.fork()
    if pid:
        return pid
    finish = Study.finish

    def noted(self: Study, claim: Claim, *arguments: Any, **notes: Any) -> None:
        finish(self, claim, *arguments, **notes)
        with finishes.open("a") as file:
            file.write(f"{claim.seen.number}\n")

    Study.finish = noted  # type: ignore[method-assign]
    try:
        work(plan)
    finally:
        os._exit(0)


def half_done(folder: Path) -> bool:
    return any(not (file.parent / "result.json").exists() for file in folder.glob("trial*/checkpoint-*.pt"))


def all_done(folder: Path) -> bool:
    return len(list(folder.glob("trial*/result.json"))) == SPACE.size


def main(folder: Path, address: str) -> None:
    torch.set_num_threads(1)
    plan = killed_plan(address, folder)
    with plan.study() as study:
        study.fill(plan.slots)
    moments, kills, finishes = random.Random(0), 0, folder / "finishes"
    finishes.touch()
    workers = [child(plan, finishes) for _ in range(2)]
    while kills < 4:
        while kills % 2 and not half_done(folder) and not all_done(folder):  # every other one dies wherever it is
            time.sleep(0.01)
        time.sleep(0.3 * moments.random())
        victim = workers.pop(moments.randrange(2))
        os.kill(victim, SIGKILL)
        os.waitpid(victim, 0)
        kills += 1
        workers.append(child(plan, finishes))
    for worker in workers:
        os.waitpid(worker, 0)
    print(json.dumps([kills, [int(line) for line in finishes.read_text().split()]]))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.stdin.read())
