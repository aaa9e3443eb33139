"""Fits a method to arrays, without the rest of a run: no folder, no test set."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import torch
from torch import nn

from ict.base.array_types import Array, Labels, Rows
from ict.base.interrupts import signal_of
from ict.data.array_inputs import has_same_length
from ict.data.arrays import from_arrays
from ict.data.dataset import Dataset, Examples
from ict.engine import loop
from ict.engine.device import Device, Mode, pick_device, runs_fast, untouched_globals
from ict.engine.loop import final_network
from ict.engine.settings import Optimizer
from ict.engine.state import State
from ict.engine.step import Program
from ict.estimators.default_recipes import after_seeding, default_recipe, is_anchored, seeding_recipe
from ict.experiment.prepare import prepare
from ict.experiment.progress_line import SILENT, ProgressLine
from ict.experiment.training import updater
from ict.experts.experts import Experts, Opinion
from ict.experts.folds import hidden_folds
from ict.experts.graph import GRAPH, GRAPH_LIMIT, GraphPropagation
from ict.experts.neighbors import NeighborMemo
from ict.models.trained_network import TrainedNetwork
from ict.recipes.recipe import OWN, Component, Recipe, change

_FEW_LABELS = 10  # labels per class up to which training on images starts from labels guessed by a graph
_TRUSTED = 0.6  # the held-out accuracy that a graph needs for its guesses to be used
DISTILLED = ("anchor.share=1", "algorithm.temperature=1", "train.weight=5")  # settings to distil a prior


@dataclass(frozen=True)
class Look:
    """Data for metrics during a fit. They do not affect the fit."""

    valid: tuple[Array, Labels] | None = None  # scaled inputs and labels that are not trained on
    unlabeled: Array | None = None  # scaled inputs on which the network's confidence is logged
    times: int = 30  # evaluations per fit


class Model(Protocol):
    def predict_proba(self, inputs: Array, /) -> Array: ...


@dataclass(frozen=True)
class Fitter:
    """The settings of a fit: everything except the method and the data."""

    network: nn.Module | None = None
    steps: int | None = None
    settings: tuple[str, ...] = ()
    device: Device = "auto"
    mode: Mode = "exact"
    progress: ProgressLine = field(default=SILENT, repr=False, compare=False)
    neighbors: NeighborMemo = field(default_factory=NeighborMemo, repr=False, compare=False)  # shared by its copies
    processes: int = field(default=1, compare=False)  # that may fit folds at the same time

    def fit(
        self,
        method: str,
        inputs: Array,
        labels: Labels,
        n_classes: int,
        seed: int,
        look: Look | None = None,
    ) -> Model:
        """Fit a method. `inputs` are scaled, [n, features] or [n, c, h, w]; `labels` are -1 where unknown."""
        if method == GRAPH:
            return GraphPropagation().fit(inputs, labels, self.neighbors(inputs))
        if is_anchored(method):
            prior = self.opinion(method, inputs, labels, n_classes, seed).prior
            return self.student(inputs, labels, prior, seed, method=method, look=look)
        data = _balanced(_dataset(inputs, labels, n_classes, look))
        recipe, network = self._recipe(method, inputs, look), self.network
        guesses = graph_guesses(inputs, labels, seed, self.neighbors) if method == "ict" else None
        if method == "ict" and inputs.ndim == 2 and guesses is None and (labels < 0).any():
            warnings.warn(
                "plain ICT on vectors can forget the few labels, and the graph's guesses are not accurate enough: "
                "use ICTClassifier, or method 'anchored'.",
                stacklevel=3,
            )
        seeding = 0
        if guesses is not None:
            guessed = replace(data, train=Examples(data.train.x, torch.from_numpy(guesses)), labeled_rows=None)
            if inputs.ndim == 2:
                data = guessed  # vectors have no augmentation; trained by consistency only, a network would forget them
            else:
                same = [setting for setting in self.settings if setting.startswith(("network", "inputs."))]
                seeded = self._train(seeding_recipe(change(recipe, same)), guessed, network, seed)
                if seeded.interrupted:
                    return seeded
                network, recipe, seeding = seeded.module, after_seeding(recipe), seeded.n_updates
        return replace(self._train(change(recipe, self.settings), data, network, seed, look), seeding=seeding)

    def experts(self, method: str, inputs: Array) -> Experts:
        """The experts on which an anchored method relies for such inputs."""
        anchor = change(self._recipe(method, inputs), self.settings).anchor
        return Experts(kind=anchor.experts, trees=anchor.trees)

    def opinion(
        self, method: str, inputs: Array, labels: Labels, n_classes: int, seed: int, groups: Rows | None = None
    ) -> Opinion:
        """What those experts say."""
        experts = self.experts(method, inputs)
        small = len(inputs) <= GRAPH_LIMIT
        neighbors = tuple(self.neighbors(inputs, search) for search in experts.searches) if small else None
        return experts.fit(inputs, labels, n_classes, seed, neighbors, groups)

    def student(
        self,
        inputs: Array,
        labels: Labels,
        prior: Array,
        seed: int,
        *,
        method: str = "anchored",
        settings: tuple[str, ...] = (),
        look: Look | None = None,
    ) -> TrainedNetwork:
        """Train a network anchored on `prior` [n, classes], with the same number of updates on folds as on all labels.

        `settings` come after the fitter's own; with `DISTILLED` the network learns the prior itself.
        """
        data = replace(_dataset(inputs, labels, prior.shape[1], look), prior=torch.from_numpy(np.float32(prior)))
        recipe = change(self._recipe(method, inputs, look), [*self.settings, *settings])
        return self._train(recipe, data, self.network, seed, look)

    def _recipe(self, method: str, inputs: Array, look: Look | None = None) -> Recipe:
        """The method's recipe for such inputs and the user's network."""
        recipe = default_recipe(method, inputs.shape[1:], len(inputs), self.steps)
        if is_anchored(method) and has_same_length(inputs) and recipe.anchor.experts == "table":
            recipe = replace(recipe, anchor=replace(recipe.anchor, experts="features"))
        if look:
            recipe = replace(recipe, eval=replace(recipe.eval, every=max(recipe.train.steps // look.times, 1)))
        if self.network is None:
            return recipe
        own = Component(OWN, {"class": type(self.network).__qualname__})
        # for an unknown network Adam is more robust: without batch norm training collapses at SGD's learning rate
        return replace(recipe, network=own, optimizer=Optimizer(name="adam", lr=1e-3))

    def _train(
        self, recipe: Recipe, data: Dataset, network: nn.Module | None, seed: int, look: Look | None = None
    ) -> TrainedNetwork:
        target = pick_device(self.device)
        history: list[loop.Record] = []
        interrupted = 0
        fast = runs_fast(self.mode, target)
        with untouched_globals(target, exact=not fast):
            job = prepare(recipe.resolved(), seed, data, network, target)
            unlabeled = None if look is None or look.unlabeled is None else torch.from_numpy(look.unlabeled)
            watch = loop.Watch(job.valid, job.transform, recipe.eval, unlabeled=unlabeled)
            try:
                loop.train(job.program, job.state, watch, history.append, None, self._counted(updater(job, fast)))
            except KeyboardInterrupt as stop:
                interrupted = signal_of(stop)
                warnings.warn(
                    f"interrupted after {job.state.step} updates; the model is trained only that far.", stacklevel=4
                )
            module = final_network(job.program, job.state, recipe.swa).eval()
        return TrainedNetwork(module, job.state.step, recipe.to_dict(), interrupted, tuple(history))

    def _counted(self, update: Callable[[Program, State], None]) -> Callable[[Program, State], None]:
        """An update that reports the progress."""

        def counted(program: Program, state: State) -> None:
            update(program, state)
            self.progress.part(state.step / len(program.plan))

        return counted


def graph_guesses(inputs: Array, labels: Labels, seed: int, neighbors: NeighborMemo) -> Labels | None:
    """A class for every row by graph propagation, or None where it would not help or is not accurate enough.

    It always helps vectors. It helps images, where a network learns more from shifts, only if labels are few.
    """
    counts = np.bincount(labels[labels >= 0])
    if len(labels) > GRAPH_LIMIT or (labels >= 0).all() or len(counts) < 2:
        return None
    if inputs.ndim > 2 and counts.max() > _FEW_LABELS:
        return None
    if counts.min() >= 2:
        right = []
        for hidden, held_out in hidden_folds(labels, 2, seed):
            probs = GraphPropagation().fit(inputs, hidden, neighbors(inputs)).transduction.probs
            right.append((probs[held_out].argmax(1) == labels[held_out]).mean())
        if np.mean(right) < _TRUSTED:
            return None
    guesses: Labels = GraphPropagation().fit(inputs, labels, neighbors(inputs)).transduction.probs.argmax(1)
    return np.where(labels >= 0, labels, guesses)


def _dataset(inputs: Array, labels: Labels, n_classes: int, look: Look | None) -> Dataset:
    valid = look.valid if look else None
    return from_arrays(inputs, labels, valid=valid, classes=tuple(map(str, range(n_classes))))


def _balanced(data: Dataset) -> Dataset:
    """The dataset with labeled rows repeated, so that every class is drawn about as often as the largest."""
    labels = data.train.y.numpy()
    rows = np.flatnonzero(labels >= 0)
    counts = np.bincount(labels[rows])
    repeats = np.round(counts.max() / counts[labels[rows]]).astype(int)
    return replace(data, labeled_rows=torch.from_numpy(np.repeat(rows, repeats)))
