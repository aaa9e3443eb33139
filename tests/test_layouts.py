"""Where the labels of a batch come from, and what a recipe must not ask of a method or a network."""

from pathlib import Path

import pytest
import torch
from torch import nn

from ict.base.errors import UserError
from ict.base.rng import Rng
from ict.data.dataset import Dataset, Examples
from ict.data.normalize import fit
from ict.engine.batches import Batches
from ict.engine.input_transform import InputTransform
from ict.engine.settings import Inputs, Train
from ict.experiment.prepare import load_data, prepare
from ict.experiment.run import train
from ict.recipes.recipe import change
from tests.tiny import tiny

CPU = torch.device("cpu")
N_LABELED, N = 6, 40


def batches(layout: str) -> Batches:
    """Example i has the features (i, i); the first six are labeled, by i % 3; the pool holds all examples."""
    x = torch.arange(N).float()[:, None].repeat(1, 2)
    y = torch.where(torch.arange(N) < N_LABELED, torch.arange(N) % 3, -1)
    settings = Train(labeled_batch=4, unlabeled_batch=10, layout=layout)  # type: ignore[arg-type]
    transform = InputTransform(Inputs(scale="none"), fit(x, scale="none"))
    return Batches(Examples(x, y), torch.arange(N_LABELED), torch.arange(N), transform, settings, 2, seed=3)


def known(rows: torch.Tensor) -> torch.Tensor:
    return torch.where(rows < N_LABELED, rows % 3, -1)


def test_apart() -> None:
    batch = batches("apart").at(5, Rng(CPU, 1))
    assert len(batch.x) == 4 and (batch.x[:, 0] < N_LABELED).all() and len(batch.apart) == 1
    assert torch.equal(batch.y, batch.x[:, 0].long() % 3)
    assert batch.u_y is not None and torch.equal(batch.u_y, known(batch.u[0][:, 0].long()))


def test_within() -> None:
    found = []
    for step in range(8):
        batch = batches("within").at(step, Rng(CPU, 1))
        assert batch.apart == () and len(batch.y) == 0 and len(batch.u[0]) == 10
        assert batch.u_y is not None and torch.equal(batch.u_y, known(batch.u[0][:, 0].long()))
        found += batch.u_y.tolist()
    assert sum(label >= 0 for label in found) == 2 * N_LABELED, "two epochs see every label twice"


def test_joined() -> None:
    for step in range(8):
        source = batches("joined")
        batch = source.at(step, Rng(CPU, 1))
        rows = batch.u[0][:, 0].long()
        assert batch.apart == () and len(rows) == 14 and torch.equal(rows, source.pick(step).unlabeled)
        assert batch.u_y is not None and torch.equal(batch.u_y[:4], rows[:4] % 3)
        assert (rows[:4] < N_LABELED).all() and (batch.u_y[4:] == -1).all(), "labels of the pool are left unused"


def test_memory_rows_are_those_of_the_unlabeled_examples() -> None:
    memory = torch.arange(N).float()[:, None].repeat(1, 3)
    batch = batches("joined").at(2, Rng(CPU, 1), memory)
    assert batch.memory is not None and torch.equal(batch.memory[:, 0], batch.u[0][:, 0])


@pytest.mark.parametrize("layout", ["joined", "within"])
def test_methods_that_want_a_labeled_batch_refuse_other_layouts(layout: str) -> None:
    with pytest.raises(UserError, match=r"train\.layout"):
        train(tiny("ict"), settings=[f"train.layout={layout}"])
    run = train(tiny("mean-teacher"), settings=[f"train.layout={layout}"])
    assert run.result["steps"] == 24


@pytest.mark.parametrize(
    ("algorithm", "settings", "says"),
    [
        (
            "manifold-mixup",
            ["algorithm.depth=4"],
            r"algorithm\.depth is 4.* at least 5 stages, and network convnet has 4",
        ),
        ("ict", ["algorithm.depth=9"], r"algorithm\.depth is 9"),
        ("vadd", ["network=mlp", "network.depth=1", "algorithm.flips=0.1"], None),
    ],
)
def test_a_depth_beyond_the_network_is_refused(algorithm: str, settings: list[str], says: str | None) -> None:
    recipe = change(tiny(algorithm), settings)
    if says is None:
        prepare(recipe, 0, load_data(recipe, 0), None, CPU)
        return
    with pytest.raises(UserError, match=says):
        prepare(recipe, 0, load_data(recipe, 0), None, CPU)


@pytest.mark.parametrize("algorithm", ["manifold-mixup", "vadd", "sntg"])
def test_a_network_without_stages_is_refused_by_methods_that_look_inside(algorithm: str) -> None:
    x = torch.randn(40, 5)
    examples = Examples(x, torch.arange(40) % 2)
    data = Dataset(examples, examples, ("a", "b"), labeled_rows=torch.arange(20))
    with pytest.raises(UserError, match="stages, and network own has 0"):
        train(tiny(algorithm), data=data, network=nn.Linear(5, 2))


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("sntg", ["train.unlabeled_batch=7"]),
        ("sntg", ["train.unlabeled_batch=8", "train.labeled_batch=3", "train.layout=joined"]),
        ("ict", ["train.unlabeled_batch=6", "train.pair_groups=2", "algorithm.pairs=halves"]),
    ],
)
def test_methods_that_pair_halves_say_so_before_anything_is_written(
    algorithm: str, settings: list[str], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"train\.unlabeled_batch"):
        train(tiny(algorithm), settings=settings, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
