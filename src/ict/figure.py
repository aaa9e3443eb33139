"""The paper's first figure: decision boundaries on two moons, supervised against ICT."""

from copy import deepcopy
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

from ict.engine.step import update
from ict.files import write_json
from ict.provenance import provenance
from ict.recipes import RECIPES
from ict.run import Job, load_data, pick_device, prepare, untouched_globals

SNAPSHOTS = (100, 500, 1000)
_RECIPES = {"moons/supervised": "tab:red", "moons/ict": "tab:green"}


def moons(out: Path, seed: int) -> str:
    """Draw the figure, write the accuracies beside it as JSON, and return them as text."""
    panels, jobs = {}, {}
    for name in _RECIPES:
        jobs[name], panels[name] = snapshots(name, seed)
    accuracies = {name: [_accuracy(network, jobs[name]) for network in panels[name]] for name in _RECIPES}
    figure = Figure(figsize=(13, 4), layout="constrained")
    for i, (axes, step) in enumerate(zip(figure.subplots(1, 3, sharex=True, sharey=True), SNAPSHOTS, strict=True)):
        _scatter(axes, jobs["moons/ict"])
        for name, color in _RECIPES.items():
            _boundary(axes, panels[name][i], jobs[name], color)
            axes.plot([], [], color=color, label=f"{name.partition('/')[2]}: {accuracies[name][i]:.1%} right")
        axes.set_title(f"after {step} updates")
        axes.legend(loc="lower left", fontsize=8)
    figure.savefig(out, dpi=120)
    summary = {
        "seed": seed,
        "updates": SNAPSHOTS,
        "accuracy": accuracies,
        **provenance(torch.device("cpu")),
        "recipes": {name: jobs[name].recipe.to_dict() for name in _RECIPES},
    }
    numbers = out.with_suffix(".json")
    write_json(numbers, summary)
    lines = [
        f"{name}: " + ", ".join(f"{a:.1%} right after {s}" for a, s in zip(accuracies[name], SNAPSHOTS, strict=True))
        for name in _RECIPES
    ]
    return "\n".join([*lines, f"{out}", f"{numbers}"])


def snapshots(name: str, seed: int) -> tuple[Job, list[nn.Module]]:
    """A run of a moons recipe: what it was made of, and its evaluated network after each number of `SNAPSHOTS`."""
    recipe, networks = RECIPES[name].resolved(), []
    device = pick_device("cpu")
    with untouched_globals(device):
        job = prepare(recipe, seed, load_data(recipe, seed), None, device)
        for step in range(1, SNAPSHOTS[-1] + 1):
            update(job.program, job.state)
            if step in SNAPSHOTS:
                networks.append(deepcopy(job.state.evaluated).eval())
    return job, networks


@torch.no_grad()
def _accuracy(network: nn.Module, job: Job) -> float:
    """The share of the drawn points that are on the right side."""
    points = job.data.train
    right = network(job.view(points.x)).argmax(1) == points.y
    return float(right.double().mean())


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
    logits = network(job.view(grid))
    margin = (logits[:, 1] - logits[:, 0]).reshape(columns.shape)
    axes.contour(columns, rows, margin.numpy(), levels=[0.0], colors=[color], linewidths=2)
