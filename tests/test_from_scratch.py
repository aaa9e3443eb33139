"""The engine against the two single files, of the paper's text and of the authors' program: 50 steps, bit for bit."""

import ast
from pathlib import Path
from types import ModuleType

import ict_from_scratch as scratch
import ict_program_from_scratch as program
import pytest
import torch
from torch import Tensor

from ict.data.dataset import Dataset, Examples
from ict.engine.device import untouched_globals
from ict.engine.step import update
from ict.experiment.prepare import Job, load_data, prepare
from ict.recipes import RECIPES
from ict.recipes.recipe import change

CPU = torch.device("cpu")


def test_fifty_steps_are_the_same_bits() -> None:
    recipe = RECIPES["digits-100/ict"].resolved()
    data = load_data(recipe, seed=3)
    with untouched_globals(CPU):
        job = prepare(recipe, 3, data, None, CPU)
        rows = torch.from_numpy(job.indices.labeled), torch.from_numpy(job.indices.unlabeled)
        single = scratch.ICT(data.train.x, data.train.y, *rows, seed=3)
        _assert_same_bits(job, single)


def test_fifty_steps_of_the_authors_program_are_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole recipe but for its length, its batches and its labels; the average's decay is reached on the way."""
    sizes = ["train.steps=50", "train.labeled_batch=4", "train.unlabeled_batch=4", "split.labeled=10", "split.valid=10"]
    recipe = change(RECIPES["cifar10-4000/ict-program"], [*sizes, "average.decay=0.95"])
    monkeypatch.setattr(program, "EMA_DECAY", 0.95)
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(256, (70, 3, 12, 12), dtype=torch.uint8, generator=draws)
    examples = Examples(images, torch.arange(70) % 10)
    with untouched_globals(CPU):
        job = prepare(recipe, 3, Dataset(examples, examples, tuple("0123456789")), None, CPU)
        rows = torch.from_numpy(job.indices.labeled), torch.from_numpy(job.indices.unlabeled)
        single = program.Program(images, examples.y, *rows, seed=3)
        single.batch, single.steps = 4, 50  # 15 updates an epoch, with two labeled batches
        _assert_same_bits(job, single)


def test_the_programs_constants_are_the_recipes() -> None:
    recipe = RECIPES["cifar10-4000/ict-program"].resolved()
    train, optimizer = recipe.train, recipe.optimizer
    assert (train.steps, train.labeled_batch) == (program.Program.steps, program.Program.batch)
    assert (train.unlabeled_batch, train.rampup, recipe.rate.stretch) == (program.Program.batch, 0.25, 1.125)
    constants = (program.LR, program.MOMENTUM, program.WEIGHT_DECAY, program.EMA_DECAY, program.W_MAX)
    assert (optimizer.lr, optimizer.momentum, optimizer.weight_decay, recipe.average.decay, train.weight) == constants


def _assert_same_bits(job: Job, single: scratch.ICT | program.Program) -> None:
    """The losses of 50 steps, then all weights and running statistics of student and teacher."""
    engine_losses, losses = [], []
    for step in range(50):
        update(job.program, job.state)
        engine_losses.append(job.state.sums.pop("loss").item())
        losses.append(single.update(step).item())
    assert engine_losses == losses
    for mine, other in ((job.state.student, single.student), (job.state.evaluated, single.teacher)):
        pairs: list[tuple[Tensor, Tensor]] = list(
            zip(mine.state_dict().values(), other.state_dict().values(), strict=True)
        )
        assert len(pairs) > 20 and all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize(
    ("example", "modules"),
    [
        (scratch, {"csv", "gzip", "copy", "importlib", "math", "pathlib", "torch"}),
        (program, {"copy", "math", "torch"}),
    ],
)
def test_an_example_is_one_readable_page_of_torch(example: ModuleType, modules: set[str]) -> None:
    source = Path(str(example.__file__)).read_text()
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
    assert imported == modules


def test_its_digits_are_scikit_learns() -> None:
    from sklearn.datasets import load_digits

    images, labels = scratch.load_digits()
    bunch = load_digits()
    assert (images[:, 0].numpy() == bunch.images).all() and (labels.numpy() == bunch.target).all()
