"""`ict fit`: from a user's files to a model folder with predictions, a report and a measured accuracy."""

import time
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np

from ict.base.array_types import Array
from ict.base.errors import UserError
from ict.base.files import check_outside
from ict.base.new_folder import NewFolder, new_folder
from ict.data.array_inputs import by_name, fit_features, fit_inputs
from ict.data.labels import encode
from ict.data.user.records import UserData
from ict.data.user.remarks import word
from ict.data.user.subsets import GivenSubsets, arrange
from ict.estimators import AUTO
from ict.estimators.auto import choose, judge
from ict.estimators.calibrate import by_validation
from ict.estimators.candidates import PIXEL_NETWORKS
from ict.estimators.embedding import on_features
from ict.estimators.fitter import Fitter, Look
from ict.estimators.metrics import Metric
from ict.experts.folds import fold_groups
from ict.experts.graph import GRAPH, GraphPropagation
from ict.fit.chosen_backbone import ChosenBackbone
from ict.fit.earlier import Earlier, check_alike
from ict.fit.holdout import hold_out
from ict.fit.outputs import Fit, Written, origin, write_outputs
from ict.models.saved_model import SavedModel, check_free
from ict.models.trained_network import TrainedNetwork

_FOLLOWED = 1000  # unlabeled examples on which a network's confidence is logged during training
_ROOM = 50_000_000  # bytes on disk for a network, a report and predictions


def fit_files(
    given: GivenSubsets,
    out: Path,
    method: str,
    fitter: Fitter,
    seed: int,
    command: str = "",
    backbone: ChosenBackbone | None = None,
    *,
    metric: Metric = "accuracy",
    holdout: float = 0.0,
    pictures: UserData | None = None,
    earlier: Earlier | None = None,
) -> Written:
    """Train, measure the accuracy, and write the model and its outputs.

    `pictures`: the same examples as pixels, if networks of pixels are to be compared with those of features.
    `holdout`: the share of the labeled examples that is kept from training for a test. Without one and without a given
    test, the accuracy is measured on folds. `earlier`: a model to compare with.

    The folder appears complete, or not at all if training is interrupted before there is a model.
    """
    for source in given.sources:
        check_outside(out, source)
    check_free(out, "--out")
    needed = _ROOM + given.data.x[:1].nbytes * len(given.data.y) * (method == GRAPH)  # it holds its rows
    with new_folder(out, needed) as folder:
        check_free(out, "--out")  # check again: another process may have written it in the meantime
        return _fit(given, folder, method, fitter, seed, command, backbone, metric, holdout, pictures, earlier)


def _fit(
    given: GivenSubsets,
    folder: NewFolder,
    method: str,
    fitter: Fitter,
    seed: int,
    command: str,
    backbone: ChosenBackbone | None,
    metric: Metric,
    holdout: float,
    pictures: UserData | None,
    earlier: Earlier | None,
) -> Written:
    data = given.data
    if all(label is None for label in data.y):
        raise UserError(
            f"{given.sources[0]} has no label yet: add --suggest 40 for a file of {word(data.items)} to label first."
        )
    known = encode(data.y, len(data.y))
    if len(known.classes) < 2:
        raise UserError(f"there is only one class, '{known.classes[0]}': label {word(data.items)} of another.")
    if earlier is not None:
        check_alike(earlier, [str(name) for name in known.classes])
    if pictures is not None and pictures.names != data.names:
        raise UserError(f"{given.sources[0]} changed while it was read: run the command again.")
    began, n_classes = time.monotonic(), len(known.classes)
    groups = fold_groups(data.x, known.labels, data.groups)
    rows = arrange(
        given, known.labels, lambda labels: (labels[:0], hold_out(labels, holdout, seed, groups, word(data.items)))
    )
    x, labels = data.x[rows.train], known.labels[rows.train]
    if backbone is None:
        inputs = fit_inputs(x, data.units)
    else:
        inputs = fit_features(x, prod(data.beside) if data.beside else 0)
        fitter = on_features(fitter, method)
    with by_name([data.names[row] for row in rows.train]):
        ready = inputs(x)
    with by_name([data.names[row] for row in rows.valid]):
        valid = (inputs(data.x[rows.valid]), known.labels[rows.valid]) if len(rows.valid) else None
    look = Look(valid, _spread(ready[labels < 0]))
    if method == AUTO:
        seen = None if pictures is None else pictures.x[rows.train]
        judged = choose(
            fitter,
            ready,
            labels,
            n_classes,
            seed,
            metric=metric,
            groups=groups[rows.train],
            look=look,
            pictures=None if seen is None else fit_inputs(seen)(seen),
            items=word(data.items),
        )
        if judged.interrupted and isinstance(judged.model, TrainedNetwork):
            raise KeyboardInterrupt(judged.model.interrupted)  # a fold's model is no result
    else:
        folds = valid is None or not len(rows.test)
        judged = judge(
            fitter,
            method,
            ready,
            labels,
            n_classes,
            seed,
            metric=metric,
            groups=groups[rows.train],
            look=look,
            folds=folds,
            items=word(data.items),
        )
    fitted = judged.model
    assert isinstance(fitted, TrainedNetwork | GraphPropagation), "there is no other kind"
    if pictures is not None and judged.method in PIXEL_NETWORKS:  # from here on the features are of no use
        data, backbone, inputs = pictures, None, fit_inputs(pictures.x[rows.train])
        valid = None if valid is None else (inputs(data.x[rows.valid]), valid[1])
    if valid is not None:
        judged = replace(judged, calibration=by_validation(fitted, *valid, word(data.items)))
    classes = tuple(map(str, known.classes))
    used = None if backbone is None else backbone.used(data)
    model = SavedModel(
        fitted,
        inputs,
        classes,
        data.columns,
        judged.calibration.temperature,
        judged.calibration.sentence,
        used,
        data.table,
    )
    fit = Fit(
        judged=judged,
        asked=method,
        metric=metric,
        data=data,
        labels=known.labels,
        rows=rows,
        seed=seed,
        origin=origin(fitted, command=command, seed=seed, seconds=time.monotonic() - began),
        backbone=backbone,
        source=str(given.sources[0]),
        progress=fitter.progress,
        earlier=earlier,
    )
    fitter.progress("writing")
    return write_outputs(folder, model, fit)


def _spread(inputs: Array) -> Array | None:
    """Some evenly spaced examples, on which a network's confidence is logged; None if there are none."""
    if not len(inputs):
        return None
    return inputs[np.linspace(0, len(inputs) - 1, min(len(inputs), _FOLLOWED)).astype(np.int64)]
