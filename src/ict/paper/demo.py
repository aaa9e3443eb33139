"""The demo: supervised training, LabelSpreading and ICT on digits with ten labels per class, over several seeds."""

import os
import warnings
from collections.abc import Iterable
from io import BytesIO
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from ict.base.errors import UserError
from ict.base.files import as_json, write_together
from ict.experiment.console import progress_bar
from ict.experiment.pool import Task, run_all
from ict.experiment.prepare import limited, load_data
from ict.experiment.provenance import provenance
from ict.experiment.run import default_folder
from ict.experiment.run_folder import Folder
from ict.recipes import RECIPES
from ict.recipes.recipe import Recipe, change

SUPERVISED, ICT = "digits-100/supervised", "digits-100/ict"
SPREADING = "LabelSpreading"
_TITLES = {
    SUPERVISED: "supervised network",
    SPREADING: "scikit-learn LabelSpreading",
    ICT: "ICT, same network",
}


def demo(out: Path, n_seeds: int, settings: Iterable[str] = ()) -> str:
    """Run the missing runs, write `demo.json` and `curves.png`, and return the table."""
    recipes = {name: change(RECIPES[name], settings) for name in (SUPERVISED, ICT)}
    if recipes[ICT].split.valid == 0:
        raise UserError("split.valid is 0: the demo plots validation errors and chooses by them, so set it above 0.")
    tasks = [
        Task(recipe, seed, default_folder(recipe, seed, out)) for seed in range(n_seeds) for recipe in recipes.values()
    ]
    results = _train(tasks)
    folders = {name: [Folder(task.out) for task in tasks if task.recipe.name == name] for name in recipes}
    errors = {name: [r["test_error"] for r in results if r["recipe"] == name] for name in recipes}
    errors[SPREADING] = [_label_spreading(recipes[ICT], seed, folder) for seed, folder in enumerate(folders[ICT])]
    summary = {
        "seeds": list(range(n_seeds)),
        "rows": [{"method": title, "recipe": name, "test_error": errors[name]} for name, title in _TITLES.items()],
        "steps": results[0]["steps"],
        "seconds_a_run": {n: round(fmean(r["seconds"] for r in results if r["recipe"] == n), 1) for n in recipes},
        **provenance(torch.device("cpu")),
        "threads": results[0]["threads"],
        "recipes": {name: recipe.to_dict() for name, recipe in recipes.items()},
    }
    write_together({out / "curves.png": _drawn(recipes, folders), out / "demo.json": as_json(summary)})
    where = [f"curves: {out / 'curves.png'}", f"results: {out / 'demo.json'}, and result.json in each run's folder"]
    return "\n".join([table(summary), "", *where])


def table(summary: dict[str, Any]) -> str:
    """A Markdown table: per method the mean and standard deviation of the test error."""
    lines = ["| method | test error | seeds |", "|---|---|---|"]
    for row in summary["rows"]:
        values = [100 * v for v in row["test_error"]]
        deviation = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
        lines.append(f"| {row['method']} | {fmean(values):.2f}{deviation} % | {len(values)} |")
    return "\n".join(lines)


def _train(tasks: list[Task]) -> list[dict[str, Any]]:
    done = dict.fromkeys(range(len(tasks)), 0)
    with progress_bar(sum(task.recipe.train.steps for task in tasks), f"{len(tasks)} runs") as move:

        def advance(index: int, record: dict[str, Any]) -> None:
            done[index] = record["step"]
            move({"step": sum(done.values())})

        def finish(index: int, result: dict[str, Any]) -> None:
            advance(index, {"step": result["steps"]})

        return run_all(tasks, os.cpu_count() or 1, advance, finish)


def _label_spreading(recipe: Recipe, seed: int, folder: Folder) -> float:
    """Test error of LabelSpreading on the run's split. Its settings are also chosen on the validation images."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.semi_supervised import LabelSpreading

    data = load_data(recipe, seed)
    indices = folder.load_split()
    x, y = data.train.x.flatten(1).numpy().astype(np.float64), data.train.y.numpy()
    rows = np.concatenate([indices.labeled, indices.unlabeled])
    known = np.where(np.arange(len(rows)) < len(indices.labeled), y[rows], -1)
    fitted: list[tuple[float, int, Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # 0 / 0 at points that no label reaches
        for n_neighbors, alpha in product((3, 5, 7, 10, 15), (0.05, 0.2, 0.5, 0.8)):
            model = LabelSpreading(kernel="knn", n_neighbors=n_neighbors, alpha=alpha).fit(x[rows], known)
            fitted.append((np.mean(model.predict(x[indices.valid]) != y[indices.valid]), len(fitted), model))
        _, _, best = min(fitted)
        test = limited(data.test, recipe.eval.test_limit)
        wrong = best.predict(test.x.flatten(1).numpy().astype(np.float64)) != test.y.numpy()
    return float(np.mean(wrong))


def _drawn(recipes: dict[str, Recipe], folders: dict[str, list[Folder]]) -> bytes:
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    top = 0.0
    for name, color in ((SUPERVISED, "tab:red"), (ICT, "tab:green")):
        network = "student" if recipes[name].average.decay is None else "teacher"
        curves = [
            [(r["step"], 100 * r[key]) for r in folder.read_metrics() if (key := f"valid_error_{network}") in r]
            for folder in folders[name]
        ]
        steps = [step for step, _ in curves[0]]
        values = np.array([[error for _, error in curve] for curve in curves])
        axes.plot(steps, values.mean(0), color=color, label=f"{_TITLES[name]} ({network})")
        axes.fill_between(steps, values.min(0), values.max(0), color=color, alpha=0.2, linewidth=0)
        top = max(top, 2 * values[:, len(steps) // 2 :].max())  # the large errors of the first steps are cut off
    axes.set(xlabel="updates", ylabel="validation error (%)", ylim=(0, top))
    axes.set_title(f"digits, 10 labels per class: mean and range of {len(folders[ICT])} seeds")
    axes.grid(alpha=0.3)
    axes.legend()
    picture = BytesIO()
    figure.savefig(picture, dpi=120, format="png")
    return picture.getvalue()
