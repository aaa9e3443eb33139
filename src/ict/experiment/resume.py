"""A run in a folder that may hold it already: return its result, continue from its checkpoint, or start it."""

import torch

from ict.base.reading import reading
from ict.engine import checkpoint
from ict.engine.distributed import Ranks
from ict.engine.state import State
from ict.experiment.prepare import Job, load_into
from ict.experiment.prior import digest
from ict.experiment.result import Result, is_of, was_tested
from ict.experiment.run_folder import Folder, owner


def finished_result(folder: Folder, job: Job, ranks: Ranks, test: bool) -> Result | None:
    """The result that the folder holds, if nothing of the run is left to do; its network is loaded into the job."""
    # a run without its model is evaluated again from its last checkpoint
    result = ranks.by_first(lambda: folder.load_result() if folder.model.exists() else None)
    # a run without the test set lacks only its evaluation
    if result is None or (test and not was_tested(result)):
        return None
    if not is_of(result, job.recipe, job.seed):
        return None  # another process has been here since the folder was checked
    network = job.state.evaluated
    ranks.by_first(lambda: load_into(network, folder, folder.model))
    ranks.copy_first_((*network.parameters(), *network.buffers()))
    return result


def begin(folder: Folder, job: Job, ranks: Ranks, *, resume: bool, force: bool) -> None:
    """Load the last checkpoint and write this run's files into the folder."""
    # check again: before the lock, another process may have started a run in the folder
    changed = ranks.by_first(lambda: folder.check(job.recipe, job.seed, resume=resume, force=force))
    named = None if job.prior is None else digest(job.prior)
    if resume and not force and named is not None:
        ranks.by_first(lambda: folder.check_prior(named))
    if resume:
        _load_checkpoint(folder, job.state, ranks)  # first, since it may fail, and then nothing must have changed

    def start() -> None:
        step = job.state.step
        changed_at = [*folder.changed_at, *([step] if changed else [])] if step else []
        if job.prior is not None:
            folder.save_tensors(folder.prior, {"prior": job.prior})
        folder.create(job.recipe, job.seed, changed_at, named)
        folder.save_split(job.indices, owner(job.recipe, job.seed))
        folder.save_tensors(folder.inputs, job.transform.whiten.state_dict(), owner(job.recipe, job.seed))

    ranks.by_first(start)


def _load_checkpoint(folder: Folder, state: State, ranks: Ranks) -> None:
    saved = ranks.by_first(lambda: checkpoint.load_latest(folder.path, torch.device("cpu")))
    if saved is None:
        if ranks.first:
            folder.cut_metrics(0)
        return
    ranks.by_first(lambda: folder.check_owner(saved.get("owner", {}), f"the newest checkpoint in {folder.path}"))
    with reading(folder.path, "a run of this recipe", "pass another --out"):
        state.load(saved)
    if ranks.first:
        folder.cut_metrics(state.step)
