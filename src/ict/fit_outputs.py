"""What `ict fit` leaves in its folder: the model, predictions, what to label next, and a report on it all."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ict.auto import Choice
from ict.calibrated import Calibration
from ict.data.own import OwnData
from ict.files import write_atomic
from ict.fitted import Network
from ict.held_out import TEST_ENOUGH, Parts, score
from ict.labels import UNLABELED
from ict.model_folder import SavedModel, save_model
from ict.provenance import provenance
from ict.report import Findings, report
from ict.suggest import Suggestion, reason, suggest

Array = NDArray[Any]
Rows = NDArray[np.int64]
_NO_TEST = f"a class has fewer than {TEST_ENOUGH} labels, too few to hold some out"
_NO_VALIDATION = "labels are too few to hold some out for it"
_FOLLOWED = 1000  # unlabeled examples on which a network's certainty is followed while it is trained
_CHUNK = 1024  # examples predicted at a time


@dataclass(frozen=True)
class Fit:
    """How a model was made."""

    method: str
    choice: Choice | None  # where methods were compared
    calibration: Calibration
    data: OwnData
    labels: Rows  # of all the data, -1 where unknown
    parts: Parts
    seed: int
    origin: dict[str, str]


def write_outputs(out: Path, model: SavedModel, fit: Fit) -> str:
    """Write the folder; a summary in words."""
    data, parts = fit.data, fit.parts
    test_labels, trained = fit.labels[parts.test], fit.labels[parts.train]
    test_probs = predicted(replace(model, temperature=1.0), data.x, parts.test)
    accuracy = f"no accuracy was measured: {_NO_TEST}"
    if len(parts.test):
        accuracy = str(score(test_probs, test_labels))
    n_labeled, n_unlabeled = int((trained >= 0).sum()), int((trained < 0).sum())
    about = {"method": fit.method, "labeled": n_labeled, "unlabeled": n_unlabeled, "test": accuracy}
    remark = fit.choice.remark if fit.choice else ""
    about |= {"verdict": remark} if remark else {}
    unlabeled = np.flatnonzero(fit.labels == UNLABELED)
    names = [data.names[i] for i in unlabeled]
    probs = predicted(model, data.x, unlabeled)
    network = model.network
    suggestions = suggest(probs, lambda rows: network.features(model.inputs(data.x[unlabeled[rows]])), fit.seed)
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
            history=network.history,
            seeding=network.seeding,
            no_validation=_NO_VALIDATION,
            names=names,
            probs=probs,
            image=(lambda row: data.x[unlabeled[row]]) if data.x.ndim > 2 else None,
            suggestions=suggestions,
            remarks=data.remarks,
            origin=fit.origin,
        )
    )
    save_model(out, model, about)
    write_probabilities(out / "predictions.csv", model.classes, names, probs)
    write_next(out / "next.csv", model.classes, names, suggestions)
    write_atomic(out / "report.html", page.encode())
    said = [*data.remarks, f"{fit.method}, {n_labeled} labeled and {n_unlabeled} unlabeled examples", remark]
    files = ", ".join(f"{out / name}" for name in ("model.safetensors", "predictions.csv", "next.csv", "report.html"))
    return "\n".join([*filter(None, said), accuracy, fit.calibration.said, files])


def predicted(model: SavedModel, x: Array, rows: Rows) -> Array:
    """Probabilities of some rows, read a chunk at a time: the examples may be on disk."""
    chunks = np.split(rows, range(_CHUNK, len(rows), _CHUNK)) if len(rows) else []
    return np.concatenate([np.empty((0, len(model.classes))), *(model.predict_proba(x[chunk]) for chunk in chunks)])


def spread(inputs: Array) -> Array | None:
    """Some of the examples, evenly spaced, on which to follow a network's certainty; none of none."""
    if not len(inputs):
        return None
    return inputs[np.linspace(0, len(inputs) - 1, min(len(inputs), _FOLLOWED)).astype(np.int64)]


def origin(fitted: Network, *, command: str, seed: int, seconds: float) -> dict[str, str]:
    """Where a model comes from, in words."""
    made = provenance(next(fitted.module.parameters()).device)
    return {
        "command": command or "from Python",
        "seed": str(seed),
        "versions": ", ".join(f"{name} {version}" for name, version in made["versions"].items()),
        "computed on": f"{made['device']} ({made['machine']})",
        "updates": f"{fitted.n_updates:,}" + (" (interrupted)" if fitted.interrupted else ""),
        "took": f"{seconds:.0f} s",
        "finished": made["finished"],
    }


def write_probabilities(path: Path, classes: tuple[str, ...], names: Sequence[str], probs: Array) -> None:
    """A line for each example: its name, the most probable class and the probabilities of all."""
    lines = [["example", "label", "probability", *(f"p({name})" for name in classes)]]
    for name, row in zip(names, probs, strict=True):
        best = int(row.argmax())
        lines.append([name, classes[best], f"{row[best]:.6f}", *(f"{p:.6f}" for p in row)])
    _write_csv(path, lines)


def write_next(path: Path, classes: tuple[str, ...], names: Sequence[str], suggestions: Sequence[Suggestion]) -> None:
    """A line for each example that is worth a label, the most useful first."""
    lines = [["rank", "example", "guess", "probability", "cluster", "why"]]
    for rank, found in enumerate(suggestions, 1):
        guess = [classes[found.guess], f"{found.probability:.6f}", f"{found.cluster}"]
        lines.append([f"{rank}", names[found.row], *guess, reason(found, classes)])
    _write_csv(path, lines)


def _write_csv(path: Path, lines: Sequence[Sequence[str]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    write_atomic(path, text.getvalue().encode(errors="surrogateescape"))  # a file's name need not be UTF-8
