"""The temperature of a fitted model: from validation examples or folds of the labeled ones, never from the test."""

from dataclasses import dataclass

from ict.base.array_types import Array, Labels
from ict.estimators.comparison import Comparison
from ict.estimators.fitter import Model
from ict.experts.temperature import fit_temperature


@dataclass(frozen=True)
class Calibration:
    temperature: float
    sentence: str  # the source of the temperature, or why there is none
    fitted: bool = True


def by_validation(model: Model, inputs: Array, labels: Labels, items: str) -> Calibration:
    """From scaled inputs and labels that were not trained on."""
    temperature = fit_temperature(model.predict_proba(inputs), labels)
    return _calibrated(temperature, f"{len(labels)} validation {items}")


def by_folds(comparison: Comparison, name: str, shorter: bool, items: str) -> Calibration:
    """From the labeled examples, each predicted by a fit that did not see its label."""
    fits = "shorter fits" if shorter else "fits"
    source = f"{len(comparison.labels)} labeled {items}, guessed by {fits} that did not see their labels"
    return _calibrated(comparison.temperature(name), source)


def uncalibrated(why: str) -> Calibration:
    return Calibration(1.0, f"Probabilities are the model's own and not calibrated: {why}.", fitted=False)


def _calibrated(temperature: float, source: str) -> Calibration:
    return Calibration(temperature, f"Probabilities are calibrated: temperature {temperature:.2f}, from {source}.")
