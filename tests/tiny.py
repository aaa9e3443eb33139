"""A run that takes a fraction of a second and still has batch norm, dropout, shifts, an average and validation."""

from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from ict.algorithms import ALGORITHMS
from ict.engine.loop import Record
from ict.engine.settings import Anchor, Average, Eval, Inputs, Split, Train
from ict.experiment.run import Run, train
from ict.recipes.recipe import Component, Recipe

N_STEPS = 24
KILLED: dict[str, Any] = {"seed": 1, "settings": ["train.steps=150"]}  # the run that is killed again and again


class MeanColor(nn.Module):
    """A backbone: the mean color of photos of 8x8 pixels."""

    preprocessing: ClassVar[dict[str, Any]] = {"size": 8, "scale": 255, "mean": [0, 0, 0], "std": [1, 1, 1]}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3))


BACKBONE = f"torch:{__name__}:MeanColor"


class Crash(Exception):
    """Stands in for the power going out."""


def tiny(algorithm: str = "ict", **options: Any) -> Recipe:
    needs = ALGORITHMS[algorithm](**options).needs
    return Recipe(
        dataset=Component("digits"),
        network=Component("convnet", {"width": 4, "dropout": 0.2}),
        algorithm=Component(algorithm, options),
        split=Split(labeled=20, valid=20),
        inputs=Inputs(pad=1),
        average=Average(decay=0.9, batchnorm="own" if needs.teacher else "averaged"),
        train=Train(steps=N_STEPS, labeled_batch=8, unlabeled_batch=8, weight=5.0),
        anchor=Anchor(trees=5) if needs.prior else Anchor(),
        eval=Eval(every=6, log_every=4),
        name=f"tiny/{algorithm}",
    )


def crash_at(step: int, out: Path, recipe: Recipe, **arguments: Any) -> None:
    """Train with a checkpoint after every update and die at the first log line from `step` on."""

    def die(record: Record) -> None:
        if record["step"] >= step:
            torch.rand(7)  # a stray draw, which must not matter
            raise Crash

    try:
        train(recipe, out=out, checkpoint_seconds=0, log=die, **arguments)
    except Crash:
        return
    raise AssertionError("the run was over before it could crash")


def same_bits(a: Run, b: Run) -> bool:
    pairs = zip(a.network.state_dict().items(), b.network.state_dict().items(), strict=True)
    return all(name == other and torch.equal(x, y) for (name, x), (other, y) in pairs)


def outcome(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what may differ between two equal runs."""
    kept = {k: v for k, v in result.items() if k not in ("seconds", "finished", "resumed_from", "commit", "file")}
    return kept | {"curve": [{k: v for k, v in look.items() if k != "seconds"} for look in result["curve"]]}
