"""Chooses a method by cross-validation on the labeled examples, and tests whether the unlabeled ones helped."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ict.base.array_types import Array
from ict.estimators.fitter import Fitter, Look, Model
from ict.estimators.verdict import Verdict, verdict
from ict.experts.folds import hidden_folds
from ict.experts.graph import GRAPH, GRAPH_LIMIT
from ict.models.trained_network import TrainedNetwork

CANDIDATES = ("supervised", GRAPH, "ict")
_FOLDS = 3
_SHORTER = 4  # runs in a fold have this many times fewer updates than the final one


@dataclass(frozen=True)
class Choice:
    """The chosen method and the results of its folds."""

    method: str
    model: Model
    verdict: Verdict | None  # None if no folds were possible
    errors: dict[str, list[float]]  # by candidate and fold
    remark: str
    guesses: tuple[Array, NDArray[np.int64]] | None = None  # the winner's held-out probabilities, and the labels
    interrupted: bool = False  # during the comparison of methods; then the model is one of a fold


def choose(
    fitter: Fitter,
    inputs: Array,
    labels: NDArray[np.int64],
    n_classes: int,
    seed: int,
    candidates: tuple[str, ...] = CANDIDATES,
    look: Look | None = None,
) -> Choice:
    """Compare the candidates and refit the winner on all rows. The winner is never worse than supervised on the folds.

    `look` is used only for the refit.
    """
    fewest = int(np.bincount(labels[labels >= 0], minlength=n_classes).min())
    if fewest < 2 or (labels >= 0).all():
        method = "ict" if (labels < 0).any() else "supervised"
        why = "a class has fewer than two labels" if fewest < 2 else "nothing is unlabeled"
        remark = f"No folds were compared, since {why}: {method} was taken."
        return Choice(method, fitter.fit(method, inputs, labels, n_classes, seed, look), None, {}, remark)
    if len(labels) > GRAPH_LIMIT:
        candidates = tuple(name for name in candidates if name != GRAPH)
    errors: dict[str, list[float]] = {name: [] for name in candidates}
    guesses: dict[str, list[Array]] = {name: [] for name in candidates}
    known = []
    quick = fitter.shorter(_SHORTER, len(labels))
    for hidden, held_out in hidden_folds(labels, min(_FOLDS, fewest), seed):
        known.append(labels[held_out])
        for name in candidates:
            model = quick.fit(name, inputs, hidden, n_classes, seed)
            if isinstance(model, TrainedNetwork) and model.interrupted:
                remark = f"Interrupted while methods were compared: {name} as it was then."
                return Choice(name, model, None, {}, remark, interrupted=True)
            guesses[name].append(model.predict_proba(inputs[held_out]))
            errors[name].append(float((guesses[name][-1].argmax(1) != known[-1]).mean()))
    # few held-out labels often give ties. Then ICT is preferred for images, where it learns from shifts, and the graph
    # for vectors.
    preferred = ("ict", GRAPH, "supervised") if inputs.ndim > 2 else (GRAPH, "ict", "supervised")
    winner = min((name for name in preferred if name in candidates), key=lambda name: float(np.mean(errors[name])))
    said = verdict(errors["supervised"], errors[winner], list(map(len, known))) if winner != "supervised" else None
    remark = str(said) if said else "The unlabeled rows did not help on the folds: supervised was taken."
    model = fitter.fit(winner, inputs, labels, n_classes, seed, look)
    return Choice(winner, model, said, errors, remark, (np.concatenate(guesses[winner]), np.concatenate(known)))
