"""One run: (recipe, seed, folder) to a trained network and result.json."""

import warnings
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from ict.base.errors import UserError
from ict.base.files import write_json
from ict.data.dataset import Dataset, Examples
from ict.engine import checkpoint, distributed, loop
from ict.engine.device import Device, limit_threads, memory_told, pick_device, runs_fast, untouched_globals
from ict.engine.distributed import Ranks
from ict.engine.evaluate import error
from ict.engine.fast import bfloat16, cuda_graph
from ict.engine.input_transform import InputTransform
from ict.engine.layout import lay_out
from ict.engine.loop import final_network
from ict.engine.state import State
from ict.engine.sync_batch_norm import shared_norms
from ict.experiment.prepare import (
    Job,
    build_network,
    fitted_scale,
    limited,
    load_data,
    load_into,
    prepare,
    reason,
    updater,
)
from ict.experiment.prior import digest
from ict.experiment.provenance import provenance
from ict.experiment.run_folder import Folder, owner
from ict.recipes import find
from ict.recipes.recipe import OWN, Component, Recipe, change

_CHUNK = 4096  # examples hashed at a time
_CURVE = ("step", "seconds", "valid_error_student", "valid_error_teacher")  # the keys of a record in the curve
_MANY_BYTES = 2**30  # a larger validation set is not copied to the device

Mode = Literal["exact", "fast"]


@dataclass(frozen=True)
class Run:
    """A finished run. `network` is the one with `test_error`: the SWA mean, else the teacher, else the student."""

    result: dict[str, Any]
    network: nn.Module
    transform: InputTransform
    folder: Path | None

    @torch.no_grad()
    def predict_proba(self, x: Tensor) -> Tensor:
        """Class probabilities [N, C] of examples in the form in which training got them."""
        self.network.eval()
        device = next(self.network.parameters()).device
        logits: Tensor = self.network(self.transform(x.to(device)))
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
    """Train a recipe and evaluate the model once on the test set.

    `recipe` is a recipe's name, a JSON file or a `Recipe`; `settings` are strings such as "train.steps=500". `data`
    (see `from_arrays`) and `network` replace those of the recipe; the module is copied, not changed. Without `out`
    nothing is written. `log` gets a dict every few steps. If `test` is false, the test set is dropped right after
    reading, so that no choice can depend on it, and the result says so.

    Processes started by torchrun share the run: each takes an equal part of every batch, and the first one writes and
    logs. `sync_bn`: batch norm over the whole batch; the default for several processes, except in fast mode.
    """
    ranks = distributed.joined()
    with ranks.together():
        target = pick_device(device)
        fast = mode == "fast" and runs_fast(target)
        if mode == "fast" and not fast:
            warnings.warn(
                "fast mode needs a GPU, or a CPU with instructions for bfloat16 (AVX512-BF16 or AMX): "
                f"running the exact step on {target.type}.",
                stacklevel=2,
            )
        shared = _check_sync(sync_bn, fast, ranks)
        recipe, data = _fill_in(recipe, settings, data, network, seed, data_dir)
        _check_shares(recipe, ranks)
        if not test:
            data = replace(data, test=limited(data.test, 0))
        folder = Folder(Path(out)) if out is not None else None
        if folder:
            folder.check(recipe, seed, resume=resume, force=force)
    with ExitStack() as held:  # the folder, until the result is written
        with memory_told(target), untouched_globals(target, exact=not fast):
            with ranks.together():
                given = folder if resume and not force else None
                job = prepare(recipe, seed, data, network, target, given, ranks=ranks)
            # each process may have drawn different weights for the caller's own network
            ranks.copy_first_(t for one in job.state.networks for t in (*one.parameters(), *one.buffers()))
            if folder:
                finished = None if force else _finished(folder, job, ranks, test)
                if finished is not None:
                    return finished
                ranks.by_first(lambda: held.enter_context(folder.alone()))
                _begin(folder, job, ranks, resume=resume, force=force)
            saver = (
                checkpoint.Saver(folder.path, checkpoint_seconds, owner(job.recipe, job.seed))
                if folder and ranks.first
                else None
            )
            final, curve = _trained(job, ranks, folder, saver, log, fast=fast, shared=shared)
        with memory_told(target), untouched_globals(target):
            limit_threads(final, data.shape, job.recipe.train.unlabeled_batch)
            how = {"tested": test, "mode": "fast" if fast else "exact"}
            result = ranks.by_first(lambda: job.result(final) | how | _history(folder, curve))
            if folder and ranks.first:
                folder.save_tensors(folder.model, final.state_dict(), owner(job.recipe, job.seed))
                write_json(folder.result, result)
    return Run(result, final, job.transform, folder.path if folder else None)


