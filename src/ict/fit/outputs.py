"""The files that `ict fit` writes: the model, predictions, suggestions of what to label next, and a report."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ict.base.array_types import Array, Rows
from ict.base.errors import UserError, is_out_of_memory
from ict.base.files import write_atomic
from ict.base.interrupts import signal_of
from ict.base.new_folder import NewFolder
from ict.data.array_inputs import by_name
from ict.data.labels import UNLABELED
from ict.data.user.records import Progress, UserData
from ict.data.user.remarks import word
from ict.data.user.subsets import Subsets
from ict.estimators import AUTO
from ict.estimators.about import IN_TEST, about_fit, measured
from ict.estimators.auto import HeldOutProbs, Judged
from ict.estimators.metrics import Metric, in_words, mean_score
from ict.experiment.provenance import provenance
from ict.experts.graph import GraphPropagation
from ict.experts.temperature import tempered
from ict.fit import earlier
from ict.fit.chosen_backbone import ChosenBackbone
from ict.fit.earlier import Earlier, held_out_lines
from ict.fit.findings import ENOUGH, Example, Findings, Mistake
from ict.fit.holdout import score
from ict.fit.label_next import reason, suggest
from ict.fit.next_file import Next, write_next
from ict.fit.predict import prediction_lines, write_lines
from ict.fit.report import report
from ict.models.saved_model import CONFIG, SavedModel, describe_model, save_model
from ict.models.trained_network import TrainedNetwork

_OF_ONE_FIT = ("--out", "--compare-with")  # options that another fit has another value of
_MISTAKES = 12  # shown in the report
_CHUNK = 1024  # examples predicted at a time


@dataclass(frozen=True)
class Fit:
    """The fit that made a model."""

    judged: Judged
    asked: str  # the method
    metric: Metric
    data: UserData
    labels: Rows  # of all the data, -1 where unknown
    rows: Subsets
    seed: int
    origin: dict[str, str]
    backbone: ChosenBackbone | None = None  # where the examples are a backbone's features
    source: str = ""  # the data's path
    progress: Progress | None = None
    earlier: Earlier | None = None  # a model to compare with


class Written(NamedTuple):
    """The summary of `ict fit`, and the signal that interrupted it once there was a model; 0: none."""

    summary: str
    interrupted: int
    result: dict[str, Any]  # the same and more, for programs


def write_outputs(folder: NewFolder, model: SavedModel, fit: Fit) -> Written:
    """Write the folder and return a summary. The model is written first, so that a later error does not lose it."""
    if fit.backbone is not None:
        model, notes = fit.backbone.carried_by(model, folder.path)
        fit = replace(fit, data=replace(fit.data, remarks=(*fit.data.remarks, *notes)))
    save_model(
        folder.path, model, _about(model, fit), model.unfinished or "its predictions and report were not written"
    )
    try:
        summary, result = _write_about(folder, model, fit)
    except BaseException as problem:
        folder.publish(CONFIG)
        if isinstance(problem, KeyboardInterrupt):
            return Written(f"{folder.folder} holds no predictions and no report.", signal_of(problem), {})
        if cause := _out_of_room(problem):
            raise UserError(
                f"{cause}: {folder.folder} holds the trained model, and no predictions and no report; "
                f"'ict predict {folder.folder} DATA' makes predictions in small chunks."
            ) from None
        raise
    folder.publish(CONFIG)
    return Written(summary, model.network.interrupted if isinstance(model.network, TrainedNetwork) else 0, result)


def _out_of_room(problem: BaseException) -> str:
    """The resource that ran out, in words; "" for another problem."""
    if isinstance(problem, OSError):
        return f"{problem.filename or 'a file'} could not be written ({problem.strerror})"
    return "memory ran out" if is_out_of_memory(problem) else ""


def _about(model: SavedModel, fit: Fit) -> dict[str, Any]:
    return about_fit(
        fit.judged,
        asked=fit.asked,
        metric=fit.metric,
        classes=model.classes,
        labels=fit.labels[fit.rows.train],
        items=fit.data.items,
    )


def _write_about(folder: NewFolder, model: SavedModel, fit: Fit) -> tuple[str, dict[str, Any]]:
    """Write the saved model's predictions, suggestions and report for the data, and return a summary and the result."""
    out, place = folder.folder, folder.path
    data, rows, judged = fit.data, fit.rows, fit.judged
    trained = fit.labels[rows.train]
    test = _test(model, fit)
    picked = bool(data.checks)  # beside random checks, the other labels were picked, so folds of them say little
    measured_by_test = test is not None and (judged.held_out is None or picked or len(rows.test) >= ENOUGH)
    held_out = test if measured_by_test else judged.held_out
    accuracy = _accuracy(fit, test or judged.held_out)
    in_folds = "" if test is None or measured_by_test else str(judged.estimate)
    about = _about(model, fit) | {"test": accuracy}
    n_labeled, n_unlabeled = about["labeled"], about["unlabeled"]
    if test is not None and measured_by_test:
        on_test = score(test.probs, test.labels)
        about["measured"] = measured("accuracy", on_test.accuracy, *on_test.interval, on_test.n, IN_TEST)
    if in_folds:
        about["folds"] = in_folds
    if len(rows.valid):
        about["validation"] = str(score(predicted(model, data, rows.valid), fit.labels[rows.valid]))
    measured_on = rows.test if measured_by_test else rows.train
    of_held_out = held_out_lines(data, measured_on, model.classes, held_out)
    change = None
    if fit.earlier is not None:
        groups = None if data.groups is None else dict(zip(data.digests, data.groups, strict=True))
        change = earlier.compare(fit.earlier, about, of_held_out, fit.metric, fit.seed, groups)
    unlabeled = np.flatnonzero(fit.labels == UNLABELED)
    names = [data.names[i] for i in unlabeled]
    probs = predicted(model, data, unlabeled, fit.progress)
    network = model.network if isinstance(model.network, TrainedNetwork) else None
    remarks = (*data.remarks, *rows.remarks)

    def features(some: Rows) -> Array:
        ready = model.inputs(data.x[unlabeled[some]])
        return network.features(ready) if network else ready.reshape(len(ready), -1)

    if fit.progress is not None:
        fit.progress("writing", 0, None)
    suggestions = suggest(probs, features, fit.seed)
    page = report(
        Findings(
            judged=judged,
            compared=fit.asked == AUTO,
            metric=fit.metric,
            items=data.items,
            classes=model.classes,
            labeled=np.bincount(trained[trained >= 0], minlength=len(model.classes)),
            held_out=held_out,
            tested=measured_by_test,
            no_test=_no_test(fit),
            history=network.history if network else (),
            seeding=network.seeding if network else 0,
            names=names,
            probs=probs,
            example=lambda i: _example(data, int(unlabeled[i])),
            suggestions=suggestions,
            n_valid=len(rows.valid),
            mistakes=_mistakes(fit, held_out, measured_on),
            change=change,
            small_test=f"On the test {word(data.items)}: {accuracy}." if in_folds else "",
            again=_again(fit, out),
            columns=data.table.described if data.table else (),
            remarks=remarks,
            origin=fit.origin,
        )
    )
    write_lines(place / earlier.FILE, of_held_out)
    write_lines(place / "predictions.csv", prediction_lines(model.classes, [(names, probs)]))
    asked = [
        Next(
            int(unlabeled[one.row]), one.cluster, reason(one, model.classes), model.classes[one.guess], one.probability
        )
        for one in suggestions
    ]
    write_next(place / "next.csv", data, asked)
    write_atomic(place / "report.html", page.encode())
    describe_model(place, model, about, model.unfinished)
    names_of_files = ("model.safetensors", "predictions.csv", "next.csv", "report.html")
    table = [str(data.table)] if data.table else []
    lines = [
        *table,
        *remarks,
        f"{judged.method}, {n_labeled} labeled and {n_unlabeled} unlabeled {word(data.items, n_unlabeled)}",
        judged.remark,
    ]
    files = ", ".join(f"{out / name}" for name in names_of_files)
    validation = f"validation: {about['validation']}" if len(rows.valid) else ""
    changed = [] if change is None else change.lines
    result = {
        **about,
        "compared_with": None if change is None else change.as_json(),
        "folder": str(out),
        "classes": list(model.classes),
        "temperature": model.temperature,
        "calibration": model.calibration,
        "columns": dict(data.table.described) if data.table else {},
        "remarks": list(remarks),
        "next": [names[one.row] for one in suggestions],
        "origin": fit.origin,
        "unfinished": model.unfinished,
    }
    summary = "\n".join(filter(None, [*lines, accuracy, in_folds, validation, *changed, model.calibration, files]))
    return summary, result


