"""The paper's first figure: decision boundaries on two moons, of supervised training and of ICT."""

from collections.abc import Collection
from copy import deepcopy
from io import BytesIO
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

from ict.base.errors import UserError
from ict.base.files import as_json, check_place, write_together
from ict.engine.device import untouched_globals
from ict.engine.step import update
from ict.experiment.prepare import Job, load_data, prepare
from ict.experiment.provenance import provenance
from ict.recipes import find
from ict.recipes.recipe import Recipe

SNAPSHOTS = (100, 500, 1000)
SUPERVISED = "moons/supervised"
_SUCCESS = 0.95  # smallest accuracy on the points that counts as success
Snapshots = tuple[Job, list[nn.Module]]


def moons(
    out: Path,
    recipe: str = "moons/ict-sharpened",
    seed: int = 4,
    n_seeds: int | None = None,
    allow_code: Collection[str] = (),
) -> str:
    """Draw the figure for `seed`. Write its accuracies, or those of `n_seeds` seeds, as JSON; return them as text."""
    check_place(out)
    kinds = Figure().canvas.get_supported_filetypes()
    if out.suffix[1:].lower() not in kinds:
        raise UserError(f"{out} does not have the ending of an image: use one of {', '.join(sorted(kinds))}.")
    wanted = find(recipe, allow_code)
    if wanted.dataset.name != "moons":
        raise UserError(f"recipe {recipe} is for {wanted.dataset.name}: the figure needs a recipe for moons.")
    cpu = torch.device("cpu")
    with untouched_globals(cpu, threads=1):
        drawn = {name: snapshots(name, seed, allow_code) for name in (SUPERVISED, recipe)}
        seeds = [seed] if n_seeds is None else range(n_seeds)
        accuracies = {
            name: {s: _accuracies(*(run if s == seed else snapshots(name, s, allow_code))) for s in seeds}
            for name, run in drawn.items()
        }
        origin = provenance(cpu)
    numbers = out.with_suffix(".json")
    summary = {
        "drawn_seed": seed,
        "updates": SNAPSHOTS,
        "success": _SUCCESS,
        "accuracy": accuracies,
        **origin,
        "recipes": {name: job.recipe.to_dict() for name, (job, _) in drawn.items()},
    }
    write_together({out: _drawn(drawn, seed, out.suffix[1:].lower()), numbers: as_json(summary)})
    lines = []
    for name, by_seed in accuracies.items():
        last = [values[-1] for values in by_seed.values()]
        reached = sum(value >= _SUCCESS for value in last)
        lines.append(
            f"{name}: {fmean(last):.1%} correct after {SNAPSHOTS[-1]} updates, "
            f"at least {_SUCCESS:.0%} in {reached} of {len(last)} seed{'s' * (len(last) > 1)}"
        )
    return "\n".join([*lines, f"{out}", f"{numbers}"])


def _drawn(drawn: dict[str, Snapshots], seed: int, kind: str) -> bytes:
    figure = Figure(figsize=(13, 4), layout="constrained")
    for i, (axes, step) in enumerate(zip(figure.subplots(1, 3, sharex=True, sharey=True), SNAPSHOTS, strict=True)):
        _scatter(axes, drawn[SUPERVISED][0])
        for (job, networks), color in zip(drawn.values(), ("tab:red", "tab:green"), strict=True):
            _boundary(axes, networks[i], job, color)
            accuracy = _accuracies(job, networks)[i]
            axes.plot([], [], color=color, label=f"{_title(job.recipe)}: {accuracy:.1%} correct")
        axes.set_title(f"after {step} updates (seed {seed})")
        axes.legend(loc="lower left", fontsize=8)
    picture = BytesIO()
    figure.savefig(picture, dpi=120, format=kind)
    return picture.getvalue()


def _title(recipe: Recipe) -> str:
    """The title of a recipe's method or variant."""
    if recipe.algorithm.name != "ict":
        return recipe.algorithm.name
    temperature = recipe.algorithm.options["temperature"]
    return "ICT" if temperature == 1 else f"ICT, targets sharpened (T = {temperature})"


def snapshots(name: str, seed: int, allow_code: Collection[str] = ()) -> Snapshots:
    """Run a moons recipe. Returns the job, and the evaluated network after each number of updates in `SNAPSHOTS`."""
    recipe, networks = find(name, allow_code).resolved(), []
    job = prepare(recipe, seed, load_data(recipe, seed), None, torch.device("cpu"))
    for step in range(1, SNAPSHOTS[-1] + 1):
        update(job.program, job.state)
        if step in SNAPSHOTS:
            networks.append(deepcopy(job.state.evaluated).eval())
    return job, networks


@torch.no_grad()
def _accuracies(job: Job, networks: list[nn.Module]) -> list[float]:
    """The accuracy of each network on the points of the figure."""
    points = job.data.train
    return [float((network(job.transform(points.x)).argmax(1) == points.y).double().mean()) for network in networks]


def _scatter(axes: Axes, job: Job) -> None:
    x, y = job.data.train.x.numpy(), job.data.train.y.numpy()
    labeled = job.indices.labeled
    colors = np.array(["tab:blue", "tab:orange"])
    axes.scatter(x[:, 0], x[:, 1], s=5, c=colors[y], alpha=0.4, linewidths=0)
    axes.scatter(x[labeled, 0], x[labeled, 1], s=90, c=colors[y[labeled]], edgecolors="black", zorder=3)
    axes.set(xlim=(-1.6, 2.6), ylim=(-1.1, 1.6))


@torch.no_grad()
def _boundary(axes: Axes, network: nn.Module, job: Job, color: str) -> None:
    columns, rows = np.meshgrid(np.linspace(-1.6, 2.6, 300), np.linspace(-1.1, 1.6, 200))
    grid = torch.from_numpy(np.stack([columns, rows], axis=-1).reshape(-1, 2).astype(np.float32))
    logits = network(job.transform(grid))
    margin = (logits[:, 1] - logits[:, 0]).reshape(columns.shape)
    axes.contour(columns, rows, margin.numpy(), levels=[0.0], colors=[color], linewidths=2)
