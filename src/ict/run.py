"""One run: (recipe, seed, folder) to a trained network and result.json."""

import os
import warnings
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from ict.algorithms import ALGORITHMS
from ict.contract import Algorithm, Needs
from ict.data import DATASETS
from ict.data.dataset import Dataset, Examples
from ict.data.split import Indices, given, split
from ict.data.whiten import Whiten, fit
from ict.device import Device, check_fast, fits, memory_told, pick_device, threads_for, untouched_globals
from ict.engine import checkpoint, dist, loop
from ict.engine.batches import Batches
from ict.engine.dist import Ranks
from ict.engine.evaluate import error
from ict.engine.fast import Captured, evaluator
from ict.engine.finish import final_network
from ict.engine.plan import make_plan
from ict.engine.shared_norm import shared_norms
from ict.engine.state import State, make_state
from ict.engine.step import Program, update
from ict.engine.view import View
from ict.errors import UserError
from ict.files import write_json
from ict.folder import Folder
from ict.networks import NETWORKS
from ict.networks.staged import Staged
from ict.provenance import provenance
from ict.recipe import OWN, Part, Recipe, change
from ict.recipes import find
from ict.rng import Rng, Use, default_generator, fold

_CHUNK = 4096  # examples that are hashed at a time
_LOOK = ("step", "seconds", "valid_error_student", "valid_error_teacher")  # what the curve has of a record
_MANY_BYTES = 2**30  # of a validation set that is not kept on the device

Mode = Literal["exact", "fast"]

_ALONE = Ranks()


@dataclass(frozen=True)
class Run:
    """A finished run. `network` is what `test_error` speaks of: the plain mean, else the teacher, else the student."""

    result: dict[str, Any]
    network: nn.Module
    view: View
    folder: Path | None

    @torch.no_grad()
    def predict_proba(self, x: Tensor) -> Tensor:
        """Class probabilities [N, C] of examples as they were handed to training."""
        self.network.eval()
        device = next(self.network.parameters()).device
        logits: Tensor = self.network(self.view(x.to(device)))
        return logits.softmax(1)


def train(
    recipe: str | Recipe,
    *,
    seed: int = 0,
    out: str | Path | None = None,
    data: Dataset | None = None,
    network: nn.Module | None = None,
    settings: Iterable[str] = (),
    device: Device = "auto",
    mode: Mode = "exact",
    resume: bool = False,
    force: bool = False,
    data_dir: str | Path | None = None,
    checkpoint_seconds: float = 10.0,
    test: bool = True,
    log: Callable[[loop.Record], None] | None = None,
    sync_bn: bool | None = None,
) -> Run:
    """Train by a recipe and evaluate once on the test set.

    `recipe` is a name that `ict list` shows, a JSON file or a `Recipe`; `settings` are texts such as
    "train.steps=500". `data` (see `from_arrays`) and `network` replace the recipe's own; the module handed in
    is copied, not changed. Without `out` nothing is written. `log` gets a dict every few steps. Without `test` the test
    set is dropped as soon as the data is read: no choice can have been made on it, and the result says so.

    Processes that torchrun has started share the run: each takes an equal part of every batch, and the first one
    writes and logs. `sync_bn`: batch norm by the whole batch; by default where there are several, unless in fast mode.
    """
    ranks = dist.joined()
    with ranks.together():
        target = pick_device(device)
        fast = mode == "fast" and target.type == "cuda"
        if mode == "fast" and not fast:
            warnings.warn(f"fast mode needs a GPU: running the exact step on {target.type}.", stacklevel=2)
        check_fast(fast)
        shared = _check_sync(sync_bn, fast, ranks)
        recipe, data = _fill_in(recipe, settings, data, network, seed, data_dir)
        _check_shares(recipe, ranks)
        if not test:
            data = replace(data, test=_limited(data.test, 0))
        folder = Folder(Path(out)) if out is not None else None
        if folder:
            folder.check(recipe, seed, resume=resume, force=force)
        threads = threads_for(data)
    with memory_told(target), untouched_globals(target, threads, exact=not fast):
        with ranks.together():
            job = prepare(recipe, seed, data, network, target, folder if resume and not force else None, ranks=ranks)
        state = job.state
        # a network of the caller's own may have been drawn anew by each process
        ranks.copy_first_(t for network in state.networks for t in (*network.parameters(), *network.buffers()))
        if folder:
            finished = None if force else ranks.by_first(folder.load_result)
            # a run that left the test set out is only short of its evaluation
            if finished is not None and (finished.get("tested", True) or not test):
                tensors = ranks.by_first(lambda: folder.load_tensors(folder.model))
                state.evaluated.load_state_dict(tensors)
                return Run(finished, state.evaluated, job.view, folder.path)
            ranks.by_first(lambda: _start(folder, job))
            if resume:
                _resume(folder, state, ranks)
        curve = _looks(folder.read_metrics()) if folder and ranks.first else []

        def record(metrics: loop.Record) -> None:
            curve.extend(_looks([metrics]))
            if folder:
                folder.add_metrics(metrics)
            if log:
                log(metrics)

        saver = checkpoint.Saver(folder.path, checkpoint_seconds) if folder and ranks.first else None
        valid = _on_device(job.valid, target)
        watch = loop.Watch(valid, job.view, recipe.eval, evaluator if fast else None)
        with shared_norms(ranks, state.networks if shared else ()):
            loop.train(job.program, state, watch, record, saver, updater(job, fast, shared))
            network = final_network(job.program, state, recipe.swa)
    with memory_told(target), untouched_globals(target, threads):
        told = {"tested": test, "mode": "fast" if fast else "exact", "curve": curve}
        result = ranks.by_first(lambda: job.result(network) | told)
    if folder and ranks.first:
        folder.save_tensors(folder.model, network.state_dict())
        write_json(folder.result, result)
    return Run(result, network, job.view, folder.path if folder else None)


