"""The runs in results/h200 that docs/results.md speaks of, and the paper's numbers for them."""

from functools import cache

from result_files import ROOT

from ict.experiment.result import Result
from ict.paper.table import counted, find_results
from ict.recipes import RECIPES
from ict.recipes.recipe import Reported

FOLDER = ROOT / "results/h200"

Runs = dict[str, list[Result]]  # those that count, by recipe and then by seed

BUDGETS = {  # seconds of training that a recipe is for
    "cifar10-4000/ict-fast": 240,
    "cifar10-4000/ict-fast-120s": 120,
    "cifar10-4000/ict-fast-60s": 60,
    "svhn-1000/ict-fast": 240,
}
PAPERS_TEXT = "cifar10-4000/ict"  # the recipe of the paper's text
TASKS = {"cifar10-4000-fair": "CIFAR-10 with 4,000 labels", "svhn-1000-fair": "SVHN with 1,000 labels"}
SEEDS = (0, 1, 2)  # fixed before the first run
PUBLISHED = [PAPERS_TEXT, *(name for name in RECIPES if "/ict-fast" in name or name.partition("/")[0] in TASKS)]
OTHER_CELLS = [name for name in PUBLISHED if name.endswith("/ict-fast") and name not in BUDGETS]
_ABLATED = [name for name in PUBLISHED if "/ict-fast-" in name and name not in BUDGETS]
HEADLINE = [*BUDGETS, PAPERS_TEXT]
OF_ICT = [*BUDGETS, *OTHER_CELLS, *_ABLATED, PAPERS_TEXT]
NOT_RUN = "not run yet"


@cache
def read_runs() -> Runs:
    return counted(find_results(FOLDER), PUBLISHED)


def every(runs: Runs) -> list[Result]:
    return [run for of_recipe in runs.values() for run in of_recipe]


def reported(name: str) -> Reported | None:
    """The paper's number for the cell that a recipe is of."""
    cell, _, method = name.partition("/")
    if method.startswith("ict"):
        method = "-".join(word for word in method.split("-") if word not in ("fast", "120s", "60s"))
    return RECIPES[f"{cell.removesuffix('-fair')}/{method}"].reported


def code(name: str) -> str:
    return f"`{name}`"


def valid(look: dict[str, float]) -> float:
    """Of the teacher, where there is one."""
    return look.get("valid_error_teacher", look["valid_error_student"])
