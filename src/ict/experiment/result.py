"""The content of result.json: what a result has, how one is made and recognized. No other module knows that.

Imports no torch, so that printing results needs none.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, get_type_hints

from ict.base.errors import UserError
from ict.base.fields import check
from ict.recipes.recipe import Recipe

Result = dict[str, Any]
"""The content of a result.json, or what `diverged` returns. Files of earlier releases lack some of the keys."""

_NUMBER = int | float
_FIRST_KEYS: dict[str, Any] = {  # of every release
    "recipe": str, "recipe_id": str, "seed": int, "test_error": _NUMBER, "seconds": _NUMBER, "partial": bool,
}  # fmt: skip
_PRINTED = (
    *("recipe", "recipe_id", "seed", "steps", "seconds", "partial", "n_test", "device", "test_error"),
    *("test_error_best", "test_error_student", "test_error_teacher", "test_error_swa"),
)
_CURVE_KEYS = ("step", "seconds", "valid_error_student", "valid_error_teacher")


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """A finished run. Errors are fractions; None if there is no such network or no example."""

    recipe: str
    recipe_id: str
    seed: int
    steps: int
    seconds: float
    test_error: float | None  # of the network that the run ends with: the mean of weights, the teacher or the student
    test_error_best: float | None  # of the weights with the smallest validation error
    test_error_student: float | None
    test_error_teacher: float | None
    test_error_swa: float | None
    valid_error: float | None
    valid_error_best: float | None
    best_step: int | None
    partial: bool  # whether only some of the test examples were used
    n_test: int
    n_valid: int
    n_labeled: int
    n_unlabeled: int
    n_parameters: int
    prior: str | None  # digest of the experts' probabilities, where the algorithm asks for them
    resumed_from: list[int]
    ranks: int
    device: str
    machine: str
    threads: int
    versions: dict[str, str]
    commit: str | None
    finished: str  # when
    settings: dict[str, Any]  # the recipe's
    tested: bool  # whether the run was to be measured on the test set
    mode: str
    changed_at: list[int]  # after how many updates the run was continued with a changed recipe
    curve: list[dict[str, Any]] = field(default_factory=list)  # validation errors along the run

    def to_dict(self) -> Result:
        return asdict(self)


def checked(content: Result, source: str) -> Result:
    """The content of a file if it has what is printed of a run, or a UserError that names the file."""
    hints = get_type_hints(RunResult)
    for key in _PRINTED:
        if key not in content:
            raise UserError(f"{source} lacks {key}, so it is no result of a run: restore it, or delete it.")
        check(content[key], hints[key], f"{key} in {source}")
    return content


def diverged(recipe: Recipe, seed: int, message: str) -> Result:
    """The result of a run that diverged."""
    return {"recipe": recipe.name, "recipe_id": recipe.hash, "seed": seed, "diverged": message}


def curve(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The validation errors among the records of a run."""
    return [{key: r[key] for key in _CURVE_KEYS if key in r} for r in records if "valid_error_student" in r]


def is_result(content: Any) -> bool:
    """Whether a JSON file is the result of a finished, tested run."""
    return isinstance(content, dict) and all(isinstance(content.get(key), kind) for key, kind in _FIRST_KEYS.items())


def is_of(result: Result, recipe: Recipe, seed: int) -> bool:
    """Whether it is the result of this recipe and seed."""
    return (result["recipe_id"], result["seed"]) == (recipe.hash, seed)


def was_tested(result: Result) -> bool:
    """Whether the run was measured on the test set; release 0.1.0 always did that."""
    return bool(result.get("tested", True))
