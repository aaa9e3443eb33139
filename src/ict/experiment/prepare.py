"""Prepares and checks everything that a run needs, from a resolved recipe and its data to the first update."""

import os
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ict.algorithms import ALGORITHMS
from ict.base.errors import UserError
from ict.base.reading import cause
from ict.base.rng import Rng, Use, default_generator, fold
from ict.contract import Algorithm, Needs
from ict.data import DATASETS
from ict.data.dataset import Dataset, Examples
from ict.data.labels import UNLABELED
from ict.data.normalize import Whiten, fit
from ict.data.split import Indices, given, split
from ict.engine.batches import Batches
from ict.engine.device import fits, limit_threads
from ict.engine.distributed import Ranks
from ict.engine.input_transform import InputTransform
from ict.engine.memory_format import lay_out
from ict.engine.schedule import make_plan
from ict.engine.state import State, make_state
from ict.engine.step import Program
from ict.experiment.prior import fitted_prior
from ict.experiment.run_folder import Folder
from ict.networks import NETWORKS
from ict.networks.staged import Staged
from ict.recipes.recipe import Component, Recipe

_ALONE = Ranks()


@dataclass(frozen=True)
class Job:
    """Everything that a run needs, ready for its first update."""

    recipe: Recipe
    seed: int
    data: Dataset
    indices: Indices
    transform: InputTransform
    program: Program
    state: State
    prior: Tensor | None = None  # the experts' probabilities for the training examples, if the algorithm needs them

    @property
    def valid(self) -> Examples:
        rows = torch.from_numpy(self.indices.valid)
        return self.data.valid or Examples(self.data.train.x[rows], self.data.train.y[rows])

    @property
    def device(self) -> torch.device:
        return self.state.first_bad.device


def prepare(
    recipe: Recipe,
    seed: int,
    data: Dataset,
    network: nn.Module | None,
    device: torch.device,
    resumed: Folder | None = None,
    resident: bool | None = None,
    ranks: Ranks = _ALONE,
) -> Job:
    """Prepare a resolved recipe inside `untouched_globals`. A resumed run reads transform and prior from its folder.

    `resident`: copy the training examples to the device once; otherwise they stay in the host's memory and each batch
    is copied. By default they are copied if they fit.
    """
    indices = _split(recipe, data, seed)
    student = lay_out((build_network(recipe, data, seed) if network is None else deepcopy(network)).to(device))
    limit_threads(student, data.shape, recipe.train.unlabeled_batch)
    transform = InputTransform(recipe.inputs, fitted_scale(recipe, data, resumed, device))
    _try_forward(student, transform, data)
    algorithm = _algorithm(recipe.algorithm)
    _check_needs(algorithm, recipe, student)
    if algorithm.needs.views and not len(indices.unlabeled):
        raise UserError(f"algorithm {recipe.algorithm.name} needs unlabeled examples, but the split leaves none.")
    labeled, unlabeled = torch.from_numpy(indices.labeled), torch.from_numpy(indices.unlabeled)
    known = torch.full_like(data.train.y, UNLABELED)  # no other label can reach training
    known[labeled] = data.train.y[labeled]
    x = data.train.x
    if resident is None:
        resident = fits(x, device)
    examples = Examples(x.to(device) if resident else x, known.to(device))
    prior = None
    if algorithm.needs.prior:
        prior = fitted_prior(recipe.anchor, seed, data, known, transform, device, resumed, ranks)
    batches = Batches(
        examples,
        labeled,
        unlabeled,
        transform,
        recipe.train,
        algorithm.needs.views,
        seed,
        ranks.share,
        data.order,
        None if prior is None else prior.to(device),
    )
    plan = make_plan(recipe.train, recipe.optimizer, recipe.rate, recipe.average, recipe.swa, recipe.anchor)
    rng = Rng(device, share=ranks.share)
    program = Program(algorithm, plan, batches, seed, rng, recipe.average.when == "before", ranks)
    memory = torch.zeros(len(examples), len(data.classes), device=device) if algorithm.needs.memory else None
    state = make_state(student, recipe.optimizer, recipe.average, recipe.swa, memory)
    return Job(recipe, seed, data, indices, transform, program, state, prior)


def load_data(recipe: Recipe, seed: int, data_dir: str | Path | None = None) -> Dataset:
    """The recipe's dataset, read from `data_dir` or the folder in the variable ICT_DATA."""
    where = data_dir or os.environ.get("ICT_DATA")
    reader = DATASETS.resolve(recipe.dataset.name)
    data: Dataset = reader(Path(where) if where else None, seed, **recipe.dataset.options)
    return data


