"""SWA and fast-SWA: the plain mean of stored weights, with batch-norm statistics made anew, for any method."""

from pathlib import Path

import pytest
import torch
from torch import nn

from ict.algorithms import ALGORITHMS
from ict.engine.loop import final_network
from ict.engine.step import update
from ict.experiment.prepare import load_data, prepare
from ict.experiment.run import train
from ict.recipes.recipe import change
from tests.tiny import N_STEPS, tiny

SWA = ["swa.start=0.5", "swa.every=0.125", "swa.batches=7"]
TAKEN = [12, 15, 18, 21, 24]  # updates done: from half of 24 on, an eighth of 24 apart


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_the_mean_is_that_of_the_stored_weights(name: str) -> None:
    recipe = change(tiny(name), SWA)
    job = prepare(recipe, 1, load_data(recipe, 1), None, torch.device("cpu"))
    stored = []
    for done in range(1, N_STEPS + 1):
        update(job.program, job.state)
        if done in TAKEN:
            stored.append([p.detach().double().clone() for p in job.state.student.parameters()])
    assert job.state.swa is not None
    for mean, *values in zip(job.state.swa.module.parameters(), *stored, strict=True):
        torch.testing.assert_close(mean, torch.stack(values).mean(0).float())
        assert not mean.requires_grad


def test_its_statistics_are_those_of_training_batches_under_the_mean_weights() -> None:
    recipe = change(tiny("mean-teacher"), SWA)
    job = prepare(recipe, 1, load_data(recipe, 1), None, torch.device("cpu"))
    for _ in range(N_STEPS):
        update(job.program, job.state)
    assert job.state.swa is not None
    norms = [m for m in job.state.swa.module.modules() if isinstance(m, nn.BatchNorm2d)]
    inputs: dict[nn.Module, list[torch.Tensor]] = {norm: [] for norm in norms}
    for norm in norms:
        norm.register_forward_pre_hook(lambda m, x: inputs[m].append(x[0].detach().double()))
    network = final_network(job.program, job.state, recipe.swa)
    assert network is job.state.swa.module and len(norms) == 4
    for norm in norms:
        seen = inputs[norm]
        assert len(seen) == 7
        means = torch.stack([x.mean((0, 2, 3)) for x in seen]).mean(0)
        variances = torch.stack([x.var((0, 2, 3)) for x in seen]).mean(0)
        assert norm.running_mean is not None and norm.running_var is not None
        torch.testing.assert_close(norm.running_mean.double(), means, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(norm.running_var.double(), variances, rtol=1e-4, atol=1e-6)


def test_the_result_speaks_of_the_mean_and_the_saved_model_is_it(tmp_path: Path) -> None:
    run = train(change(tiny("supervised"), [*SWA, "average.decay=none"]), out=tmp_path)
    assert run.result["test_error"] == run.result["test_error_swa"] != run.result["test_error_student"]
    again = train(change(tiny("supervised"), [*SWA, "average.decay=none"]), out=tmp_path, resume=True)
    assert all(torch.equal(a, b) for a, b in zip(run.network.parameters(), again.network.parameters(), strict=True))
