"""What a model's folder says about its fit, as plain data: how many labels, how good it is, what was compared."""

from collections.abc import Mapping
from dataclasses import asdict
from math import nan
from typing import Any

import numpy as np

from ict.base.array_types import Labels
from ict.estimators.auto import Judged
from ict.estimators.metrics import Metric
from ict.estimators.verdict import Estimate, Verdict

IN_FOLDS, IN_TEST = "held out in folds", "of a test"


def about_fit(
    judged: Judged, *, asked: str, metric: Metric, classes: tuple[str, ...], labels: Labels, items: str
) -> dict[str, Any]:
    """`asked`: the method that was asked for. `labels`: those that were trained on, -1 where unknown."""
    known = labels[labels >= 0]
    counts = np.bincount(known, minlength=len(classes))
    found = judged.estimate
    about: dict[str, Any] = {
        "method": judged.method,
        "asked": asked,
        "items": items,
        "labeled": len(known),
        "unlabeled": len(labels) - len(known),
        "labels": dict(zip(classes, counts.tolist(), strict=True)),
        "metric": metric,
        "estimate": None if found is None else asdict(found),
        "measured": None if found is None else measured(metric, found.value, found.low, found.high, found.n, IN_FOLDS),
        "candidates": judged.scores,
        "shorter_folds": judged.shorter,
        "unlabeled_rows": None if judged.verdict is None else judged.verdict.as_json(),
    }
    if found is not None:
        about["test"] = str(found)
    return about | ({"verdict": judged.remark} if judged.remark else {})


def estimate_of(about: Mapping[str, Any]) -> Estimate | None:
    found = about.get("estimate")
    return None if found is None else Estimate(**found)


def verdict_of(about: Mapping[str, Any]) -> Verdict | None:
    found = about.get("unlabeled_rows")
    return None if found is None else Verdict(**{**found, "gain": nan if found["gain"] is None else found["gain"]})


def scores_of(about: Mapping[str, Any]) -> dict[str, list[float]]:
    return {str(name): [float(score) for score in folds] for name, folds in about.get("candidates", {}).items()}


def measured(metric: Metric, value: float, low: float, high: float, n: int, on: str) -> dict[str, Any]:
    """How good a model is, with the 95 % interval. `on`: which labels these were."""
    return {"metric": metric, "value": value, "low": low, "high": high, "n": n, "on": on}