@dataclass(frozen=True)
class Job:
    """Everything a run is made of, ready for its first update."""

    recipe: Recipe
    seed: int
    data: Dataset
    indices: Indices
    view: View
    program: Program
    state: State

    @property
    def valid(self) -> Examples:
        rows = torch.from_numpy(self.indices.valid)
        return self.data.valid or Examples(self.data.train.x[rows], self.data.train.y[rows])

    def result(self, final: nn.Module) -> dict[str, Any]:
        """The errors of the finished networks. The only place that reads the test set, once."""
        recipe, state, valid = self.recipe, self.state, self.valid
        test = _limited(self.data.test, recipe.eval.test_limit)

        def wrong(network: nn.Module | None, examples: Examples) -> float | None:
            if network is None or not len(examples):
                return None
            return error(network, examples, self.view, recipe.eval.batch)

        best = None
        if state.best:
            best = deepcopy(state.evaluated)
            best.load_state_dict(state.best.weights)
        networks = {
            "student": state.student,
            "teacher": state.ema.module if state.ema else None,
            "swa": state.swa.module if state.swa else None,
        }
        errors = {name: wrong(network, test) for name, network in networks.items()}
        (evaluated,) = (name for name, network in networks.items() if network is final)
        return {
            "recipe": recipe.name,
            "recipe_id": recipe.hash,
            "seed": self.seed,
            "steps": state.step,
            "seconds": round(state.seconds, 3),
            "test_error": errors[evaluated],
            "test_error_best": wrong(best, test),
            **{f"test_error_{name}": e for name, e in errors.items()},
            "valid_error": wrong(final, valid),
            "valid_error_best": state.best.error if state.best else None,
            "best_step": state.best.step if state.best else None,
            "partial": len(test) < len(self.data.test),
            "n_test": len(test),
            "n_valid": len(valid),
            "n_labeled": len(self.indices.labeled),
            "n_unlabeled": len(self.indices.unlabeled),
            "n_parameters": sum(p.numel() for p in state.student.parameters()),
            "resumed_from": state.resumed_from,
            "ranks": self.program.ranks.size,
            **provenance(state.first_bad.device),
            "settings": recipe.to_dict(),
        }


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
    """A resolved recipe made ready; the transform is read from the folder of a run that goes on.

    `resident`: whether the training examples are copied to the device once, or stay in the host's memory, from where
    each batch is fetched; by default the first where they fit.
    """
    indices = _split(recipe, data, seed)
    student = (_build(recipe, data, seed) if network is None else deepcopy(network)).to(device)
    view = View(recipe.inputs, _whiten(recipe, data, resumed, device))
    _try_forward(student, view, data)
    algorithm = _algorithm(recipe.algorithm)
    _check_needs(algorithm, recipe, student)
    if algorithm.needs.views and not len(indices.unlabeled):
        raise UserError(f"algorithm {recipe.algorithm.name} needs unlabeled examples, and the split leaves none.")
    labeled, unlabeled = torch.from_numpy(indices.labeled), torch.from_numpy(indices.unlabeled)
    known = torch.full_like(data.train.y, -1)  # no other label can reach training
    known[labeled] = data.train.y[labeled]
    x = data.train.x
    if resident is None:
        resident = fits(x, device)
    examples = Examples(x.to(device) if resident else x, known.to(device))
    batches = Batches(
        examples, labeled, unlabeled, view, recipe.train, algorithm.needs.views, seed, ranks.share, data.order
    )
    plan = make_plan(recipe.train, recipe.optimizer, recipe.rate, recipe.average, recipe.swa)
    rng = Rng(device, share=ranks.share)
    program = Program(algorithm, plan, batches, seed, rng, recipe.average.when == "before", ranks)
    memory = torch.zeros(len(examples), len(data.classes), device=device) if algorithm.needs.memory else None
    state = make_state(student, recipe.optimizer, recipe.average, recipe.swa, memory)
    return Job(recipe, seed, data, indices, view, program, state)