def _again(fit: Fit, out: Path) -> str:
    """The command that goes on with the labels of next.csv: this one, with its labels and options, beside the model."""
    words = iter(shlex.split(fit.origin["command"]))
    kept = []
    for option in words:
        if option in _OF_ONE_FIT:
            next(words, None)  # its value
        elif not option.startswith(tuple(f"{name}=" for name in _OF_ONE_FIT)):
            kept.append(option)
    if kept[:2] != ["ict", "fit"]:  # from Python
        kept = ["ict", "fit", fit.source]
    return shlex.join([*kept, "--labels", f"{out / 'next.csv'}", "--out", f"{out}-2", "--compare-with", f"{out}"])


def _test(model: SavedModel, fit: Fit) -> HeldOutProbs | None:
    """The model's predictions for the test examples, if there are any."""
    rows = fit.rows.test
    if not len(rows):
        return None
    probs = predicted(replace(model, temperature=1.0), fit.data, rows)
    return HeldOutProbs(probs, tempered(probs, model.temperature), fit.labels[rows], np.arange(len(rows)))


def _no_test(fit: Fit) -> str:
    """Why nothing was held out, if nothing was."""
    return f"a class has fewer than two different labeled {word(fit.data.items)}, too few to hold some out"


def _accuracy(fit: Fit, held_out: HeldOutProbs | None) -> str:
    """The accuracy in words, from the test examples or from folds."""
    if held_out is None:
        return f"no accuracy was measured: {_no_test(fit)}"
    if not len(fit.rows.test):
        shorter = ", in shorter fits" if fit.judged.shorter else ""
        return f"{fit.judged.estimate}{shorter}"
    words = str(score(held_out.probs, held_out.labels))
    if fit.metric == "accuracy":
        return words
    value = mean_score(fit.metric, held_out.calibrated, held_out.labels)
    return f"{words}; {fit.metric.replace('_', ' ')} {in_words(fit.metric, value)}"


