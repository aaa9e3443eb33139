"""`ict fit`: from a user's files to a model folder and predictions, with an honest number."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from ict.auto import AUTO, choose
from ict.data.own_parts import GivenParts, arrange
from ict.errors import UserError
from ict.fitted import Fitter, Network
from ict.graph import GraphPropagation
from ict.inputs import fit_inputs
from ict.labels import UNLABELED, encode
from ict.model_folder import SavedModel, save_model
from ict.predictions import only_read, rows_of, write_predictions

_HELD_OUT = 0.2  # of the labeled examples, where every class has enough
_ENOUGH = 5  # labels of a class


def fit_files(given: GivenParts, out: Path, method: str, fitter: Fitter, seed: int) -> str:
    """Train, measure on labeled examples that were held out, write the model and predictions; a summary in words."""
    for source in given.sources:
        only_read(source, out)
    if (out / "config.json").exists():
        raise UserError(f"{out} already holds a model: name another folder with --out.")
    data = given.data
    known = encode(data.y, len(data.y))
    if len(known.classes) < 2:
        raise UserError(f"there is one class alone, '{known.classes[0]}': label examples of another.")
    rows = arrange(given, known.labels, lambda labels: _split(labels, seed))
    x, labels = data.x[rows.train], known.labels[rows.train]
    inputs = fit_inputs(x)
    ready = inputs(x)
    remark = ""
    if method == AUTO:
        choice = choose(fitter, ready, labels, len(known.classes), seed)
        method, fitted, remark = choice.method, choice.model, choice.remark
    else:
        fitted = fitter.fit(method, ready, labels, len(known.classes), seed)
    assert isinstance(fitted, Network | GraphPropagation), "there is no other kind"
    model = SavedModel(fitted, inputs, tuple(map(str, known.classes)), data.columns)
    about = {"method": method, "labeled": int((labels >= 0).sum()), "unlabeled": int((labels < 0).sum())}
    about["test"] = _accuracy(model, data.x[rows.test], known.labels[rows.test])
    if len(rows.valid):
        about["validation"] = _accuracy(model, data.x[rows.valid], known.labels[rows.valid])
    if remark:
        about["verdict"] = remark
    save_model(out, model, about)
    unlabeled = np.flatnonzero(known.labels == UNLABELED).tolist()
    write_predictions(out / "predictions.csv", model, rows_of(data, unlabeled))
    said = [*data.remarks, *rows.remarks]
    said += [f"{method}, {about['labeled']} labeled and {about['unlabeled']} unlabeled examples", remark]
    said += [str(about["test"]), f"validation: {about['validation']}" if len(rows.valid) else ""]
    return "\n".join([*filter(None, said), f"{out}/model.safetensors, {out}/predictions.csv"])


def _split(labels: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """No rows to validate on, and labeled rows to test on; none of those where a class has too few labels."""
    labeled = np.flatnonzero(labels >= 0)
    nothing = labeled[:0]
    if np.bincount(labels[labeled]).min() < _ENOUGH:
        return nothing, nothing
    _, test = train_test_split(labeled, test_size=_HELD_OUT, stratify=labels[labeled], random_state=seed % 2**32)
    return nothing, np.sort(test)


def _accuracy(model: SavedModel, x: NDArray[Any], labels: NDArray[np.int64]) -> str:
    if not len(x):
        return f"no accuracy was measured: a class has fewer than {_ENOUGH} labels, too few to hold some out"
    right = int((model.predict_proba(x).argmax(1) == labels).sum())
    low, high = _interval(right, len(x))
    return f"{right} of {len(x)} held-out labels right: {right / len(x):.1%} (95 % interval {low:.1%} to {high:.1%})"


def _interval(right: int, n: int) -> tuple[float, float]:
    """Wilson's, which is honest for few examples and for accuracies near 1."""
    from scipy.stats import binomtest

    interval = binomtest(right, n).proportion_ci(0.95, "wilson")
    return float(interval.low), float(interval.high)
