"""The paper's own claims about ICT, measured on digits and on two moons over several seeds.

    python research/paper_claims.py --seeds 20 --out results/paper-claims.json

tools/render.py writes docs/claims.md and its picture from that file. For each seed it trains supervised training, ICT,
ICT without interpolation (lambda is 0 or 1, all else the same: the same teacher, weight and updates), and on digits the
mean teacher and VAT. Runs are kept in --work, so the same command continues. Then it measures on the unlabeled points,
of which no method saw a label:

- the margin: the distance to the decision boundary, by DeepFool's steps (Moosavi-Dezfooli et al., 2016);
- the density at the boundary: where a segment between two points that are classified differently crosses it, the
  distance to the tenth nearest unlabeled point, as a multiple of the median of that distance at unlabeled points; above
  1 the density is lower;
- the same at nearest boundary points, those that the margin's steps end at;
- the shares of the paper's three cases of pairs, for several numbers of clusters, and the density in their middles;
- the cost of an update, all methods in turns in one process.
"""

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import KDTree
from sklearn.cluster import SpectralClustering
from torch import Tensor, nn

from ict.engine.device import untouched_globals
from ict.engine.step import update
from ict.experiment.live_table import watch
from ict.experiment.pool import THREADS, Task, run_all
from ict.experiment.prepare import load_data, prepare
from ict.experiment.provenance import provenance
from ict.experiment.run import default_folder, train
from ict.experiment.run_folder import Folder
from ict.paper.compare import enter
from ict.recipes.recipe import Recipe, change

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
UNMIXED = "algorithm.alpha=1e-6"  # lambda ~ Beta(1e-6, 1e-6) is 0 or 1
N_PAIRS, N_NEIGHBORS = 2000, 10
ROUNDS, UPDATES = 9, 20  # of the updates that are timed
STEPS = 50  # of DeepFool, after which a point counts as unreached
CLUSTERS = {"digits-100": (10, 20, 40), "moons": (2, 4, 8)}


@dataclass(frozen=True)
class Run:
    """A method's run to be measured."""

    task: str
    method: str
    recipe: Recipe
    seed: int
    folder: Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--work", type=Path, default=Path("runs/paper-claims"))
    parser.add_argument("--set", dest="settings", action="append", default=[], help="change every run, for a trial")
    a = parser.parse_args()
    runs = planned(a.seeds, a.work, a.settings)
    tasks = [Task(run.recipe, run.seed, run.folder) for run in runs]
    with watch(tasks, list(dict.fromkeys(run.recipe.name for run in runs)), a.workers) as live:
        results = run_all(tasks, a.workers, live.progress, live.finished)
    places = [(task, seed) for task in CLUSTERS for seed in range(a.seeds)]
    if a.workers == 1:
        measures, pairs = [measured(run) for run in runs], [cases(*place) for place in places]
    else:
        with multiprocessing.get_context("spawn").Pool(min(a.workers, len(runs))) as pool:
            measures, pairs = pool.map(measured, runs, chunksize=1), pool.starmap(cases, places, chunksize=1)
    rows = [
        {"task": run.task, "method": run.method, "seed": run.seed}
        | {key: result[key] for key in ("test_error", "test_error_student", "seconds", "steps")}
        | measure
        for run, result, measure in zip(runs, results, measures, strict=True)
    ]
    origin = provenance(torch.device("cpu")) | {"threads": THREADS}
    recipes = {f"{run.task} {run.method}": run.recipe.to_dict() for run in runs}
    cost = costs([run for run in runs if run.seed == 0])
    content = {"seeds": list(range(a.seeds)), "runs": rows, "cases": pairs, "cost": cost, **origin, "recipes": recipes}
    a.out.write_text(json.dumps(content, indent=1) + "\n")


def planned(n_seeds: int, work: Path, settings: Sequence[str] = ()) -> list[Run]:
    """All runs, each method with an average of its weights for evaluation, the slow ones first."""
    methods: dict[tuple[str, str], Recipe] = {}
    for task, names in (("digits-100", "vat,mean-teacher,ict,supervised"), ("moons", "ict-sharpened,ict,supervised")):
        for entry in enter(task, names, None, list(settings), average=True):
            methods[task, entry.method] = entry.recipe
            if entry.recipe.algorithm.name == "ict":
                methods[task, f"{entry.method}, unmixed"] = unmixed(entry.recipe)
    return [
        Run(task, method, recipe, seed, default_folder(recipe, seed, work))
        for (task, method), recipe in methods.items()
        for seed in range(n_seeds)
    ]


