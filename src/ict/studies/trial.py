"""A snapshot of a trial of a study. Imports no Optuna, so that tables and pages need none."""

from dataclasses import dataclass
from typing import Any, Literal

Outcome = Literal["waiting", "running", "complete", "pruned", "failed"]


@dataclass(frozen=True)
class TrialSnapshot:
    number: int
    outcome: Outcome
    params: dict[str, Any]
    notes: dict[str, Any]
    value: float | None
    curve: dict[int, float]  # validation error by step

    @property
    def finished(self) -> bool:
        return self.outcome in ("complete", "pruned", "failed")
