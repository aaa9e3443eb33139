"""Candidates judged on folds: every labeled row is predicted once by a model that did not train on its label."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from ict.base.array_types import Array, Labels, Rows
from ict.estimators.candidates import Fits
from ict.estimators.fitter import Model
from ict.experts.folds import hidden_folds
from ict.experts.temperature import fit_temperature, tempered
from ict.models.trained_network import TrainedNetwork


@dataclass(frozen=True)
class Comparison:
    """The predictions of all folds, one after the other."""

    probs: Mapping[str, Array]  # [rows of all folds, classes] by candidate
    labels: Labels  # of these rows
    fold: Rows  # of these rows
    group: Rows  # of these rows; rows of a group are in one fold
    rows: Rows  # their places among the rows that were compared on
    stopped: tuple[str, TrainedNetwork] | None = None  # what was interrupted; then there is nothing else

    def temperature(self, name: str) -> float:
        return fit_temperature(self.probs[name], self.labels)

    def calibrated(self, name: str) -> Array:
        """The probabilities at the temperature of the other folds, so that no row's label affects its own."""
        calibrated = np.empty_like(self.probs[name])
        for fold in np.unique(self.fold):
            rows = self.fold == fold
            temperature = fit_temperature(self.probs[name][~rows], self.labels[~rows])
            calibrated[rows] = tempered(self.probs[name][rows], temperature)
        return calibrated


def compare(
    fits: Fits,
    inputs: Array,
    labels: Labels,
    n_folds: int,
    seed: int,
    groups: Rows | None,
    other_inputs: Mapping[str, Array] = MappingProxyType({}),
) -> Comparison:
    """Fit every candidate to every fold. Without `groups` every row is one of its own.

    `other_inputs`: of candidates that have their own.
    """
    probs: dict[str, list[Array]] = {}
    rows, fold = [], []
    for i, (hidden, held_out) in enumerate(hidden_folds(labels, n_folds, seed, groups)):
        rows.append(held_out)
        fold.append(np.full(len(held_out), i))
        for name, model in fits(hidden):
            if isinstance(model, TrainedNetwork) and model.interrupted:
                nothing = labels[:0]
                return Comparison({}, nothing, nothing, nothing, nothing, (name, model))
            probs.setdefault(name, []).append(model.predict_proba(other_inputs.get(name, inputs)[held_out]))
    judged = np.concatenate(rows)
    return Comparison(
        {name: np.concatenate(parts) for name, parts in probs.items()},
        labels[judged],
        np.concatenate(fold),
        judged if groups is None else groups[judged],
        judged,
    )


def signal_of_fit(model: Model) -> int:
    """The signal that ended a model's training early; 0: none."""
    return model.interrupted if isinstance(model, TrainedNetwork) else 0
