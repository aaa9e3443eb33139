"""`ict fit` and `ict predict`: from a user's files to a model folder and predictions, with an honest number."""

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ict.auto import AUTO, choose
from ict.calibrated import calibrate
from ict.data.own import OwnData, read_own
from ict.errors import UserError
from ict.fit_outputs import Fit, origin, predicted, spread, write_outputs, write_probabilities
from ict.fitted import GRAPH, Fitter, Look, Network
from ict.held_out import hold_out
from ict.inputs import fit_inputs
from ict.labels import encode
from ict.model_folder import SavedModel, load_model


def fit_files(data: OwnData, out: Path, method: str, fitter: Fitter, seed: int, command: str = "") -> str:
    """Train, measure on labeled examples that were held out, write the model and what it says; a summary in words."""
    if method == GRAPH:
        raise UserError("method graph trains no network that could be saved: choose auto, ict or another.")
    if (out / "config.json").exists():
        raise UserError(f"{out} already holds a model: name another folder with --out.")
    known = encode(data.y, len(data.y))
    if len(known.classes) < 2:
        raise UserError(f"there is one class alone, '{known.classes[0]}': label examples of another.")
    began, n_classes = time.monotonic(), len(known.classes)
    parts = hold_out(known.labels, seed)
    inputs = fit_inputs(data.x[parts.train])
    ready, labels = inputs(data.x[parts.train]), known.labels[parts.train]
    valid = (inputs(data.x[parts.valid]), known.labels[parts.valid]) if len(parts.valid) else None
    look = Look(valid, spread(ready[labels < 0]))
    choice = None
    if method == AUTO:
        choice = choose(fitter, ready, labels, n_classes, seed, ("supervised", "ict"), look)
        method, fitted = choice.method, choice.model
    else:
        fitted = fitter.fit(method, ready, labels, n_classes, seed, look)
    assert isinstance(fitted, Network), "every method but the graph trains one"
    calibration = calibrate(fitter, method, fitted, ready, labels, valid, n_classes, seed)
    model = SavedModel(fitted, inputs, tuple(map(str, known.classes)), calibration.temperature, calibration.said)
    fit = Fit(
        method=method,
        choice=choice,
        calibration=calibration,
        data=data,
        labels=known.labels,
        parts=parts,
        seed=seed,
        origin=origin(fitted, command=command, seed=seed, seconds=time.monotonic() - began),
    )
    return write_outputs(out, model, fit)


def predict_files(model: Path, path: Path, out: Path, *, skip_bad: bool) -> str:
    """Predictions for every example of a file or folder, labeled or not."""
    loaded = load_model(model)
    shape = loaded.inputs.shape
    data = read_own(path, size=shape[0] if path.is_dir() else None, skip_bad=skip_bad)
    x = data.x
    if x.ndim == 3 and len(shape) == 3:
        x = np.repeat(x[..., None], shape[-1], axis=3)  # gray images for a model of colored ones
    if x.shape[1:] != shape:
        raise UserError(f"{path} holds examples of the shape {x.shape[1:]}, but {model} was fitted to {shape}.")
    write_predictions(out, loaded, x, list(data.names))
    return "\n".join([*data.remarks, loaded.calibration, f"{len(data.names)} predictions: {out}"])


def write_predictions(path: Path, model: SavedModel, x: NDArray[Any], names: list[str]) -> None:
    """A line for each example: its name, the most probable class and the probabilities of all."""
    write_probabilities(path, model.classes, names, predicted(model, x, np.arange(len(x))))
