"""Stored trajectories: the first losses of a few tiny recipes, and ICT ahead of supervised training on digits.

`python -m tests.test_golden` writes the file again. Bits differ between CPUs, so the comparison is to 1e-4.
"""

import json
from pathlib import Path
from statistics import fmean

import pytest
import torch

from ict.engine.device import untouched_globals
from ict.engine.step import update
from ict.experiment.prepare import load_data, prepare
from ict.experiment.run import train
from ict.recipes import RECIPES
from ict.recipes.recipe import change
from tests.tiny import tiny

STORED = Path(__file__).with_name("golden.json")
NAMES = ("supervised", "mixup", "ict", "vat", "temporal-ensembling")
CPU = torch.device("cpu")


def first_losses(name: str) -> list[float]:
    recipe = tiny(name).resolved()
    with untouched_globals(CPU):
        job = prepare(recipe, 7, load_data(recipe, 7), None, CPU)
        losses = []
        for _ in range(5):
            update(job.program, job.state)
            losses.append(job.state.sums.pop("loss").item())
    return losses


@pytest.mark.parametrize("name", NAMES)
def test_first_losses_are_the_stored_ones(name: str) -> None:
    assert first_losses(name) == pytest.approx(json.loads(STORED.read_text())[name], abs=1e-4)


def test_ict_is_ahead_of_supervised_over_three_seeds() -> None:
    short = ["train.steps=500", "network.width=8", "eval.every=500"]
    errors = {
        method: fmean(
            train(change(RECIPES[f"digits-100/{method}"], short), seed=seed).result["test_error"] for seed in range(3)
        )
        for method in ("supervised", "ict")
    }
    assert errors["ict"] < 0.75 * errors["supervised"], errors


if __name__ == "__main__":
    torch.set_num_threads(1)
    STORED.write_text(json.dumps({name: first_losses(name) for name in NAMES}, indent=2) + "\n")
