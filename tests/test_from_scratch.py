"""The engine against the single file: 50 steps, bit for bit."""

import ast
from pathlib import Path

import ict_from_scratch as scratch
import torch

from ict.engine.device import untouched_globals
from ict.engine.step import update
from ict.experiment.prepare import load_data, prepare
from ict.recipes import RECIPES

EXAMPLE = Path(scratch.__file__)
CPU = torch.device("cpu")


def test_fifty_steps_are_the_same_bits() -> None:
    recipe = RECIPES["digits-100/ict"].resolved()
    data = load_data(recipe, seed=3)
    with untouched_globals(CPU):
        job = prepare(recipe, 3, data, None, CPU)
        rows = torch.from_numpy(job.indices.labeled), torch.from_numpy(job.indices.unlabeled)
        single = scratch.ICT(data.train.x, data.train.y, *rows, seed=3)
        engine_losses, losses = [], []
        for step in range(50):
            update(job.program, job.state)
            engine_losses.append(job.state.sums.pop("loss").item())
            losses.append(single.update(step).item())
    assert engine_losses == losses
    for mine, other in ((job.state.student, single.student), (job.state.evaluated, single.teacher)):
        pairs = list(zip(mine.state_dict().values(), other.state_dict().values(), strict=True))
        assert len(pairs) > 20 and all(torch.equal(a, b) for a, b in pairs)


def test_the_example_is_one_readable_page_of_torch() -> None:
    source = EXAMPLE.read_text()
    assert len(source.splitlines()) <= 150
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(source))
        for name in (
            [a.name for a in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported == {"csv", "gzip", "copy", "importlib", "math", "pathlib", "torch"}


def test_its_digits_are_scikit_learns() -> None:
    from sklearn.datasets import load_digits

    images, labels = scratch.load_digits()
    bunch = load_digits()
    assert (images[:, 0].numpy() == bunch.images).all() and (labels.numpy() == bunch.target).all()