def unmixed(recipe: Recipe) -> Recipe:
    """ICT without interpolation of unlabeled points; that of labeled ones stays as it is."""
    labeled = recipe.algorithm.options["alpha_labeled"] or recipe.algorithm.options["alpha"]
    changed = change(recipe, [UNMIXED, f"algorithm.alpha_labeled={labeled:g}"])
    return replace(changed, name=f"{recipe.name}-unmixed")


def costs(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Milliseconds of CPU an update: the median of rounds in which the methods take turns."""
    cpu = torch.device("cpu")
    torch.set_num_threads(THREADS)
    times: dict[tuple[str, str], list[float]] = {(run.task, run.method): [] for run in runs}
    with untouched_globals(cpu):
        jobs = [prepare(run.recipe, run.seed, load_data(run.recipe, run.seed), None, cpu) for run in runs]
        for job in jobs:
            update(job.program, job.state)  # warms up
        for _ in range(ROUNDS):
            for run, job, of_method in zip(runs, jobs, times.values(), strict=True):
                job.state.step = run.recipe.train.steps // 2  # in the middle of the schedule
                began = time.process_time()
                for _ in range(UPDATES):
                    update(job.program, job.state)
                of_method.append(1000 * (time.process_time() - began) / UPDATES)
    return [
        {"task": task, "method": method, "milliseconds": round(median(values), 3)}
        for (task, method), values in times.items()
    ]


# --- what is measured of a network --------------------------------------------------------------------------------


def measured(run: Run) -> dict[str, Any]:
    torch.set_num_threads(THREADS)
    done = train(run.recipe, seed=run.seed, out=run.folder, resume=True, device="cpu")
    network = done.network.eval().requires_grad_(False)
    x, _ = unlabeled(run.recipe, run.seed, run.folder)
    points = done.transform(x)
    return of_network(network, points, np.random.default_rng(run.seed))


def unlabeled(recipe: Recipe, seed: int, folder: Path) -> tuple[Tensor, Labels]:
    """The unlabeled examples of a run, with the labels that it did not see."""
    data = load_data(recipe, seed).train
    rows = Folder(folder).load_split().unlabeled
    return data.x[rows], data.y[rows].numpy()


def of_network(network: nn.Module, points: Tensor, rng: np.random.Generator) -> dict[str, Any]:
    distances, nearest = margins(network, points)
    reached = ~np.isnan(distances)
    sparsity = Sparsity(flat(points))
    crossings = boundary_between(network, points, rng)
    return {
        "margin": quantiles(distances[reached]),
        "unreached": float(1 - reached.mean()),
        "sparsity_crossing": quantiles(sparsity(flat(crossings))),
        "sparsity_nearest": quantiles(sparsity(flat(nearest[torch.from_numpy(reached)]))),
    }


def margins(network: nn.Module, points: Tensor) -> tuple[Array, Tensor]:
    """The distance of each point to a boundary point near it, and these; not a number where none was reached.

    Each step goes to where the logits of the point's class and of the next likely one would be equal if they were
    affine. A last bisection puts the found point on the boundary.
    """
    own = network(points).argmax(1)
    x, far = points.clone(), points.clone()
    crossed = torch.zeros(len(points), dtype=torch.bool)
    for _ in range(STEPS):
        at = x.detach().requires_grad_(True)
        logits = network(at)
        z_own = logits.gather(1, own[:, None]).squeeze(1)
        gap = z_own - logits.scatter(1, own[:, None], -torch.inf).amax(1)
        (slope,) = torch.autograd.grad(gap.sum(), at)
        new = (logits.detach().argmax(1) != own) & ~crossed
        far[new] = x[new]
        crossed |= new
        if crossed.all():
            break
        gap, steepness = gap.detach(), slope.flatten(1).square().sum(1)
        step = (1.02 * gap / steepness.clamp_min(1e-12)).clamp(max=1e3)
        moved = x - step.reshape(-1, *[1] * (points.ndim - 1)) * slope
        x = torch.where(crossed.reshape(-1, *[1] * (points.ndim - 1)), x, moved)
    nearest = bisected(network, points, far, own)
    distances = (nearest - points).flatten(1).norm(dim=1).double().numpy()
    return np.where(crossed.numpy(), distances, np.nan), nearest


def boundary_between(network: nn.Module, points: Tensor, rng: np.random.Generator) -> Tensor:
    """A boundary point on the segment of each random pair that is classified differently."""
    j, k = (torch.from_numpy(rng.integers(len(points), size=N_PAIRS)) for _ in range(2))
    own = network(points).argmax(1)
    differ = own[j] != own[k]
    return bisected(network, points[j[differ]], points[k[differ]], own[j[differ]])


@torch.no_grad()
def bisected(network: nn.Module, near: Tensor, far: Tensor, own: Tensor) -> Tensor:
    """Where the class `own` of `near` ends on the way to `far`."""
    low, high = torch.zeros(len(near)), torch.ones(len(near))
    shape = (-1, *[1] * (near.ndim - 1))
    for _ in range(25):
        middle = (low + high) / 2
        inside = network(torch.lerp(near, far, middle.reshape(shape))).argmax(1) == own
        low, high = torch.where(inside, middle, low), torch.where(inside, high, middle)
    return torch.lerp(near, far, high.reshape(shape))


class Sparsity:
    """The distance to the tenth nearest point, by its median at the points themselves: above 1 where they are rare."""

    def __init__(self, points: Array) -> None:
        self.tree = KDTree(points)
        self.usual = float(np.median(self.tree.query(points, k=N_NEIGHBORS + 1)[0][:, -1]))

    def __call__(self, places: Array) -> Array:
        if not len(places):
            return np.zeros(0)
        return np.asarray(self.tree.query(places, k=N_NEIGHBORS)[0][:, -1]) / self.usual


def quantiles(values: Array) -> dict[str, float] | None:
    """None without values."""
    if not len(values):
        return None
    return {name: float(np.quantile(values, q)) for name, q in (("tenth", 0.1), ("median", 0.5))}


def flat(points: Tensor) -> Array:
    return points.flatten(1).double().numpy()


# --- pairs --------------------------------------------------------------------------------------------------------


def cases(task: str, seed: int) -> dict[str, Any]:
    """The shares of the three cases among all pairs of training points, and how sparse the middles of pairs are."""
    (entry,) = enter(task, "supervised", None, [])
    data = load_data(entry.recipe, seed).train
    points, labels = flat(data.x), data.y.numpy()
    rng = np.random.default_rng(seed)
    j, k = rng.integers(len(points), size=(2, N_PAIRS))
    middles = Sparsity(points)((points[j] + points[k]) / 2)
    shares = []
    for n in CLUSTERS[task]:
        clusters = SpectralClustering(n, affinity="nearest_neighbors", random_state=seed).fit_predict(points)
        of_pair = case(clusters, labels, j, k)
        rare = {f"middle_{i}": float(np.median(middles[of_pair == i])) for i in (1, 2, 3) if (of_pair == i).any()}
        shares.append({"clusters": n, **shares_of_all(clusters, labels), **rare})
    return {"task": task, "seed": seed, "middle": float(np.median(middles)), "shares": shares}


def case(clusters: Labels, labels: Labels, j: Labels, k: Labels) -> Labels:
    """1: the same cluster; 2: different clusters of one class; 3: different clusters and classes."""
    return np.where(clusters[j] == clusters[k], 1, np.where(labels[j] == labels[k], 2, 3))


def shares_of_all(clusters: Labels, labels: Labels) -> dict[str, float]:
    """The shares among all pairs of different points, and of the first case the share with different classes."""
    j, k = np.triu_indices(len(labels), 1)
    of_pair = case(clusters, labels, j, k)
    return {f"case_{i}": float((of_pair == i).mean()) for i in (1, 2, 3)} | {
        "other_class_within": float((labels[j] != labels[k])[of_pair == 1].mean())
    }


if __name__ == "__main__":
    main()
