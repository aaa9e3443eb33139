"""Chooses a method by folds of the labeled examples, and measures it and whether the unlabeled ones helped.

The same predictions of the folds choose the method, measure it, compare the methods that use unlabeled examples with
those that do not, and calibrate the probabilities. So no label is given up.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from ict.base.array_types import Array, Labels, Rows
from ict.base.interrupts import signal_of
from ict.estimators.calibrate import Calibration, by_folds, uncalibrated
from ict.estimators.candidates import PIXEL_NETWORKS, Candidates, Fits, uses_unlabeled
from ict.estimators.comparison import Comparison, compare, signal_of_fit
from ict.estimators.default_recipes import default_recipe, fold_steps
from ict.estimators.fitter import Fitter, Look, Model
from ict.estimators.metrics import Metric, mean_score, row_scores, row_weights
from ict.estimators.side_by_side import guess_folds, pays, with_guesses
from ict.estimators.verdict import Estimate, HeldOut, Verdict, estimate, verdict
from ict.experiment.progress_line import ProgressLine
from ict.experts.folds import comparing_folds, hidden_folds
from ict.experts.graph import GRAPH


@dataclass(frozen=True)
class HeldOutProbs:
    """A method's probabilities for examples that it was not trained on."""

    probs: Array  # before calibration
    calibrated: Array
    labels: Labels
    rows: Rows | None = None  # their indices among the rows of the fit, if they are among them


@dataclass(frozen=True)
class Rival:
    """The best candidate with unlabeled rows if the chosen one uses labels alone, else the best with labels alone."""

    method: str
    estimate: Estimate


@dataclass(frozen=True)
class Judged:
    """A fitted method, and its results on the folds."""

    method: str
    model: Model
    remark: str = ""  # on the choice and the verdict, in words
    calibration: Calibration = field(default_factory=lambda: uncalibrated("no folds were fitted"))
    scores: dict[str, list[float]] = field(default_factory=dict)  # by candidate and fold; higher is better
    estimate: Estimate | None = None  # of the method's score on new rows; None if no folds were possible
    rival: Rival | None = None
    verdict: Verdict | None = None
    held_out: HeldOutProbs | None = None
    shorter: bool = False  # the folds had fewer updates
    signal: int = 0  # that ended the fit early; 0: none
    interrupted: bool = False  # during the comparison of methods; then the model is one of a fold


def choose(
    fitter: Fitter,
    inputs: Array,
    labels: Labels,
    n_classes: int,
    seed: int,
    *,
    metric: Metric = "accuracy",
    groups: Rows | None = None,
    look: Look | None = None,
    pictures: Array | None = None,
    items: str = "rows",
) -> Judged:
    """Compare the candidates and refit the best on all rows.

    `groups`: numbers; rows of one group share a fold. `look` is used only for the refit. `pictures`: the rows as scaled
    images, if networks of pixels are candidates beside features. `items`: what the rows are called.
    """
    candidates = Candidates(fitter, inputs, n_classes, seed, groups, pictures)
    names = candidates.names(labels)
    n_folds = comparing_folds(labels, groups)
    if n_folds == 0:
        fitter.progress.unit("training", 1, 1, names[0])
        ((name, model),) = candidates.fit(names[:1], labels, look)
        remark = f"No folds were compared, since {_few(items)}: {name} was used, which is the best on average."
        return Judged(name, model, remark, uncalibrated(_few(items)), signal=signal_of_fit(model))
    in_folds = candidates.in_folds()
    others = candidates.other_inputs
    apart = tuple(name for name in names if name in PIXEL_NETWORKS and pays(name, *in_folds.on_pixels))
    announced = _Announced("comparing", n_folds * len(names), fitter.progress, then=1)
    guessed = {}
    if apart:
        folds = list(hidden_folds(labels, n_folds, seed, groups))
        on_pixels, images = in_folds.on_pixels
        guessed = guess_folds(on_pixels, apart, images, folds, n_classes, seed, announced.together(apart))
    rest = tuple(name for name in names if name not in apart)
    fits = announced.in_turn(lambda hidden: in_folds.fit(rest, hidden), rest, n_folds)
    comparison = compare(with_guesses(fits, names, guessed), inputs, labels, n_folds, seed, groups, others)
    if comparison.stopped is not None:
        name, model = comparison.stopped
        remark = f"Interrupted while methods were compared: {name} as it was then."
        return Judged(name, model, remark, signal=model.interrupted, interrupted=True)
    held_out = held_out_scores(comparison, names, metric)
    winner = names[int(held_out.choice(np.ones((1, len(comparison.labels))))[0])]
    fitter.progress.unit("training", 1, 1, winner)
    ((_, model),) = candidates.fit((winner,), labels, look)
    with_unlabeled = [name for name in names if uses_unlabeled(name)] if (labels < 0).any() else []
    found = verdict(held_out, names, with_unlabeled, seed) if with_unlabeled else None
    helped = found.words(items) if found else "No example is unlabeled."
    remark = f"{winner} was chosen among {len(names)} candidates. {helped}"
    rival = _rival(held_out, names, with_unlabeled, winner, seed)
    judged = Judged(winner, model, remark, rival=rival, verdict=found, signal=signal_of_fit(model))
    return _measured(judged, comparison, held_out, seed, candidates.shorter_folds, items)


