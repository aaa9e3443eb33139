"""The files that `ict fit` writes: the model, predictions, suggestions of what to label next, and a report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ict.base.array_types import Array, Rows
from ict.base.errors import UserError, is_out_of_memory
from ict.base.files import write_atomic
from ict.base.interrupts import signal_of
from ict.base.new_folder import NewFolder
from ict.data.labels import UNLABELED
from ict.data.user.records import UserData
from ict.data.user.subsets import Subsets
from ict.estimators.auto import Choice
from ict.estimators.calibrate import Calibration
from ict.experiment.provenance import provenance
from ict.experts.graph import GraphPropagation
from ict.fit.embedded import Embedded
from ict.fit.holdout import TEST_ENOUGH, score
from ict.fit.label_next import Suggestion, reason, suggest
from ict.fit.predict import prediction_lines, write_lines
from ict.fit.report import Findings, report
from ict.models.saved_model import CONFIG, SavedModel, describe_model, save_model
from ict.models.trained_network import TrainedNetwork

_NO_TEST = f"a class has fewer than {TEST_ENOUGH} different labeled examples, too few to hold some out"
_NO_VALIDATION = "labels are too few to hold some out for it"
_CHUNK = 1024  # examples predicted at a time


@dataclass(frozen=True)
class Fit:
    """The fit that made a model."""

    method: str
    choice: Choice | None  # if methods were compared
    calibration: Calibration
    data: UserData
    labels: Rows  # of all the data, -1 where unknown
    rows: Subsets
    seed: int
    origin: dict[str, str]
    embedded: Embedded | None = None  # where the examples are a backbone's features


class Written(NamedTuple):
    """The summary of `ict fit`, and the signal that interrupted it once there was a model; 0: none."""

    summary: str
    interrupted: int


def write_outputs(folder: NewFolder, model: SavedModel, fit: Fit) -> Written:
    """Write the folder and return a summary. The model is written first, so that a later error does not lose it."""
    if fit.embedded is not None:
        model, notes = fit.embedded.carried_by(model, folder.path)
        fit = replace(fit, data=replace(fit.data, remarks=(*fit.data.remarks, *notes)))
    network = model.network if isinstance(model.network, TrainedNetwork) else None
    unfinished = (
        f"training was interrupted after {network.n_updates} updates" if network and network.interrupted else ""
    )
    save_model(folder.path, model, {"method": fit.method}, unfinished or "its predictions and report were not written")
    try:
        summary = _write_about(folder, model, fit, unfinished)
    except BaseException as problem:
        folder.publish(CONFIG)
        if isinstance(problem, KeyboardInterrupt):
            return Written(f"{folder.folder} holds no predictions and no report.", signal_of(problem))
        if cause := _out_of_room(problem):
            raise UserError(
                f"{cause}: {folder.folder} holds the trained model, and no predictions and no report; "
                f"'ict predict {folder.folder} DATA' makes predictions in small chunks."
            ) from None
        raise
    folder.publish(CONFIG)
    return Written(summary, network.interrupted if network else 0)


def _out_of_room(problem: BaseException) -> str:
    """The resource that ran out, in words; "" for another problem."""
    if isinstance(problem, OSError):
        return f"{problem.filename or 'a file'} could not be written ({problem.strerror})"
    return "memory ran out" if is_out_of_memory(problem) else ""


def _write_about(folder: NewFolder, model: SavedModel, fit: Fit, unfinished: str) -> str:
    """Write the saved model's predictions, suggestions and report for the data, and return a summary."""
    out, place = folder.folder, folder.path
    data, rows = fit.data, fit.rows
    test_labels, trained = fit.labels[rows.test], fit.labels[rows.train]
    test_probs = predicted(replace(model, temperature=1.0), data.x, rows.test)
    accuracy = f"no accuracy was measured: {_NO_TEST}"
    if len(rows.test):
        accuracy = str(score(test_probs, test_labels))
    n_labeled, n_unlabeled = int((trained >= 0).sum()), int((trained < 0).sum())
    about = {"method": fit.method, "labeled": n_labeled, "unlabeled": n_unlabeled, "test": accuracy}
    if len(rows.valid):
        about["validation"] = str(score(predicted(model, data.x, rows.valid), fit.labels[rows.valid]))
    remark = fit.choice.remark if fit.choice else ""
    about |= {"verdict": remark} if remark else {}
    unlabeled = np.flatnonzero(fit.labels == UNLABELED)
    names = [data.names[i] for i in unlabeled]
    probs = predicted(model, data.x, unlabeled)
    network = model.network if isinstance(model.network, TrainedNetwork) else None
    remarks = (*data.remarks, *rows.remarks)

    def features(some: Rows) -> Array:
        ready = model.inputs(data.x[unlabeled[some]])
        return network.features(ready) if network else ready.reshape(len(ready), -1)

    suggestions = suggest(probs, features, fit.seed)
    page = report(
        Findings(
            method=fit.method,
            compared=fit.choice is not None,
            verdict=fit.choice.verdict if fit.choice else None,
            remark=remark,
            classes=model.classes,
            labeled=np.bincount(trained[trained >= 0], minlength=len(model.classes)),
            test_probs=test_probs,
            test_labels=test_labels,
            no_test=_NO_TEST,
            calibration=fit.calibration,
            history=network.history if network else (),
            seeding=network.seeding if network else 0,
            no_validation=_NO_VALIDATION,
            names=names,
            probs=probs,
            image=_pictures(data, unlabeled),
            suggestions=suggestions,
            remarks=remarks,
            origin=fit.origin,
        )
    )
    write_lines(place / "predictions.csv", prediction_lines(model.classes, [(names, probs)]))
    write_next(place / "next.csv", model.classes, names, suggestions)
    write_atomic(place / "report.html", page.encode())
    describe_model(place, model, about, unfinished)
    lines = [*remarks, f"{fit.method}, {n_labeled} labeled and {n_unlabeled} unlabeled examples", remark]
    files = ", ".join(f"{out / name}" for name in ("model.safetensors", "predictions.csv", "next.csv", "report.html"))
    validation = f"validation: {about['validation']}" if len(rows.valid) else ""
    return "\n".join(filter(None, [*lines, accuracy, validation, fit.calibration.said, files]))


