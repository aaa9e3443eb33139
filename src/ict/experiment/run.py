"""One run: (recipe, seed, folder) to a trained network and result.json."""

from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ict.base.errors import UserError
from ict.data.dataset import Dataset
from ict.engine import distributed
from ict.engine.device import (
    Device,
    Mode,
    explain_out_of_memory,
    limit_threads,
    pick_device,
    runs_fast,
    untouched_globals,
)
from ict.engine.distributed import Ranks
from ict.engine.evaluate import error
from ict.engine.input_transform import InputTransform
from ict.engine.loop import Record
from ict.engine.memory_format import lay_out
from ict.experiment.finish import finish
from ict.experiment.prepare import build_network, fitted_scale, limited, load_data, load_into, prepare
from ict.experiment.provenance import provenance
from ict.experiment.result import Result
from ict.experiment.resume import begin, finished_result
from ict.experiment.run_folder import Folder, owner
from ict.experiment.training import train_job
from ict.recipes import find
from ict.recipes.recipe import OWN, Component, Recipe, change

_CHUNK = 4096  # examples hashed at a time


@dataclass(frozen=True)
class Run:
    """A finished run. `network` is the one with `test_error`: the SWA mean, else the teacher, else the student."""

    result: Result
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
    log: Callable[[Record], None] | None = None,
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
        fast = runs_fast(mode, target)
        shared = _check_sync(sync_bn, fast, ranks)
        recipe, data = _fill_in(recipe, settings, data, network, seed, data_dir)
        _check_shares(recipe, ranks)
        if not test:
            data = replace(data, test=limited(data.test, 0))
        folder = Folder(Path(out)) if out is not None else None
        if folder:
            folder.check(recipe, seed, resume=resume, force=force)
    with ExitStack() as held:  # the folder, until the result is written
        with explain_out_of_memory(target), untouched_globals(target, exact=not fast):
            with ranks.together():
                given = folder if resume and not force else None
                job = prepare(recipe, seed, data, network, target, given, ranks=ranks)
            # each process may have drawn different weights for the caller's own network
            ranks.copy_first_(t for one in job.state.networks for t in (*one.parameters(), *one.buffers()))
            if folder:
                old = None if force else finished_result(folder, job, ranks, test)
                if old is not None:
                    return Run(old, job.state.evaluated, job.transform, folder.path)
                ranks.by_first(lambda: held.enter_context(folder.alone()))
                begin(folder, job, ranks, resume=resume, force=force)
            final, curve = train_job(job, folder, log, checkpoint_seconds, fast=fast, shared=shared)
        with explain_out_of_memory(target), untouched_globals(target):
            limit_threads(final, data.shape, job.recipe.train.unlabeled_batch)
            changed_at = folder.changed_at if folder else []
            how = "fast" if fast else "exact"
            result = ranks.by_first(
                lambda: finish(job, final, mode=how, tested=test, changed_at=changed_at, curve=curve)
            )
            if folder and ranks.first:
                folder.save_tensors(folder.model, final.state_dict(), owner(job.recipe, job.seed))
                folder.save_result(result)
    return Run(result, final, job.transform, folder.path if folder else None)


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