def updater(job: Job, fast: bool = False, shared: bool = False) -> Callable[[Program, State], None]:
    """What does an update of this job: a captured step on a GPU, the eager one elsewhere.

    Where ranks share batch norm they talk to each other in the middle of a step, which a graph cannot hold.
    """
    if job.state.first_bad.device.type == "cuda" and not shared:
        return Captured(job.program, job.state, fast=fast)
    return update


def _on_device(examples: Examples, device: torch.device) -> Examples:
    """Where they are looked at again and again, unless they are many."""
    return examples if examples.x.nbytes > _MANY_BYTES else Examples(examples.x.to(device), examples.y.to(device))


def _looks(records: Iterable[loop.Record]) -> list[loop.Record]:
    """The validation errors over a run: what the records say that were made when it was looked at."""
    return [{key: r[key] for key in _LOOK if key in r} for r in records if "valid_error_student" in r]


def _start(folder: Folder, job: Job) -> None:
    folder.create(job.recipe, job.seed)
    job.indices.save(folder.split)
    folder.save_tensors(folder.inputs, job.view.whiten.state_dict())


def _check_sync(wanted: bool | None, fast: bool, ranks: Ranks) -> bool:
    if wanted and fast:
        raise UserError("mode fast normalizes each rank's part of a batch by itself: leave out --sync-bn.")
    if wanted and not ranks.launched:
        raise UserError("--sync-bn is for several ranks: start with torchrun, or leave it out.")
    return ranks.size > 1 and not fast if wanted is None else wanted


def _check_shares(recipe: Recipe, ranks: Ranks) -> None:
    """Every rank gets as many examples as any other, and no pair is torn apart."""
    train = recipe.train
    for name in ("labeled_batch", "unlabeled_batch"):
        if (size := getattr(train, name)) % ranks.size:
            raise UserError(f"train.{name} is {size}: {ranks.size} ranks share it, so their number must divide it.")
    if train.pair_groups % ranks.size:
        raise UserError(
            f"train.pair_groups is {train.pair_groups}: {ranks.size} ranks share a batch, and pairs stay inside a "
            f"group, so set train.pair_groups to {ranks.size} or a multiple of it."
        )


def _algorithm(part: Part) -> Algorithm:
    made = ALGORITHMS[part.name](**part.options)
    if not isinstance(getattr(made, "needs", None), Needs) or not callable(getattr(made, "loss", None)):
        raise UserError(f"algorithm {part.name} has no 'loss' or no 'needs': write it as docs/extend.md shows.")
    algorithm: Algorithm = made
    return algorithm