def _pictures(data: UserData, rows: Rows) -> Callable[[int], NDArray[np.uint8]] | None:
    """The images of some rows, where there are any."""
    if data.image is not None:
        picture = data.image
        return lambda row: picture(int(rows[row]))
    return (lambda row: data.x[rows[row]]) if data.x.ndim > 2 else None


def predicted(model: SavedModel, x: Array, rows: Rows) -> Array:
    """The probabilities of some rows, computed in chunks, since the examples may be on disk."""
    chunks = np.split(rows, range(_CHUNK, len(rows), _CHUNK)) if len(rows) else []
    return np.concatenate([np.empty((0, len(model.classes))), *(model.predict_proba(x[chunk]) for chunk in chunks)])


def origin(fitted: TrainedNetwork | GraphPropagation, *, command: str, seed: int, seconds: float) -> dict[str, str]:
    """The origin of a model, in words."""
    network = fitted if isinstance(fitted, TrainedNetwork) else None
    made = provenance(next(network.module.parameters()).device if network else torch.device("cpu"))
    words = {
        "command": command or "from Python",
        "seed": str(seed),
        "versions": ", ".join(f"{name} {version}" for name, version in made["versions"].items()),
        "computed on": f"{made['device']} ({made['machine']})",
    }
    if network:
        words["updates"] = f"{network.n_updates:,}" + (" (interrupted)" if network.interrupted else "")
    return words | {"took": f"{seconds:.0f} s", "finished": made["finished"]}


def write_next(path: Path, classes: tuple[str, ...], names: Sequence[str], suggestions: Sequence[Suggestion]) -> None:
    """Write a line per suggestion, the most useful first."""
    lines = [["rank", "example", "guess", "probability", "cluster", "why"]]
    for rank, one in enumerate(suggestions, 1):
        guess = [classes[one.guess], f"{one.probability:.6f}", f"{one.cluster}"]
        lines.append([f"{rank}", names[one.row], *guess, reason(one, classes)])
    write_lines(path, lines)
