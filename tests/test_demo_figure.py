"""The demo and the figure: what they compute, against a recount from their files, and that they can go on."""

import json
import os
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.semi_supervised import LabelSpreading

from ict.base.errors import UserError
from ict.data.split import Indices
from ict.experiment.prepare import load_data
from ict.paper.demo import demo, table
from ict.paper.figure import SNAPSHOTS, moons, snapshots
from ict.recipes import RECIPES

pytestmark = pytest.mark.xdist_group("reports")  # they share one demo
QUICK = ["train.steps=24", "network.width=4", "eval.every=6"]


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    text = demo(folder, 2, QUICK)
    assert str(folder / "curves.png") in text and str(folder / "demo.json") in text
    return folder


def test_the_demos_table_is_the_mean_over_its_runs(demo_folder: Path) -> None:
    summary = json.loads((demo_folder / "demo.json").read_text())
    for recipe in ("digits-100/supervised", "digits-100/ict"):
        files = sorted(demo_folder.glob(f"{recipe.replace('/', '-')}/*/seed*/result.json"))
        errors = [json.loads(f.read_text())["test_error"] for f in files]
        (row,) = [r for r in summary["rows"] if r["recipe"] == recipe]
        assert row["test_error"] == errors and len(errors) == 2
        expected = f"{100 * fmean(errors):.2f} ± {100 * stdev(errors):.2f} %"
        assert f"| {row['method']} | {expected} | 2 |" in table(summary)


def test_both_methods_get_the_same_split_network_and_updates(demo_folder: Path) -> None:
    summary = json.loads((demo_folder / "demo.json").read_text())
    supervised, ict = (summary["recipes"][f"digits-100/{m}"] for m in ("supervised", "ict"))
    for section in ("dataset", "split", "network", "inputs"):
        assert supervised[section] == ict[section]
    assert supervised["train"]["steps"] == ict["train"]["steps"]
    splits = [
        [Indices.load(p) for p in sorted(demo_folder.glob(f"*-{m}/*/*/split.npz"))] for m in ("supervised", "ict")
    ]
    for a, b in zip(*splits, strict=True):
        assert (a.labeled == b.labeled).all() and (a.valid == b.valid).all()
        everything = np.concatenate([a.labeled, a.valid, a.unlabeled])
        assert len(a.labeled) == len(a.valid) == 100 and len(set(everything)) == len(everything)


def test_label_spreading_is_scikit_learns_on_the_same_split(demo_folder: Path) -> None:
    summary = json.loads((demo_folder / "demo.json").read_text())
    (row,) = [r for r in summary["rows"] if r["recipe"] == "LabelSpreading"]
    data = load_data(RECIPES["digits-100/ict"].resolved(), 0)
    (split,) = [Indices.load(p) for p in demo_folder.glob("digits-100-ict/*/seed0/split.npz")]
    x, y = data.train.x.flatten(1).double().numpy(), data.train.y.numpy().copy()
    rows = np.concatenate([split.labeled, split.unlabeled])
    y[split.unlabeled] = -1
    fit = LabelSpreading(kernel="knn", n_neighbors=7, alpha=0.2, max_iter=200).fit(x[rows], y[rows])
    default = (fit.predict(data.test.x.flatten(1).double().numpy()) != data.test.y.numpy()).mean()
    assert 0 < row["test_error"][0] < default + 0.02


def test_all_methods_of_a_demo_see_the_same_test_images(tmp_path: Path) -> None:
    demo(tmp_path, 1, [*QUICK, "eval.test_limit=1"])
    summary = json.loads((tmp_path / "demo.json").read_text())
    assert [row["recipe"] for row in summary["rows"]] == ["digits-100/supervised", "LabelSpreading", "digits-100/ict"]
    assert {error for row in summary["rows"] for error in row["test_error"]} <= {0.0, 1.0}


def test_the_demo_reuses_finished_runs(demo_folder: Path) -> None:
    results = list(demo_folder.glob("*/*/seed*/result.json"))
    for file in results:
        os.utime(file, (0, 0))
    demo(demo_folder, 2, QUICK)
    assert all(file.stat().st_mtime == 0 for file in results)


def test_a_demo_without_validation_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"split\.valid"):
        demo(tmp_path / "demo", 1, [*QUICK, "split.valid=0"])
    assert not (tmp_path / "demo").exists()


def test_the_curves_show_both_methods(demo_folder: Path) -> None:
    with Image.open(demo_folder / "curves.png") as picture:
        pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3).astype(int)
    red, green = ([214, 39, 40], [44, 160, 44])
    for color in (red, green):
        assert (np.abs(pixels - color).sum(1) < 30).sum() > 100


def test_the_figures_accuracies_are_those_of_its_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ict.paper.figure.SNAPSHOTS", (5, 10, 20))
    text = moons(tmp_path / "m.png", "moons/ict-sharpened", seed=3, n_seeds=2)
    summary = json.loads((tmp_path / "m.json").read_text())
    assert summary["updates"] == [5, 10, 20] and "of 2 seeds" in text
    for name in ("moons/supervised", "moons/ict-sharpened"):
        job, networks = snapshots(name, 1)
        x, y = job.data.train.x, job.data.train.y  # this recipe feeds the points as they are
        right = [(network(x).argmax(1) == y).double().mean().item() for network in networks]
        assert summary["accuracy"][name]["1"] == pytest.approx(right)
    with Image.open(tmp_path / "m.png") as picture:
        assert picture.width > 2.5 * picture.height


def test_the_figures_data_are_the_papers() -> None:
    assert SNAPSHOTS == (100, 500, 1000)
    for name in ("moons/supervised", "moons/ict", "moons/ict-sharpened"):
        recipe = RECIPES[name].resolved()
        data = load_data(recipe, 0)
        assert len(data.train) == 1000 and data.labeled_rows is not None
        assert torch.bincount(data.train.y[data.labeled_rows]).tolist() == [3, 3]
        assert recipe.network.name == "mlp" and recipe.network.options == {"width": 20, "depth": 3}
        assert recipe.train.steps == 1000


@pytest.mark.slow
def test_ict_beats_supervised_by_a_margin_on_digits(tmp_path: Path) -> None:
    demo(tmp_path, 3)
    rows = {r["recipe"]: fmean(r["test_error"]) for r in json.loads((tmp_path / "demo.json").read_text())["rows"]}
    assert rows["digits-100/ict"] < 0.6 * rows["digits-100/supervised"]
