"""The methods that auto compares. Whichever wins, what is fitted is one network.

A forest or a mean of experts is distilled: the student learns its probabilities and nothing else. Logistic regression
is a network of one linear layer already.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from ict.base.array_types import Array, Labels, Rows
from ict.estimators.default_recipes import ANCHORED_STEPS, default_steps, fold_steps
from ict.estimators.fitter import DISTILLED, Fitter, Look, Model
from ict.experts.classical import logistic_layer
from ict.experts.experts import MEMBERS, Kind, Opinion, with_labels
from ict.experts.graph import GRAPH, GRAPH_LIMIT
from ict.models.trained_network import TrainedNetwork
from ict.networks.mlp import Linear

LOGISTIC, TREES, MEAN, ANCHORED, ON_GRAPH = "logistic", "trees", "mean", "anchored", "anchored-graph"
SUPERVISED, ICT = "supervised", "ict"  # networks of pixels
PIXEL_NETWORKS = (ICT, SUPERVISED)
# The one first that is the best on average, the others by their accuracy on average.
ON_TABLES = (MEAN, ANCHORED, TREES, ON_GRAPH, LOGISTIC)
ON_FEATURES = (ANCHORED, MEAN, ON_GRAPH, LOGISTIC)
_LABELS_ONLY = (LOGISTIC, TREES, SUPERVISED)
_DISTILLED = (LOGISTIC, TREES, MEAN)
_LONGER = 2  # a distilled student gets this many times more updates than an anchored one
DESCRIPTIONS = {
    LOGISTIC: "logistic regression, a linear layer",
    TREES: "extremely randomized trees, distilled into a network",
    MEAN: "the weighted mean of the experts, distilled into a network",
    ANCHORED: "ICT anchored on the experts",
    ON_GRAPH: "ICT anchored on the graph",
    SUPERVISED: "a network of pixels, labels alone",
    ICT: "ICT, a network of pixels",
}

Fits = Callable[[Labels], Iterator[tuple[str, Model]]]  # from labels to a model for every candidate, one at a time


def uses_unlabeled(name: str) -> bool:
    return name not in _LABELS_ONLY


@dataclass(frozen=True)
class Candidates:
    """The candidates for scaled `inputs`. `groups`: numbers; rows of one group share a fold."""

    fitter: Fitter
    inputs: Array
    n_classes: int
    seed: int
    groups: Rows | None = None
    pictures: Array | None = None  # the rows as scaled images, if networks of pixels are candidates beside features
    pixel_steps: int | None = None  # updates of networks of pixels; None: the fitter's

    def names(self, labels: Labels) -> tuple[str, ...]:
        """The candidates, the one first that is the best on average; the others by their accuracy on average.

        The order counts where held-out labels are too few to choose, and in ties.
        """
        some_unlabeled, small = bool((labels < 0).any()), len(labels) <= GRAPH_LIMIT
        pixels = PIXEL_NETWORKS if some_unlabeled else (SUPERVISED,)
        if self.images and self.fitter.network is not None:
            return pixels
        order = ON_TABLES if TREES in MEMBERS[self._kind] else ON_FEATURES
        vectors = tuple(name for name in order if name != ON_GRAPH or (some_unlabeled and small))
        if self.pictures is not None:
            return (*vectors, *pixels)
        return (*pixels, *vectors) if self.images else vectors

    @property
    def images(self) -> bool:
        return self.inputs.ndim > 2

    @property
    def other_inputs(self) -> dict[str, Array]:
        """The inputs of candidates that have their own."""
        return {} if self.pictures is None else dict.fromkeys(PIXEL_NETWORKS, self.pictures)

    def fit(self, names: tuple[str, ...], labels: Labels, look: Look | None = None) -> Iterator[tuple[str, Model]]:
        """Fit candidates to `labels`. Those that follow experts share them."""
        opinion: Opinion | None = None
        for name in names:
            if name in PIXEL_NETWORKS:
                fitter, inputs = self.on_pixels
                seen = look if inputs is self.inputs else None
                yield name, fitter.fit(name, inputs, labels, self.n_classes, self.seed, seen)
            elif name == LOGISTIC and self.fitter.network is None:
                yield name, self._linear(labels)
            else:
                opinion = opinion or self.fitter.opinion(
                    ANCHORED, self._vectors, labels, self.n_classes, self.seed, self.groups
                )
                yield name, self._student(name, opinion, labels, look)

    @property
    def on_pixels(self) -> tuple[Fitter, Array]:
        """What fits networks of pixels, and to which inputs."""
        fitter = replace(self.fitter, steps=self.pixel_steps or self.fitter.steps)
        return fitter, self.inputs if self.pictures is None else self.pictures

    def in_folds(self) -> "Candidates":
        """The candidates as folds train them: the same, but networks of pixels for fewer updates if those are many."""
        return replace(self, pixel_steps=self._pixel_fold_steps)

    @property
    def shorter_folds(self) -> bool:
        """Whether networks of pixels get fewer updates in folds."""
        return self._pixel_fold_steps is not None

    @property
    def _pixel_fold_steps(self) -> int | None:
        images = self.inputs if self.pictures is None else self.pictures
        if images.ndim == 2:
            return None
        steps = self.fitter.steps or default_steps(len(images))
        shorter = fold_steps(steps, images.shape[1:])
        return shorter if shorter < steps else None

    @cached_property
    def _vectors(self) -> Array:
        return self.inputs.reshape(len(self.inputs), -1) if self.images else self.inputs

    @property
    def _kind(self) -> Kind:
        return self.fitter.experts(ANCHORED, self._vectors).kind

    def _student(self, name: str, opinion: Opinion, labels: Labels, look: Look | None) -> TrainedNetwork:
        distilled = name in _DISTILLED
        fitter = self.fitter
        if distilled:
            fitter = replace(fitter, steps=_LONGER * (fitter.steps or ANCHORED_STEPS))
        if name in (MEAN, ANCHORED):
            prior = opinion.prior
        else:
            prior = with_labels(opinion.probs[GRAPH if name == ON_GRAPH else name], labels)
        return fitter.student(
            self._vectors,
            labels,
            prior,
            self.seed,
            method=ON_GRAPH if name == ON_GRAPH else ANCHORED,
            settings=DISTILLED if distilled else (),
            look=_flat(look),
        )

    def _linear(self, labels: Labels) -> TrainedNetwork:
        known, module = labels >= 0, Linear(self.inputs.shape[1:], self.n_classes)
        cut = module.cut
        rows, kind = self._vectors[known].clip(-cut, cut), self._kind
        weights, biases = logistic_layer(rows, labels[known], features=kind == "features")
        module.load_state_dict(
            {"stages.1.weight": torch.from_numpy(weights), "stages.1.bias": torch.from_numpy(biases)}
        )
        return TrainedNetwork(module.eval(), 0, {"name": LOGISTIC, "network": {"name": "linear"}}, 0)


def _flat(look: Look | None) -> Look | None:
    """The same data for metrics, as vectors."""
    if look is None:
        return None
    valid = look.valid and (look.valid[0].reshape(len(look.valid[0]), -1), look.valid[1])
    unlabeled = None if look.unlabeled is None else look.unlabeled.reshape(len(look.unlabeled), -1)
    return replace(look, valid=valid, unlabeled=unlabeled)
