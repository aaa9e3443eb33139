"""The optimizers do what torch's do, and leave torch's compiler where it is."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from ict.engine.device import untouched_globals
from ict.engine.optimizers import make_optimizer
from ict.engine.settings import Optimizer


def test_optimizers_are_built_as_the_settings_say() -> None:
    network = nn.Linear(2, 2)
    sgd = make_optimizer(network, Optimizer(lr=0.3, weight_decay=0.01))
    assert isinstance(sgd, torch.optim.SGD)
    group = sgd.param_groups[0]
    assert (group["lr"], group["momentum"], group["nesterov"], group["weight_decay"]) == (0.3, 0.9, True, 0.01)
    adam = make_optimizer(network, Optimizer(name="adam", beta2=0.99))
    assert isinstance(adam, torch.optim.Adam) and adam.param_groups[0]["betas"] == (0.9, 0.99)


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_steps_are_those_of_torch_and_a_saved_state_fits_either(name: str) -> None:
    torch.manual_seed(0)
    x, settings = torch.randn(8, 3), Optimizer(name="adam" if name == "adam" else "sgd", lr=0.2, weight_decay=0.01)
    ours, theirs = nn.Linear(3, 2), nn.Linear(3, 2)
    theirs.load_state_dict(ours.state_dict())
    mine = make_optimizer(ours, settings)
    other: torch.optim.Optimizer = torch.optim.Adam(theirs.parameters(), lr=0.2, weight_decay=0.01)
    if name == "sgd":
        other = torch.optim.SGD(theirs.parameters(), lr=0.2, momentum=0.9, weight_decay=0.01, nesterov=True)
    for step in range(4):
        if step == 2:  # each goes on from what the other saved
            saved, theirs_saved = mine.state_dict(), other.state_dict()
            mine.load_state_dict(theirs_saved)
            other.load_state_dict(saved)
        for network, optimizer in ((ours, mine), (theirs, other)):
            network(x).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            assert network.weight.grad is None
        assert torch.equal(ours.weight, theirs.weight) and torch.equal(ours.bias, theirs.bias)
    assert ours.weight.requires_grad and ours.weight.is_leaf


def test_a_run_loads_no_compiler() -> None:
    run = "ict.train('digits-100/ict', settings=['train.steps=1'])"
    code = f"import sys, ict; {run}; sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


def test_a_switch_that_only_warned_does_so_afterwards() -> None:
    torch.set_deterministic_debug_mode("warn")
    try:
        with untouched_globals(torch.device("cpu")):
            pass
        assert torch.get_deterministic_debug_mode() == 1
    finally:
        torch.set_deterministic_debug_mode("default")
