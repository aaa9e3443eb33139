"""The updates of a prepared job, with its metrics and checkpoints."""

from collections.abc import Callable
from functools import partial

from torch import nn

from ict.data.dataset import Examples
from ict.engine import loop
from ict.engine.checkpoint import Saver
from ict.engine.fast import bfloat16, forward
from ict.engine.fast.cuda_graph import Captured
from ict.engine.loop import Record, final_network
from ict.engine.state import State
from ict.engine.step import Program, update
from ict.engine.sync_batch_norm import shared_norms
from ict.experiment.prepare import Job
from ict.experiment.result import curve
from ict.experiment.run_folder import Folder, owner

_MANY_BYTES = 2**30  # a larger validation set is not copied to the device


def train_job(
    job: Job,
    folder: Folder | None,
    log: Callable[[Record], None] | None,
    checkpoint_seconds: float,
    *,
    fast: bool,
    shared: bool,
) -> tuple[nn.Module, list[Record]]:
    """Run all remaining updates. Returns the final network and the curve of validation errors.

    `shared`: ranks share batch norm.
    """
    state, ranks, settings = job.state, job.program.ranks, job.recipe.eval
    points, saver = list[Record](), None
    if folder and ranks.first:
        points = curve(folder.read_metrics())
        saver = Saver(folder.path, checkpoint_seconds, owner(job.recipe, job.seed))

    def record(metrics: Record) -> None:
        points.extend(curve([metrics]))
        if folder:
            folder.add_metrics(metrics)
        if log:
            log(metrics)

    valid = job.valid
    if valid.x.nbytes <= _MANY_BYTES:
        valid = Examples(valid.x.to(job.device), valid.y.to(job.device))
    evaluator = (forward if job.device.type == "cuda" else bfloat16).evaluator if fast else None
    watch = loop.Watch(valid, job.transform, settings, evaluator)
    with shared_norms(ranks, state.networks if shared else ()):
        loop.train(job.program, state, watch, record, saver, updater(job, fast, shared))
        return final_network(job.program, state, job.recipe.swa), points


def updater(job: Job, fast: bool = False, shared: bool = False) -> Callable[[Program, State], None]:
    """The update function of this job: a captured step on a GPU, otherwise the eager one, in fast mode in bfloat16.

    With batch norm shared between ranks (`shared`) a step contains communication, which a graph cannot capture.
    """
    if job.device.type == "cuda" and not shared:
        return Captured(job.program, job.state, fast=fast)
    return partial(update, forward=bfloat16.HalfForward) if fast else update