def _check_needs(algorithm: Algorithm, recipe: Recipe, student: nn.Module) -> None:
    """Refuse a recipe that cannot give the algorithm what it needs, before anything is trained."""
    name, needs, average = recipe.algorithm.name, algorithm.needs, recipe.average
    if average.decay is not None and average.batchnorm == "own" and not needs.teacher:
        raise UserError(
            f"algorithm {name} never runs its teacher, so the teacher has no batch-norm statistics "
            "of its own: set average.batchnorm=averaged, or average.decay=none."
        )
    if recipe.train.layout != "apart" and not needs.labels_within:
        raise UserError(
            f"train.layout is {recipe.train.layout}: algorithm {name} takes its labels from a batch of their own, "
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
        cause = f"algorithm {name} looks into the network" if depth is None else f"algorithm.depth is {depth}"
        raise UserError(
            f"{cause}, which takes at least {needs.stages} stages, and network {recipe.network.name} has {stages}: "
            f"choose another {'network' if depth is None else 'depth or network'}."
        )


def evaluate(folder: str | Path, *, device: Device = "auto", data_dir: str | Path | None = None) -> dict[str, Any]:
    """The test error of a finished run's saved model, measured again."""
    home = Folder(Path(folder))
    recipe, seed = home.load_recipe()
    if OWN in (recipe.dataset.name, recipe.network.name):
        raise UserError(f"{folder} was trained on the caller's own data or network: evaluate it from Python.")
    data = load_data(recipe, seed, data_dir)
    target = pick_device(device)
    with untouched_globals(target, threads_for(data)):
        network = _build(recipe, data, seed)
        network.load_state_dict(home.load_tensors(home.model))
        view = View(recipe.inputs, _whiten(recipe, data, home, target))
        test = _limited(data.test, recipe.eval.test_limit)
        wrong = error(network.to(target), test, view, recipe.eval.batch)
    found = {"run": str(folder), "recipe": recipe.name, "seed": seed, "test_error": wrong, "n_test": len(test)}
    return found | provenance(target)


def default_folder(recipe: Recipe, seed: int, root: Path = Path("runs")) -> Path:
    """runs/<recipe>/<hash>/seed<n>."""
    return root / recipe.name.replace("/", "-") / recipe.hash / f"seed{seed}"


def load_data(recipe: Recipe, seed: int, data_dir: str | Path | None = None) -> Dataset:
    """The recipe's dataset, read from `data_dir` or the folder in the variable ICT_DATA."""
    where = data_dir or os.environ.get("ICT_DATA")
    reader = DATASETS[recipe.dataset.name]
    data: Dataset = reader(Path(where) if where else None, seed, **recipe.dataset.options)
    return data


def _fill_in(
    recipe: str | Recipe,
    settings: Iterable[str],
    data: Dataset | None,
    network: nn.Module | None,
    seed: int,
    data_dir: str | Path | None,
) -> tuple[Recipe, Dataset]:
    """The resolved recipe, speaking of the caller's own data and network where there are any, and the data."""
    recipe = change(find(recipe) if isinstance(recipe, str) else recipe, settings)
    if network is not None:
        recipe = replace(recipe, network=Part(OWN, {"class": type(network).__qualname__}))
    if data is None:
        return recipe, load_data(recipe, seed, data_dir)
    return replace(recipe, dataset=_own_data(data), split=replace(recipe.split, labeled=None, valid=0)), data


def _own_data(data: Dataset) -> Part:
    digest = sha256()
    for part in (data.train.x, data.train.y):
        for chunk in part.split(_CHUNK):
            digest.update(np.ascontiguousarray(chunk.cpu().numpy()).tobytes())
    return Part(OWN, {"examples": len(data.train), "shape": list(data.shape), "sha256": digest.hexdigest()})


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


def _build(recipe: Recipe, data: Dataset, seed: int) -> nn.Module:
    cpu = torch.device("cpu")  # weights are drawn there, so that they are the same on every device
    default_generator(cpu).manual_seed(fold(seed, Use.INIT))
    make = NETWORKS[recipe.network.name]
    module: nn.Module = make(data.shape, len(data.classes), **recipe.network.options)
    return module


def _whiten(recipe: Recipe, data: Dataset, folder: Folder | None, device: torch.device) -> Whiten:
    """Fitted on all training inputs, or read back from the run's folder."""
    inputs = recipe.inputs
    if folder is None or not folder.inputs.exists():
        how: dict[str, Any] = {"scale": inputs.scale, "zca": inputs.zca, "epsilon": inputs.zca_epsilon}
        return fit(data.train.x, device=device, **how).to(device)
    whiten = Whiten(data.shape, scale=inputs.scale, zca=inputs.zca != "none")
    whiten.load_state_dict(folder.load_tensors(folder.inputs))
    return whiten.to(device)


def _try_forward(student: nn.Module, view: View, data: Dataset) -> None:
    """Catches a network that does not fit the data before training starts."""
    student.eval()
    device = next(student.parameters()).device
    try:
        with torch.no_grad():
            logits = student(view(data.train.x[:2].to(device)))
    except (RuntimeError, ValueError, TypeError) as problem:
        raise UserError(f"the network cannot take examples of shape {data.shape}: {problem}") from None
    expected = (min(2, len(data.train)), len(data.classes))
    if not isinstance(logits, Tensor) or tuple(logits.shape) != expected:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise UserError(
            f"the network returns {got} for {expected[0]} examples: it must return logits of shape {expected}."
        )


def _resume(folder: Folder, state: State, ranks: Ranks) -> None:
    saved = ranks.by_first(lambda: checkpoint.load_latest(folder.path, torch.device("cpu")))
    if saved is None:
        if ranks.first:
            folder.cut_metrics(0)
        return
    try:
        state.load(saved)
    except (KeyError, RuntimeError, ValueError) as problem:
        raise UserError(
            f"the checkpoint in {folder.path} does not fit this recipe ({problem}): use another --out."
        ) from None
    if ranks.first:
        folder.cut_metrics(state.step)


def _limited(test: Examples, limit: int | None) -> Examples:
    return test if limit is None else Examples(test.x[:limit], test.y[:limit])
