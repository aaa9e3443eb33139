"""`ict fit` and `ict predict`: from a user's files to a model folder and predictions, with an honest number."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from ict.auto import AUTO, choose
from ict.data.own import OwnData, read_own
from ict.errors import UserError
from ict.files import write_atomic
from ict.fitted import GRAPH, Fitter, Network
from ict.inputs import fit_inputs
from ict.labels import UNLABELED, encode
from ict.model_folder import SavedModel, load_model, save_model

_HELD_OUT = 0.2  # of the labeled examples, where every class has enough
_ENOUGH = 5  # labels of a class


def fit_files(data: OwnData, out: Path, method: str, fitter: Fitter, seed: int) -> str:
    """Train, measure on labeled examples that were held out, write the model and predictions; a summary in words."""
    if method == GRAPH:
        raise UserError("method graph trains no network that could be saved: choose auto, ict or another.")
    if (out / "config.json").exists():
        raise UserError(f"{out} already holds a model: name another folder with --out.")
    known = encode(data.y, len(data.y))
    if len(known.classes) < 2:
        raise UserError(f"there is one class alone, '{known.classes[0]}': label examples of another.")
    train, test = _split(known.labels, seed)
    inputs = fit_inputs(data.x[train])
    ready, labels = inputs(data.x[train]), known.labels[train]
    remark = ""
    if method == AUTO:
        choice = choose(fitter, ready, labels, len(known.classes), seed, ("supervised", "ict"))
        method, fitted, remark = choice.method, choice.model, choice.remark
    else:
        fitted = fitter.fit(method, ready, labels, len(known.classes), seed)
    assert isinstance(fitted, Network), "every method but the graph trains one"
    model = SavedModel(fitted, inputs, tuple(map(str, known.classes)))
    accuracy = _accuracy(model, data, known.labels, test)
    about = {"method": method, "labeled": int((labels >= 0).sum()), "unlabeled": int((labels < 0).sum())}
    about |= {"test": accuracy, "verdict": remark} if remark else {"test": accuracy}
    save_model(out, model, about)
    unlabeled = np.flatnonzero(known.labels == UNLABELED)
    write_predictions(out / "predictions.csv", model, data.x[unlabeled], [data.names[i] for i in unlabeled])
    said = [*data.remarks, f"{method}, {about['labeled']} labeled and {about['unlabeled']} unlabeled examples", remark]
    return "\n".join([*filter(None, said), accuracy, f"{out}/model.safetensors, {out}/predictions.csv"])


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
    return "\n".join([*data.remarks, f"{len(data.names)} predictions: {out}"])


def write_predictions(path: Path, model: SavedModel, x: NDArray[Any], names: list[str]) -> None:
    """A line for each example: its name, the most probable class and the probabilities of all."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["example", "label", "probability", *(f"p({name})" for name in model.classes)])
    if len(x):
        for name, row in zip(names, model.predict_proba(x), strict=True):
            best = int(row.argmax())
            writer.writerow([name, model.classes[best], f"{row[best]:.6f}", *(f"{p:.6f}" for p in row)])
    write_atomic(path, text.getvalue().encode())


def _split(labels: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to train on and labeled rows to test on; none of those where a class has too few labels."""
    labeled = np.flatnonzero(labels >= 0)
    if np.bincount(labels[labeled]).min() < _ENOUGH:
        return np.arange(len(labels)), labeled[:0]
    _, test = train_test_split(labeled, test_size=_HELD_OUT, stratify=labels[labeled], random_state=seed % 2**32)
    return np.setdiff1d(np.arange(len(labels)), test), np.sort(test)


def _accuracy(model: SavedModel, data: OwnData, labels: NDArray[np.int64], test: NDArray[np.int64]) -> str:
    if not len(test):
        return f"no accuracy was measured: a class has fewer than {_ENOUGH} labels, too few to hold some out"
    right = int((model.predict_proba(data.x[test]).argmax(1) == labels[test]).sum())
    low, high = _interval(right, len(test))
    return (
        f"{right} of {len(test)} held-out labels right: {right / len(test):.1%} (95 % interval {low:.1%} to {high:.1%})"
    )


def _interval(right: int, n: int) -> tuple[float, float]:
    """Wilson's, which is honest for few examples and for accuracies near 1."""
    from scipy.stats import binomtest

    interval = binomtest(right, n).proportion_ci(0.95, "wilson")
    return float(interval.low), float(interval.high)
