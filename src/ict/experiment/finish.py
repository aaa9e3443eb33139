"""The end of a run: measures its errors once and makes its result."""

from copy import deepcopy

from torch import nn

from ict.data.dataset import Examples
from ict.engine.evaluate import error
from ict.engine.loop import Record
from ict.experiment.prepare import Job, limited
from ict.experiment.prior import digest
from ict.experiment.provenance import provenance
from ict.experiment.result import Result, RunResult


def finish(
    job: Job, final: nn.Module, *, mode: str, tested: bool, changed_at: list[int], curve: list[Record]
) -> Result:
    """The result with the errors of the finished networks. This is the only place that reads the test set."""
    recipe, state, valid = job.recipe, job.state, job.valid
    test = limited(job.data.test, recipe.eval.test_limit)

    def wrong(network: nn.Module | None, examples: Examples) -> float | None:
        if network is None or not len(examples):
            return None
        return error(network, examples, job.transform, recipe.eval.batch)

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
    return RunResult(
        recipe=recipe.name,
        recipe_id=recipe.hash,
        seed=job.seed,
        steps=state.step,
        seconds=round(state.seconds, 3),
        test_error=errors[evaluated],
        test_error_best=wrong(best, test),
        test_error_student=errors["student"],
        test_error_teacher=errors["teacher"],
        test_error_swa=errors["swa"],
        valid_error=wrong(final, valid),
        valid_error_best=state.best.error if state.best else None,
        best_step=state.best.step if state.best else None,
        partial=len(test) < len(job.data.test),
        n_test=len(test),
        n_valid=len(valid),
        n_labeled=len(job.indices.labeled),
        n_unlabeled=len(job.indices.unlabeled),
        n_parameters=sum(p.numel() for p in state.student.parameters()),
        prior=None if job.prior is None else digest(job.prior),
        resumed_from=state.resumed_from,
        ranks=job.program.ranks.size,
        **provenance(state.first_bad.device),
        settings=recipe.to_dict(),
        tested=tested,
        mode=mode,
        changed_at=changed_at,
        curve=curve,
    ).to_dict()