def _example(data: UserData, row: int) -> Example:
    """A row of the data as a page shows it."""
    image = data.x[row] if data.x.ndim > 2 else None if data.image is None else data.image(row)
    return Example(data.names[row], image, data.texts[row] if data.texts else "")


def _mistakes(fit: Fit, held_out: HeldOutProbs | None, rows: Rows) -> list[Mistake]:
    """The surest wrong guesses. `rows`: those of the data among which the held-out ones are."""
    if held_out is None or held_out.rows is None:
        return []
    guesses = held_out.calibrated.argmax(1)
    wrong = np.flatnonzero(guesses != held_out.labels)
    sure = held_out.calibrated[wrong, guesses[wrong]]
    return [
        Mistake(
            _example(fit.data, int(rows[held_out.rows[i]])),
            int(held_out.labels[i]),
            int(guesses[i]),
            float(held_out.calibrated[i, guesses[i]]),
        )
        for i in wrong[np.argsort(-sure, kind="stable")][:_MISTAKES]
    ]


def predicted(model: SavedModel, data: UserData, rows: Rows, progress: Progress | None = None) -> Array:
    """The probabilities of some rows, computed in chunks, since the examples may be on disk."""
    parts = [np.empty((0, len(model.classes)))]
    for start in range(0, len(rows), _CHUNK):
        some = rows[start : start + _CHUNK]
        with by_name([data.names[row] for row in some]):
            parts.append(model.predict_proba(data.x[some]))
        if progress is not None:
            progress("predicting", min(start + _CHUNK, len(rows)), len(rows))
    return np.concatenate(parts)


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
