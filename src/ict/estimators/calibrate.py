"""The temperature of a fitted model, from validation examples or folds of the labeled ones, never from test examples.

If affordable, folds are fitted for as many updates as the model. A network trained for a quarter of them is unsure for
another reason; its temperature made the probabilities of supervised networks worse. Otherwise the shorter folds of the
comparison of methods are used.
"""

import warnings
from dataclasses import dataclass, replace

import numpy as np

from ict.base.array_types import Array, Labels
from ict.estimators.fitter import Fitter, Model
from ict.experts.folds import hidden_folds
from ict.experts.temperature import fit_temperature
from ict.models.trained_network import TrainedNetwork

_FOLDS = 3
_AFFORDABLE = 5000  # the most updates of a fit that folds repeat: a minute on a core
_AFFORDABLE_IMAGES = 150_000  # for images, the most updates times numbers of an image


@dataclass(frozen=True)
class Calibration:
    temperature: float
    said: str  # a sentence: the source of the temperature, or why there is none
    fitted: bool = True


def calibrate(
    fitter: Fitter,
    method: str,
    model: Model,
    inputs: Array,
    labels: Labels,
    valid: tuple[Array, Labels] | None,
    n_classes: int,
    seed: int,
    compared: tuple[Array, Labels] | None = None,
) -> Calibration:
    """Fit a temperature for `model`, which is `method` fitted to the scaled `inputs`.

    `valid`: scaled inputs and labels that were not trained on. `compared`: held-out probabilities of shorter fits, and
    the labels.
    """
    if valid is not None:
        temperature = fit_temperature(model.predict_proba(valid[0]), valid[1])
        return _calibrated(temperature, f"{len(valid[1])} validation examples")
    if np.bincount(labels[labels >= 0], minlength=n_classes).min() < 2:
        return _uncalibrated("a class has fewer than two labels")
    if isinstance(model, TrainedNetwork) and model.interrupted:
        return _uncalibrated("training was interrupted")
    if isinstance(model, TrainedNetwork) and not _affordable(model.n_updates, inputs[0]):
        if compared is not None:
            said = f"{len(compared[1])} labeled examples, guessed by shorter fits that did not see their labels"
            return _calibrated(fit_temperature(*compared), said)
        return _uncalibrated(
            f"labels are too few for a validation part, and folds of {model.n_updates:,} updates would take too long"
        )
    guesses, known = [], []
    fewest = int(np.bincount(labels[labels >= 0]).min())
    n_folds = min(_FOLDS, fewest)
    for i, (hidden, rows) in enumerate(hidden_folds(labels, n_folds, seed), 1):
        titled = replace(fitter, title=f"calibration {i}/{n_folds} (Ctrl-C skips it)")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "interrupted")  # the model itself is complete
            part = titled.fit(method, inputs, hidden, n_classes, seed)
        if isinstance(part, TrainedNetwork) and part.interrupted:
            return _uncalibrated("that was skipped")
        guesses.append(part.predict_proba(inputs[rows]))
        known.append(labels[rows])
    temperature = fit_temperature(np.concatenate(guesses), np.concatenate(known))
    n = sum(map(len, known))
    return _calibrated(temperature, f"{n} labeled examples, guessed by fits that did not see their labels")


def _affordable(n_updates: int, example: Array) -> bool:
    return n_updates <= _AFFORDABLE if example.ndim == 1 else n_updates * example.size <= _AFFORDABLE_IMAGES


def _calibrated(temperature: float, source: str) -> Calibration:
    return Calibration(temperature, f"Probabilities are calibrated: temperature {temperature:.2f}, from {source}.")


def _uncalibrated(why: str) -> Calibration:
    return Calibration(1.0, f"Probabilities are the model's own and not calibrated: {why}.", fitted=False)
