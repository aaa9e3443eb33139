"""The scikit-learn estimators: `fit(X, y)` with -1 for the unlabeled examples. Torch is imported by `fit`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ict.base.array_types import Array, Labels, Rows
from ict.base.errors import UserError
from ict.base.interrupts import pass_on
from ict.base.thread_lock import one_thread_at_a_time
from ict.data.array_inputs import fit_inputs
from ict.data.columns.frames import as_frame, is_table
from ict.data.columns.learn import learn_table
from ict.data.labels import UNLABELED, encode
from ict.estimators import AUTO
from ict.experiment.progress_line import SILENT, ProgressLine, progress_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn

    from ict.data.columns.kinds import Asked
    from ict.engine.device import Device, Mode
    from ict.estimators.auto import Judged
    from ict.estimators.embedding import Embedding
    from ict.estimators.fitter import Fitter
    from ict.estimators.metrics import Metric
    from ict.models.saved_model import SavedModel

_DENSE = 4e9  # bytes of a sparse matrix as an array


class SemiSupervisedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Any method as a scikit-learn classifier.

    method: "auto" compares logistic regression, a forest, the mean of experts and anchored ICT by cross-validation and
        takes the best; or "graph", or a method that `ict list` shows for digits-100, such as "ict" or "mean-teacher".
    network: a module that returns logits. None: one that suits the shape of X.
    steps: the number of updates. None: depends on the number of examples.
    settings: strings such as "train.weight=30". device, random_state.
    mode: "fast" trains in bfloat16, on a GPU or a CPU that has it.
    verbose: 1 for a line of progress: a bar in a terminal or a notebook, elsewhere a line every five seconds.
    backbone: a pretrained network that makes features of X, which is then strings or images as uint8: "auto" for the
        packaged one, or a name that `ict list backbones` shows.
    metric: what "auto" compares: "accuracy", "balanced_accuracy" or "log_loss".
    columns: what columns of a table are, such as {"zip": "category"}: number, category, date or ignore; others are
        recognized. `table_` says what each became.
    calibrate: whether the probabilities of other methods on vectors get a temperature, which takes three more fits on
        folds; those of "auto" always get one, from the folds of its comparison.

    X is [n, features], also sparse, [n, h, w], [n, h, w, c] or [n, c, h, w], or a table with categories, gaps and
    dates: a frame of pandas or polars, an Arrow table or NumPy records. y is -1, None or NaN where a label is unknown.
    After `fit`: `classes_`, `transduction_` (the label of every example), `method_` and `temperature_`. If folds were
    fitted, `comparison_` (the score of every candidate on every fold, higher is better) and `estimate_` (the score on
    new examples, with its interval). With "auto" also `verdict_`: whether the unlabeled examples helped, and with which
    certainty; `remark_` says the same in words.

    `save` writes a folder that `ict.load`, `ict predict` and `ict export` read.
    """

    def __init__(
        self,
        method: str = AUTO,
        *,
        network: "nn.Module | None" = None,
        steps: int | None = None,
        settings: tuple[str, ...] = (),
        device: "Device" = "auto",
        mode: "Mode" = "exact",
        random_state: Any = None,
        verbose: int = 0,
        backbone: str | None = None,
        metric: "Metric" = "accuracy",
        calibrate: bool = True,
        columns: "Mapping[str, Asked] | None" = None,
    ) -> None:
        self.method = method
        self.network = network
        self.steps = steps
        self.settings = settings
        self.device = device
        self.mode = mode
        self.random_state = random_state
        self.verbose = verbose
        self.backbone = backbone
        self.metric = metric
        self.calibrate = calibrate
        self.columns = columns

    @one_thread_at_a_time
    def fit(self, X: Any, y: Any, unlabeled_X: Any = None, groups: Any = None) -> "SemiSupervisedClassifier":
        """Train on labeled and unlabeled examples.

        Ctrl-C ends training early and leaves a usable model. SIGTERM and SIGHUP do too, and are then raised again: they
        end a program that does not handle them.

        `groups`: one for every row of X; rows of a group, such as photos of one person, are held out together.
        """
        if y is None:
            raise ValueError("This estimator requires y to be passed, but the target y is None.")
        with progress_line(shown=self.verbose > 0) as progress:
            return self._fit(X, y, unlabeled_X, groups, progress)

    def _fit(self, X: Any, y: Any, unlabeled_X: Any, groups: Any, progress: ProgressLine) -> "SemiSupervisedClassifier":
        from ict.estimators.about import about_fit
        from ict.estimators.embedding import embedding_for, on_features
        from ict.estimators.fitter import Fitter
        from ict.estimators.metrics import check_metric
        from ict.experts.folds import fold_groups
        from ict.models.trained_network import TrainedNetwork

        self.embedding_ = None if self.backbone is None else embedding_for(self.backbone, _plain(X), self.device)
        tables = [X] if unlabeled_X is None else [X, unlabeled_X]
        self.table_ = learn_table(tables, self.columns or {}) if self.embedding_ is None else None
        X = self._numbers(X, progress=progress)
        known = encode(y, len(X))
        check_classification_targets(np.tile(known.classes, 2))  # of many labels, each once, it takes them for numbers
        self.classes_, labels = known.classes, known.labels
        self._pixels = X.ndim == 2 or X.dtype == np.uint8
        if unlabeled_X is not None:
            more = self._numbers(unlabeled_X, reset=False, progress=progress)
            if groups is not None:  # each of these is a group of its own
                groups = [*((True, group) for group in groups), *((False, i) for i in range(len(more)))]
            X, labels = np.concatenate([X, more]), np.concatenate([labels, np.full(len(more), UNLABELED)])
        units = () if self.table_ is None else self.table_.units
        self.inputs_ = fit_inputs(X, units) if self.embedding_ is None else self.embedding_.inputs(X)
        seed = int(check_random_state(self.random_state).randint(2**31))
        fitter = Fitter(self.network, self.steps, tuple(self.settings), self.device, self.mode, progress)
        inputs = self.inputs_(X)
        method = self._method(inputs)
        if self.embedding_ is not None:
            fitter = on_features(fitter, method)
        judged = self._judged(fitter, method, inputs, labels, seed, fold_groups(X, labels, groups))
        self.method_, self.model_, self.temperature_ = judged.method, judged.model, judged.calibration.temperature
        self._calibration = judged.calibration.sentence
        self.comparison_, self.estimate_ = judged.scores, judged.estimate
        self.verdict_, self.remark_ = judged.verdict, judged.remark
        self.n_iter_ = max(self.model_.n_updates, 1) if isinstance(self.model_, TrainedNetwork) else 1
        items = "numbers" if self.embedding_ is None else "texts" if self.embedding_.texts else "photos"
        names = tuple(map(str, self.classes_))
        self._about = about_fit(
            judged, asked=self.method, metric=check_metric(self.metric), classes=names, labels=labels, items=items
        )
        pass_on(judged.signal)
        guesses = self.model_.predict_proba(inputs).argmax(1)
        self.transduction_ = self.classes_[np.where(labels == UNLABELED, guesses, labels)]
        return self

    def save(self, folder: str | Path, *, network: str | None = None) -> None:
        """Write the fitted model as a folder like that of `ict fit`, completely or not at all.

        `ict.load(folder)` gives it back; `ict predict` and `ict export` read it too. It holds plain data: weights,
        numbers and names. A network of your own is written as weights and the import path of what makes it without
        arguments: its class, or `network`, such as "mymodule:make". Loading then needs that path from you again.
        """
        from ict.estimators.saving import write_folder

        check_is_fitted(self)
        names = tuple(getattr(self, "feature_names_in_", ()))
        about = {**self._about, "estimator": type(self).__name__}
        write_folder(Path(folder), self._saved(names), self.embedding_, about, network)

    def _saved(self, names: tuple[str, ...]) -> "SavedModel":
        from ict.experts.graph import GraphPropagation
        from ict.models.saved_model import SavedModel, class_type
        from ict.models.trained_network import TrainedNetwork

        assert isinstance(self.model_, TrainedNetwork | GraphPropagation), "there is no other kind"
        columns = names if self.table_ is None else self.table_.features
        return SavedModel(
            self.model_,
            self.inputs_,
            tuple(map(str, self.classes_)),
            () if self.embedding_ is not None else columns,
            self.temperature_,
            self._calibration,
            None if self.embedding_ is None else self.embedding_.used,
            self.table_,
            class_type(self.classes_),
            self._pixels,
        )

    def restored(self, model: "SavedModel", embedding: "Embedding | None", about: dict[str, Any]) -> None:
        """As fitted, from a folder."""
        from ict.estimators.about import estimate_of, scores_of, verdict_of
        from ict.models.trained_network import TrainedNetwork

        self.model_, self.inputs_, self.classes_, self.table_ = model.network, model.inputs, model.labels, model.table
        self.temperature_, self.embedding_, self._about, self._pixels = (
            model.temperature,
            embedding,
            about,
            model.pixels,
        )
        self._calibration = model.calibration
        self.method_, self.remark_ = str(about.get("method", "")), str(about.get("verdict", ""))
        self.comparison_, self.estimate_, self.verdict_ = scores_of(about), estimate_of(about), verdict_of(about)
        self.n_iter_ = max(model.network.n_updates, 1) if isinstance(model.network, TrainedNetwork) else 1
        names = model.columns
        if model.table is not None:
            names = (*model.table.names, *(name for name, _ in model.table.left_out))
        self.n_features_in_ = len(names) or model.inputs.shape[0]
        if names:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _numbers(self, X: Any, reset: bool = True, progress: ProgressLine = SILENT) -> Any:
        """X as numbers: a backbone's features, those of a table's columns, or X itself."""
        plain = _plain(X)
        if self.table_ is not None:
            if not is_table(plain):
                raise UserError(
                    "X is an array, but the model was fitted to a table with named columns: give such a table."
                )
            frame = as_frame(plain)
            if reset:  # later, columns are found by name, and others are ignored
                validate_data(self, frame, skip_check_array=True)
            return self.table_(frame)
        numbers = plain if self.embedding_ is None else self.embedding_(plain, progress)
        return _dense(validate_data(self, numbers, accept_sparse="csr", allow_nd=True, dtype="numeric", reset=reset))

    def _judged(
        self, fitter: "Fitter", method: str, inputs: Array, labels: Labels, seed: int, groups: Rows
    ) -> "Judged":
        from ict.estimators.auto import choose, judge
        from ict.estimators.metrics import check_metric

        metric, n_classes = check_metric(self.metric), len(self.classes_)
        if method == AUTO:
            return choose(fitter, inputs, labels, n_classes, seed, metric=metric, groups=groups)
        folds = bool(self.calibrate) and inputs.ndim == 2
        return judge(fitter, method, inputs, labels, n_classes, seed, metric=metric, groups=groups, folds=folds)

    def _method(self, inputs: Array) -> str:
        """What is fitted to scaled inputs."""
        del inputs
        return self.method

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities [n, classes], in the order of `classes_`."""
        from ict.models.answers import answers

        check_is_fitted(self)
        with progress_line(shown=self.verbose > 0) as progress:
            X = self._numbers(X, reset=False, progress=progress)
        return answers(self.model_.predict_proba, self.inputs_, self.temperature_, X)

    def predict(self, X: Any) -> Array:
        """The most probable class of each example."""
        check_is_fitted(self)
        guesses: Array = self.classes_[self.predict_proba(X).argmax(1)]
        return guesses

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.sparse = True
        return tags


class ICTClassifier(SemiSupervisedClassifier):
    """Interpolation Consistency Training as a scikit-learn classifier. The parameters are those of its base class.

    Images are trained on directly. On vectors ICT is anchored on experts, models that learn from the labels alone or
    spread them over a graph; the fitted model is one network. `SemiSupervisedClassifier("ict")` has no such anchor,
    and the anchor of `SemiSupervisedClassifier("anchored-graph")` is the graph alone.
    """

    def __init__(
        self,
        *,
        network: "nn.Module | None" = None,
        steps: int | None = None,
        settings: tuple[str, ...] = (),
        device: "Device" = "auto",
        mode: "Mode" = "exact",
        random_state: Any = None,
        verbose: int = 0,
        backbone: str | None = None,
        metric: "Metric" = "accuracy",
        calibrate: bool = True,
        columns: "Mapping[str, Asked] | None" = None,
    ) -> None:
        # written out, since scikit-learn reads the parameters from this signature
        super().__init__(
            "ict",
            network=network,
            steps=steps,
            settings=settings,
            device=device,
            mode=mode,
            random_state=random_state,
            verbose=verbose,
            backbone=backbone,
            metric=metric,
            calibrate=calibrate,
            columns=columns,
        )

    def _method(self, inputs: Array) -> str:
        return "ict" if inputs.ndim > 2 else "anchored"


def _plain(X: Any) -> Any:
    """Torch's tensors as arrays, and tables of other libraries as data frames of pandas."""
    if hasattr(X, "detach"):
        return X.detach().cpu().numpy()
    return as_frame(X) if is_table(X) and not hasattr(X, "iloc") else X


def _dense(X: Any) -> Any:
    """A sparse matrix as an array, which networks need."""
    if not issparse(X):
        return X
    if (size := X.shape[0] * X.shape[1] * X.dtype.itemsize) > _DENSE:
        raise UserError(
            f"X is sparse and would take {size / 1e9:.0f} GB as an array: reduce it first, such as by TruncatedSVD."
        )
    return X.toarray()