def judge(
    fitter: Fitter,
    method: str,
    inputs: Array,
    labels: Labels,
    n_classes: int,
    seed: int,
    *,
    metric: Metric = "accuracy",
    groups: Rows | None = None,
    look: Look | None = None,
    folds: bool = True,
    items: str = "rows",
) -> Judged:
    """Fit a method that was asked for, and measure it on folds if wanted. `items`: what the rows are called."""
    n_folds = comparing_folds(labels, groups) if folds else 0
    fitter.progress.unit("training", 1, 1, method, then=n_folds)
    model = fitter.fit(method, inputs, labels, n_classes, seed, look)
    if number := signal_of_fit(model):
        return Judged(method, model, calibration=uncalibrated("training was interrupted"), signal=number)
    if not folds:
        return Judged(method, model)
    if n_folds == 0:
        return Judged(method, model, calibration=uncalibrated(_few(items)))
    in_folds, shorter = fitter, False
    if method != GRAPH:
        updates = default_recipe(method, inputs.shape[1:], len(inputs), fitter.steps).train.steps
        in_folds = replace(fitter, steps=fold_steps(updates, inputs.shape[1:]))
        shorter = in_folds.steps != updates

    def fits(hidden: Labels) -> Iterator[tuple[str, Model]]:
        yield method, in_folds.fit(method, inputs, hidden, n_classes, seed)

    announced = _Announced("measuring on folds (Ctrl-C skips this)", n_folds, fitter.progress)
    guessed, names = {}, (method,)
    if pays(method, in_folds, inputs):
        parts = list(hidden_folds(labels, n_folds, seed, groups))
        try:
            guessed = guess_folds(in_folds, names, inputs, parts, n_classes, seed, announced.together(names))
        except KeyboardInterrupt as stop:
            return Judged(method, model, calibration=uncalibrated("that was skipped"), signal=signal_of(stop))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "interrupted")  # the model itself is complete
        in_turn = announced.in_turn(fits, () if guessed else names, n_folds)
        comparison = compare(with_guesses(in_turn, names, guessed), inputs, labels, n_folds, seed, groups)
    if comparison.stopped is not None:
        _, fold = comparison.stopped
        return Judged(method, model, calibration=uncalibrated("that was skipped"), signal=fold.interrupted)
    held_out = held_out_scores(comparison, (method,), metric)
    return _measured(Judged(method, model), comparison, held_out, seed, shorter, items)


def _few(items: str) -> str:
    return f"a class has fewer than two different labeled {items}"


def _rival(
    held_out: HeldOut, names: tuple[str, ...], with_unlabeled: Sequence[str], winner: str, seed: int
) -> Rival | None:
    others = [i for i, name in enumerate(names) if (name in with_unlabeled) != (winner in with_unlabeled)]
    if not others:
        return None
    best = int(held_out.best(np.ones((1, len(held_out.scores))), others)[0])
    return Rival(names[best], estimate(held_out.of(others), seed))


@dataclass
class _Announced:
    """The fits of folds as units of a stage of the progress."""

    stage: str
    total: int
    progress: ProgressLine
    then: int = 0
    begun: int = 0

    def in_turn(self, fits: Fits, names: tuple[str, ...], n_folds: int) -> Fits:
        """The same fits of each fold, one after the other."""
        units = iter([(name, fold) for fold in range(1, n_folds + 1) for name in names])

        def announced(hidden: Labels) -> Iterator[tuple[str, Model]]:
            models = fits(hidden)
            for name, fold in islice(units, len(names)):
                self.begun += 1
                self.progress.unit(self.stage, self.begun, self.total, f"{name}, fold {fold} of {n_folds}", self.then)
                yield next(models)

        return announced

    def together(self, names: tuple[str, ...]) -> Callable[[float], None]:
        """To be called with the number of fits of these names that are done, with parts of those under way."""

        def report(done: float) -> None:
            self.begun = int(done)
            number, detail = min(self.begun + 1, self.total), f"{' and '.join(names)}, folds side by side"
            self.progress.unit(self.stage, number, self.total, detail, self.then, done - number + 1)

        return report


def held_out_scores(comparison: Comparison, names: tuple[str, ...], metric: Metric) -> HeldOut:
    """The scores of the candidates' calibrated probabilities."""
    labels = comparison.labels
    scores = [row_scores(metric, comparison.calibrated(name), labels) for name in names]
    return HeldOut(metric, np.stack(scores, axis=1), row_weights(metric, labels), comparison.group)


def _measured(
    judged: Judged, comparison: Comparison, held_out: HeldOut, seed: int, shorter: bool, items: str
) -> Judged:
    """With the results of the folds. `shorter`: they had fewer updates."""
    folds = [comparison.fold == fold for fold in np.unique(comparison.fold)]
    scores = {
        name: [
            mean_score(held_out.metric, comparison.calibrated(name)[rows], comparison.labels[rows]) for rows in folds
        ]
        for name in comparison.probs
    }
    method = judged.method
    return replace(
        judged,
        calibration=by_folds(comparison, method, shorter, items),
        scores=scores,
        estimate=estimate(held_out, seed),
        held_out=HeldOutProbs(
            comparison.probs[method], comparison.calibrated(method), comparison.labels, comparison.rows
        ),
        shorter=shorter,
    )
