"""`ict fit` and `ict predict`: from a user's files to a model folder and predictions, with an honest number."""

import csv
import io
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ict.auto import AUTO, choose
from ict.calibrated import calibrate
from ict.data.own import OwnData, read_own
from ict.errors import UserError
from ict.files import write_atomic
from ict.fitted import GRAPH, Fitter, Look, Network
from ict.held_out import TEST_ENOUGH, hold_out, score
from ict.inputs import fit_inputs
from ict.labels import UNLABELED, encode
from ict.model_folder import SavedModel, load_model, save_model
from ict.provenance import provenance
from ict.report import Findings, report
from ict.suggest import Suggestion, reason, suggest

_NO_TEST = f"a class has fewer than {TEST_ENOUGH} labels, too few to hold some out"
_FOLLOWED = 1000  # unlabeled examples on which the network's certainty is followed while it is trained


def fit_files(data: OwnData, out: Path, method: str, fitter: Fitter, seed: int, command: str = "") -> str:
    """Train, measure on labeled examples that were held out, write the model and what it says; a summary in words."""
    if method == GRAPH:
        raise UserError("method graph trains no network that could be saved: choose auto, ict or another.")
    if (out / "config.json").exists():
        raise UserError(f"{out} already holds a model: name another folder with --out.")
    known = encode(data.y, len(data.y))
    if len(known.classes) < 2:
        raise UserError(f"there is one class alone, '{known.classes[0]}': label examples of another.")
    began = time.monotonic()
    parts = hold_out(known.labels, seed)
    inputs = fit_inputs(data.x[parts.train])
    ready, labels = inputs(data.x[parts.train]), known.labels[parts.train]
    n_classes, classes = len(known.classes), tuple(map(str, known.classes))
    valid = (inputs(data.x[parts.valid]), known.labels[parts.valid]) if len(parts.valid) else None
    look = Look(valid, _spread(ready[labels < 0]))
    choice = None
    if method == AUTO:
        choice = choose(fitter, ready, labels, n_classes, seed, ("supervised", "ict"), look)
        method, fitted = choice.method, choice.model
    else:
        fitted = fitter.fit(method, ready, labels, n_classes, seed, look)
    assert isinstance(fitted, Network), "every method but the graph trains one"
    calibration = calibrate(fitter, method, fitted, ready, labels, valid, n_classes, seed)
    uncalibrated = SavedModel(fitted, inputs, classes)
    model = replace(uncalibrated, temperature=calibration.temperature, calibration=calibration.said)
    test_probs = _predicted(uncalibrated, data.x[parts.test])
    accuracy = (
        str(score(test_probs, known.labels[parts.test])) if len(parts.test) else f"no accuracy was measured: {_NO_TEST}"
    )
    remark = choice.remark if choice else ""
    about = {"method": method, "labeled": int((labels >= 0).sum()), "unlabeled": int((labels < 0).sum())}
    about |= {"test": accuracy, "verdict": remark} if remark else {"test": accuracy}
    unlabeled = np.flatnonzero(known.labels == UNLABELED)
    names, x = [data.names[i] for i in unlabeled], data.x[unlabeled]
    probs = _predicted(model, x)
    suggestions = suggest(probs, lambda rows: fitted.features(inputs(x[rows])), seed)
    found = Findings(
        method=method,
        compared=choice is not None,
        verdict=choice.verdict if choice else None,
        remark=remark,
        classes=classes,
        labeled=np.bincount(labels[labels >= 0], minlength=n_classes),
        test_probs=test_probs,
        test_labels=known.labels[parts.test],
        no_test=_NO_TEST,
        calibration=calibration,
        history=fitted.history,
        seeding=fitted.seeding,
        no_validation="there are too few labels to hold some out for it",
        names=names,
        probs=probs,
        images=x if x.ndim > 2 else None,
        suggestions=suggestions,
        remarks=data.remarks,
        origin=_origin(command, seed, fitted, began),
    )
    page = report(found)  # before anything is written
    save_model(out, model, about)
    write_probabilities(out / "predictions.csv", classes, names, probs)
    write_next(out / "next.csv", classes, names, suggestions)
    write_atomic(out / "report.html", page.encode())
    said = [*data.remarks, f"{method}, {about['labeled']} labeled and {about['unlabeled']} unlabeled examples", remark]
    files = ", ".join(f"{out / name}" for name in ("model.safetensors", "predictions.csv", "next.csv", "report.html"))
    return "\n".join([*filter(None, said), accuracy, calibration.said, files])


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
    write_probabilities(path, model.classes, names, _predicted(model, x))


def write_probabilities(path: Path, classes: tuple[str, ...], names: list[str], probs: NDArray[Any]) -> None:
    lines = [["example", "label", "probability", *(f"p({name})" for name in classes)]]
    for name, row in zip(names, probs, strict=True):
        best = int(row.argmax())
        lines.append([name, classes[best], f"{row[best]:.6f}", *(f"{p:.6f}" for p in row)])
    _write_csv(path, lines)


def write_next(path: Path, classes: tuple[str, ...], names: list[str], suggestions: Sequence[Suggestion]) -> None:
    """A line for each example that is worth a label, the most useful first."""
    lines = [["rank", "example", "guess", "probability", "cluster", "why"]]
    for rank, found in enumerate(suggestions, 1):
        guess = [classes[found.guess], f"{found.probability:.6f}", f"{found.cluster}"]
        lines.append([f"{rank}", names[found.row], *guess, reason(found, classes)])
    _write_csv(path, lines)


def _write_csv(path: Path, lines: list[list[str]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    write_atomic(path, text.getvalue().encode(errors="surrogateescape"))  # a file's name need not be UTF-8


def _predicted(model: SavedModel, x: NDArray[Any]) -> NDArray[Any]:
    return model.predict_proba(x) if len(x) else np.empty((0, len(model.classes)))


def _spread(inputs: NDArray[Any]) -> NDArray[Any] | None:
    """Up to `_FOLLOWED` of the examples, evenly spaced; none of none."""
    if not len(inputs):
        return None
    return inputs[np.linspace(0, len(inputs) - 1, min(len(inputs), _FOLLOWED)).astype(np.int64)]


def _origin(command: str, seed: int, fitted: Network, began: float) -> dict[str, str]:
    made = provenance(next(fitted.module.parameters()).device)
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    return {
        "command": command or "from Python",
        "seed": str(seed),
        "versions": versions,
        "computed on": f"{made['device']} ({made['machine']})",
        "updates": f"{fitted.n_updates:,}" + (" (interrupted)" if fitted.interrupted else ""),
        "took": f"{time.monotonic() - began:.0f} s",
        "finished": made["finished"],
    }