def _trained(
    job: Job,
    ranks: Ranks,
    folder: Folder | None,
    saver: checkpoint.Saver | None,
    log: Callable[[loop.Record], None] | None,
    *,
    fast: bool,
    shared: bool,
) -> tuple[nn.Module, list[loop.Record]]:
    """Train, and return the final network and the curve of validation errors."""
    state, target = job.state, job.state.first_bad.device
    curve = _looks(folder.read_metrics()) if folder and ranks.first else []

    def record(metrics: loop.Record) -> None:
        curve.extend(_looks([metrics]))
        if folder:
            folder.add_metrics(metrics)
        if log:
            log(metrics)

    valid = _on_device(job.valid, target)
    evaluator = (cuda_graph if target.type == "cuda" else bfloat16).evaluator if fast else None
    watch = loop.Watch(valid, job.transform, job.recipe.eval, evaluator)
    with shared_norms(ranks, state.networks if shared else ()):
        loop.train(job.program, state, watch, record, saver, updater(job, fast, shared))
        return final_network(job.program, state, job.recipe.swa), curve


def _on_device(examples: Examples, device: torch.device) -> Examples:
    """The validation examples on the device, unless they are too large for it."""
    return examples if examples.x.nbytes > _MANY_BYTES else Examples(examples.x.to(device), examples.y.to(device))


def _looks(records: Iterable[loop.Record]) -> list[loop.Record]:
    """The validation errors over a run, from the records with validation."""
    return [{key: r[key] for key in _CURVE if key in r} for r in records if "valid_error_student" in r]


def _history(folder: Folder | None, curve: list[loop.Record]) -> dict[str, Any]:
    return {"changed_at": folder.changed_at if folder else [], "curve": curve}


def _finished(folder: Folder, job: Job, ranks: Ranks, test: bool) -> Run | None:
    """The run in the folder, if it is complete."""
    # a run without its model is evaluated again from its last checkpoint
    result = ranks.by_first(lambda: folder.load_result() if folder.model.exists() else None)
    # a run without the test set lacks only its evaluation
    if result is None or (test and not result.get("tested", True)):
        return None
    if (result["recipe_id"], result["seed"]) != (job.recipe.hash, job.seed):
        return None  # another process has been here since the folder was checked
    network = job.state.evaluated
    ranks.by_first(lambda: load_into(network, folder, folder.model))
    ranks.copy_first_((*network.parameters(), *network.buffers()))
    return Run(result, network, job.transform, folder.path)


def _begin(folder: Folder, job: Job, ranks: Ranks, *, resume: bool, force: bool) -> None:
    """Load the last checkpoint and write this run's files into the folder."""
    # check again: before the lock, another process may have started a run in the folder
    changed = ranks.by_first(lambda: folder.check(job.recipe, job.seed, resume=resume, force=force))
    named = None if job.prior is None else digest(job.prior)
    if resume and not force and named is not None:
        ranks.by_first(lambda: folder.check_prior(named))
    if resume:
        _resume(folder, job.state, ranks)  # first, since it may fail, and then nothing must have changed

    def start() -> None:
        step = job.state.step
        changed_at = [*folder.changed_at, *([step] if changed else [])] if step else []
        if job.prior is not None:
            folder.save_tensors(folder.prior, {"prior": job.prior})
        folder.create(job.recipe, job.seed, changed_at, named)
        job.indices.save(folder.split)
        folder.save_tensors(folder.inputs, job.transform.whiten.state_dict(), owner(job.recipe, job.seed))

    ranks.by_first(start)


def _check_sync(wanted: bool | None, fast: bool, ranks: Ranks) -> bool:
    if wanted and fast:
        raise UserError("mode fast normalizes each rank's part of a batch separately: leave out --sync-bn.")
    if wanted and not ranks.launched:
        raise UserError("--sync-bn is for several ranks: start with torchrun, or leave it out.")
    return ranks.size > 1 and not fast if wanted is None else wanted


