"""The main job: supervised training, LabelSpreading and ICT on digits with ten labels a class, over several seeds."""

import os
import sys
import warnings
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import Progress

from ict.data.split import Indices
from ict.files import write_json
from ict.folder import Folder
from ict.parallel import Task, run_all
from ict.provenance import provenance
from ict.recipes import RECIPES
from ict.run import load_data

SUPERVISED, ICT = "digits-100/supervised", "digits-100/ict"
SPREADING = "LabelSpreading"
_TITLES = {
    SUPERVISED: "supervised network",
    SPREADING: "scikit-learn LabelSpreading",
    ICT: "ICT, same network",
}


def demo(out: Path, n_seeds: int) -> str:
    """Run everything that is not finished yet, write `demo.json` and `curves.png`, and return the table."""
    tasks = [
        Task(name, seed, out / name.replace("/", "-") / RECIPES[name].resolved().hash / f"seed{seed}")
        for seed in range(n_seeds)
        for name in (SUPERVISED, ICT)
    ]
    results = _train(tasks)
    errors: dict[str, list[float]] = {name: [] for name in _TITLES}
    for result in results:
        errors[result["recipe"]].append(result["test_error"])
    ict_folders = [Folder(task.out) for task in tasks if task.recipe == ICT]
    errors[SPREADING] = [_label_spreading(seed, folder) for seed, folder in enumerate(ict_folders)]

    _draw(
        out / "curves.png",
        {name: [Folder(t.out) for t in tasks if t.recipe == name] for name in (SUPERVISED, ICT)},
    )
    summary = {
        "seeds": list(range(n_seeds)),
        "rows": [{"method": _TITLES[name], "recipe": name, "test_error": values} for name, values in errors.items()],
        "steps": results[0]["steps"],
        "seconds_a_run": {
            n: round(fmean(r["seconds"] for r in results if r["recipe"] == n), 1) for n in (SUPERVISED, ICT)
        },
        **provenance(torch.device("cpu")),
        "threads": results[0]["threads"],
        "recipes": {name: RECIPES[name].resolved().to_dict() for name in (SUPERVISED, ICT)},
    }
    write_json(out / "demo.json", summary)
    return "\n".join(
        [
            "",
            table(summary),
            "",
            f"curves: {out / 'curves.png'}",
            f"results: {out / 'demo.json'} and a result.json in each run's folder",
        ]
    )


def table(summary: dict[str, Any]) -> str:
    """Markdown: a row a method, mean and deviation of the test error."""
    lines = ["| method | test error | seeds |", "|---|---|---|"]
    for row in summary["rows"]:
        values = [100 * v for v in row["test_error"]]
        deviation = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
        lines.append(f"| {row['method']} | {fmean(values):.2f}{deviation} % | {len(values)} |")
    return "\n".join(lines)


def _train(tasks: list[Task]) -> list[dict[str, Any]]:
    total = sum(RECIPES[task.recipe].train.steps for task in tasks)
    done = dict.fromkeys(tasks, 0)
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        bar = progress.add_task(f"{len(tasks)} runs", total=total)

        def advance(task: Task, step: int) -> None:
            done[task] = step
            progress.update(bar, completed=sum(done.values()))

        return run_all(tasks, min(os.cpu_count() or 1, len(tasks)), advance)


def _label_spreading(seed: int, folder: Folder) -> float:
    """Test error of LabelSpreading on the run's own split; its settings are chosen on the validation images too."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.semi_supervised import LabelSpreading

    data = load_data(RECIPES[ICT].resolved(), seed)
    indices = Indices.load(folder.split)
    x, y = data.train.x.flatten(1).numpy().astype(np.float64), data.train.y.numpy()
    rows = np.concatenate([indices.labeled, indices.unlabeled])
    known = np.where(np.arange(len(rows)) < len(indices.labeled), y[rows], -1)
    fitted: list[tuple[float, int, Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for n_neighbors, alpha in product((3, 5, 7, 10, 15), (0.05, 0.2, 0.5, 0.8)):
            model = LabelSpreading(kernel="knn", n_neighbors=n_neighbors, alpha=alpha).fit(x[rows], known)
            fitted.append((np.mean(model.predict(x[indices.valid]) != y[indices.valid]), len(fitted), model))
    _, _, best = min(fitted)
    wrong = best.predict(data.test.x.flatten(1).numpy().astype(np.float64)) != data.test.y.numpy()
    return float(np.mean(wrong))


def _draw(path: Path, folders: dict[str, list[Folder]]) -> None:
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for name, color in ((SUPERVISED, "tab:red"), (ICT, "tab:green")):
        network = "student" if RECIPES[name].average.decay is None else "teacher"
        curves = [
            [(r["step"], 100 * r[key]) for r in folder.read_metrics() if (key := f"valid_error_{network}") in r]
            for folder in folders[name]
        ]
        steps = [step for step, _ in curves[0]]
        values = np.array([[error for _, error in curve] for curve in curves])
        axes.plot(steps, values.mean(0), color=color, label=f"{_TITLES[name]} ({network})")
        axes.fill_between(steps, values.min(0), values.max(0), color=color, alpha=0.2, linewidth=0)
    axes.set(xlabel="updates", ylabel="validation error (%)", ylim=(0, 20))
    axes.set_title(f"digits, 10 labels a class: mean and range of {len(folders[ICT])} seeds")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