def _split(recipe: Recipe, data: Dataset, seed: int) -> Indices:
    labels, settings = data.train.y.cpu().numpy(), recipe.split
    if settings.labeled is None:
        return given(labels, None if data.labeled_rows is None else data.labeled_rows.numpy())
    return split(
        labels,
        labeled=settings.labeled,
        valid=settings.valid,
        unlabeled=settings.unlabeled,
        n_classes=len(data.classes),
        seed=seed,
    )


def build_network(recipe: Recipe, data: Dataset, seed: int) -> nn.Module:
    cpu = torch.device("cpu")  # weights are drawn on the CPU, so that they are the same on every device
    default_generator(cpu).manual_seed(fold(seed, Use.INIT))
    make = NETWORKS.resolve(recipe.network.name)
    module: nn.Module = make(data.shape, len(data.classes), **recipe.network.options)
    return module


def fitted_scale(recipe: Recipe, data: Dataset, folder: Folder | None, device: torch.device) -> Whiten:
    """The scaling, fitted to all training inputs or read from the run's folder."""
    inputs = recipe.inputs
    if folder is None or not folder.inputs.exists():
        how: dict[str, Any] = {"scale": inputs.scale, "zca": inputs.zca, "epsilon": inputs.zca_epsilon}
        return fit(data.train.x, device=device, **how).to(device)
    whiten = Whiten(data.shape, scale=inputs.scale, zca=inputs.zca != "none")
    load_into(whiten, folder, folder.inputs)
    return whiten.to(device)


def load_into(module: nn.Module, folder: Folder, path: Path) -> None:
    """Load a file of the run into a module. A UserError if the tensors do not fit."""
    try:
        module.load_state_dict(folder.load_tensors(path))
    except RuntimeError as problem:
        raise UserError(f"{path} does not fit {folder.recipe.name} beside it ({cause(problem)}).") from None


def _try_forward(student: nn.Module, transform: InputTransform, data: Dataset) -> None:
    """Run one forward pass, to report a network that does not fit the data before training starts."""
    student.eval()
    device = next(student.parameters()).device
    try:
        with torch.no_grad():
            logits = student(transform(data.train.x[:2].to(device)))
    except (RuntimeError, ValueError, TypeError) as problem:
        raise UserError(f"the network cannot take examples of shape {data.shape}: {problem}") from None
    expected = (min(2, len(data.train)), len(data.classes))
    if not isinstance(logits, Tensor) or tuple(logits.shape) != expected:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise UserError(
            f"the network returns {got} for {expected[0]} examples: it must return logits of shape {expected}."
        )


def _algorithm(component: Component) -> Algorithm:
    made = ALGORITHMS.resolve(component.name)(**component.options)
    if not isinstance(getattr(made, "needs", None), Needs) or not callable(getattr(made, "loss", None)):
        raise UserError(f"algorithm {component.name} has no 'loss' or no 'needs': see docs/extend.md.")
    algorithm: Algorithm = made
    return algorithm


def _check_needs(algorithm: Algorithm, recipe: Recipe, student: nn.Module) -> None:
    """Raise a UserError if the recipe cannot supply what the algorithm needs."""
    name, needs, average = recipe.algorithm.name, algorithm.needs, recipe.average
    if average.decay is not None and average.batchnorm == "own" and not needs.teacher:
        raise UserError(
            f"algorithm {name} never runs its teacher, so the teacher has no batch-norm statistics "
            "of its own: set average.batchnorm=averaged, or average.decay=none."
        )
    if recipe.train.layout != "apart" and not needs.labels_within:
        raise UserError(
            f"train.layout is {recipe.train.layout}: algorithm {name} needs a labeled batch apart, "
            "so set train.layout=apart."
        )
    train = recipe.train
    batch = train.unlabeled_batch + (train.labeled_batch if train.layout == "joined" else 0)
    if needs.halves and batch % (2 * train.pair_groups):
        raise UserError(
            f"train.unlabeled_batch is {train.unlabeled_batch}: {name} pairs the halves of its batch of {batch}, "
            f"so {2 * train.pair_groups} must divide that."
        )
    stages = student.n_stages if isinstance(student, Staged) else 0
    if needs.stages > stages:
        depth = recipe.algorithm.options.get("depth")
        cause = f"algorithm {name} uses stages of the network" if depth is None else f"algorithm.depth is {depth}"
        raise UserError(
            f"{cause}, which takes at least {needs.stages} stages, and network {recipe.network.name} has {stages}: "
            f"choose another {'network' if depth is None else 'depth or network'}."
        )


def limited(test: Examples, limit: int | None) -> Examples:
    return test if limit is None else Examples(test.x[:limit], test.y[:limit])