def _check_shares(recipe: Recipe, ranks: Ranks) -> None:
    """Check that the ranks can share every batch equally without splitting a pair group."""
    train = recipe.train
    for name in ("labeled_batch", "unlabeled_batch"):
        if (size := getattr(train, name)) % ranks.size:
            raise UserError(f"train.{name} is {size}: {ranks.size} ranks share it, so their number must divide it.")
    if train.pair_groups % ranks.size:
        raise UserError(
            f"train.pair_groups is {train.pair_groups}: {ranks.size} ranks share a batch, and pairs stay inside a "
            f"group, so set train.pair_groups to {ranks.size} or a multiple of it."
        )


def evaluate(
    folder: str | Path,
    *,
    device: Device = "auto",
    data_dir: str | Path | None = None,
    allow_code: Collection[str] = (),
) -> dict[str, Any]:
    """Measure the test error of a finished run's saved model again.

    `allow_code`: names such as "mine:Mine" that the run's files may import.
    """
    home = Folder(Path(folder))
    recipe, seed = home.load_recipe(allow_code)
    if OWN in (recipe.dataset.name, recipe.network.name):
        raise UserError(f"{folder} was trained on the caller's own data or network: evaluate it from Python.")
    data = load_data(recipe, seed, data_dir)
    target = pick_device(device)
    if not len(data.test):
        raise UserError(f"the data of {folder} have no test set, so there is nothing to evaluate on.")
    with untouched_globals(target):
        network = lay_out(build_network(recipe, data, seed).to(target))
        limit_threads(network, data.shape, recipe.train.unlabeled_batch)
        load_into(network, home, home.model)
        transform = InputTransform(recipe.inputs, fitted_scale(recipe, data, home, target))
        test = limited(data.test, recipe.eval.test_limit)
        wrong = error(network, test, transform, recipe.eval.batch)
    which = {"run": str(folder), "recipe": recipe.name, "recipe_id": recipe.hash, "seed": seed}
    return which | {"test_error": wrong, "n_test": len(test)} | provenance(target)


def default_folder(recipe: Recipe, seed: int, root: Path = Path("runs")) -> Path:
    """runs/<recipe>/<hash>/seed<n>."""
    return root / recipe.name.replace("/", "-") / recipe.hash / f"seed{seed}"


def _fill_in(
    recipe: str | Recipe,
    settings: Iterable[str],
    data: Dataset | None,
    network: nn.Module | None,
    seed: int,
    data_dir: str | Path | None,
) -> tuple[Recipe, Dataset]:
    """The resolved recipe, with the caller's own data and network if there are any, and the data."""
    recipe = change(find(recipe) if isinstance(recipe, str) else recipe, settings)
    if network is not None:
        recipe = replace(recipe, network=Component(OWN, {"class": type(network).__qualname__}))
    if data is None:
        return recipe, load_data(recipe, seed, data_dir)
    return replace(recipe, dataset=_own_data(data), split=replace(recipe.split, labeled=None, valid=0)), data


def _own_data(data: Dataset) -> Component:
    content = sha256()
    for part in (data.train.x, data.train.y, *([] if data.prior is None else [data.prior])):
        for chunk in part.split(_CHUNK):
            content.update(np.ascontiguousarray(chunk.cpu().numpy()).tobytes())
    return Component(OWN, {"examples": len(data.train), "shape": list(data.shape), "sha256": content.hexdigest()})


def _resume(folder: Folder, state: State, ranks: Ranks) -> None:
    saved = ranks.by_first(lambda: checkpoint.load_latest(folder.path, torch.device("cpu")))
    if saved is None:
        if ranks.first:
            folder.cut_metrics(0)
        return
    ranks.by_first(lambda: folder.check_owner(saved.get("owner", {}), f"the newest checkpoint in {folder.path}"))
    try:
        state.load(saved)
    except Exception as problem:  # a file may hold anything under the right names
        raise UserError(
            f"the checkpoint in {folder.path} does not fit this recipe ({reason(problem)}): use another --out."
        ) from None
    if ranks.first:
        folder.cut_metrics(state.step)
