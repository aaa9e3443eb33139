"""Fits on a backbone's features beside logistic regression on the same features and on pixels or words.

    python benchmarks/backbones.py --data DIR --out results/backbones.json [--seeds 5] [--workers 4]
        [--parts accuracy,rate,files] [--features FOLDER]

DIR holds CIFAR-10; the descriptions are those of `apt-cache dumpavail` on Debian. Features are computed once and kept
in FOLDER, for machines without the backbones. Every process has one thread. An interrupted run goes on.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from ict.backbones import PHOTOS, open_backbone
from ict.backbones.efficientnet_lite0 import by_torch
from ict.backbones.embedder import Embedder
from ict.base.array_types import Array
from ict.base.files import write_atomic
from ict.data.array_inputs import fit_features
from ict.data.cifar10 import cifar10
from ict.estimators import AUTO
from ict.estimators.auto import choose
from ict.estimators.embedding import METHOD, on_features
from ict.estimators.fitter import Fitter
from ict.experiment.provenance import provenance

POOL, TEST = 3000, 2000  # examples to train on, most of them without a label, and to test on
SECTIONS = 10  # the largest ones
WRITE_EVERY = 20  # cells
BESIDE_SEEDS = 2  # on which photos in color are fitted with their pixels beside the features
PHOTO_FILES, WIDE, HIGH = 2000, 1024, 768
GRAY_BACKGROUND = 16  # gray levels of a digit
CONVERSION = [sys.executable, "-c", f"from ict.backbones import open_backbone as o; o('{PHOTOS}', 'cpu')"]


class Task(NamedTuple):
    features: Array  # float16, so that a file of them is small
    raw: Any  # pixels uint8 [n, numbers], or a sparse matrix of words
    labels: Array


class Cell(NamedTuple):
    data: str
    classes: int
    labels: int  # a class
    seed: int


def photos(folder: Path) -> Task:
    """Some images of CIFAR-10."""
    train = cifar10(folder, 0).train
    rows = np.random.default_rng(0).permutation(len(train))[: POOL + TEST]
    images = np.ascontiguousarray(train.x.numpy()[rows].transpose(0, 2, 3, 1))
    features = Embedder(open_backbone(PHOTOS, "cpu")).images(images)
    return Task(features.astype(np.float16), images.reshape(len(images), -1), train.y.numpy()[rows])


def digits() -> Task:
    """Small gray images."""
    found = load_digits()
    images = np.rint(found.images * 255 / GRAY_BACKGROUND).astype(np.uint8)
    features = Embedder(open_backbone(PHOTOS, "cpu")).images(images)
    return Task(features.astype(np.float16), images.reshape(len(images), -1), found.target)


def descriptions(backbone: str) -> Task:
    """Short descriptions of packages in the largest sections; a text that two packages share counts once."""
    listing = subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True, text=True).stdout
    found = {}
    for paragraph in listing.split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in paragraph.split("\n") if line[:1].isalpha())
        text = next((v for k, v in fields.items() if k.startswith("Description") and "md5" not in k), "")
        if text and "Section" in fields:
            found[text] = fields["Section"].rpartition("/")[2]
    largest = [name for name, _ in Counter(found.values()).most_common(SECTIONS)]
    some = sorted(text for text, section in found.items() if section in largest)
    texts = [some[i] for i in np.random.default_rng(0).permutation(len(some))[: POOL + TEST]]
    embed = Embedder(None if backbone == "tfidf" else open_backbone(backbone, "cpu"))
    labels = np.array([largest.index(found[text]) for text in texts])
    words = TfidfVectorizer(sublinear_tf=True).fit_transform(texts)
    return Task(embed.texts(texts, None, None).astype(np.float16), words, labels)


@cache
def load(data: str, cifar: Path | None, kept: Path) -> Task:
    """The examples of a data set, from the folder `kept` if they are there."""
    path = kept / f"{data.replace(', ', '-')}.npz"
    if not path.exists():
        make: dict[str, Callable[[], Task]] = {
            "cifar10": lambda: photos(cifar or Path()),
            "digits": digits,
            "descriptions, minilm": lambda: descriptions("minilm"),
            "descriptions, tfidf": lambda: descriptions("tfidf"),
        }
        task = make[data]()
        kept.mkdir(parents=True, exist_ok=True)
        arrays = {"raw": task.raw}
        if sparse.issparse(task.raw):
            arrays = {name: getattr(task.raw, name) for name in ("data", "indices", "indptr", "shape")}
        np.savez_compressed(path, features=task.features, labels=task.labels, **arrays)
    found = np.load(path)
    raw = found["raw"] if "raw" in found else sparse.csr_matrix((found["data"], found["indices"], found["indptr"]))
    return Task(found["features"], raw, found["labels"])


def split(task: Task, cell: Cell) -> tuple[Array, Array, Array]:
    """Rows to train on, their labels (-1 for most), and rows to test on."""
    draws = np.random.default_rng(cell.seed)
    rows = draws.permutation(np.flatnonzero(task.labels < cell.classes))
    n_test = min(TEST, len(rows) // 3)
    test, train = rows[:n_test], rows[n_test : n_test + POOL]
    labels = np.full(len(train), -1)
    for label in range(cell.classes):
        labels[np.flatnonzero(task.labels[train] == label)[: cell.labels]] = label
    return train, labels, test


def accuracies(cell: Cell, cifar: Path | None, kept: Path, steps: int | None) -> dict[str, Any]:
    """Fractions of right answers on the test rows, and CPU seconds of each fit."""
    torch.set_num_threads(1)
    task = load(cell.data, cifar, kept)
    train, labels, test = split(task, cell)
    known, truth = train[labels >= 0], task.labels[test]
    features = task.features.astype(np.float32)
    unit = features - features[train].mean(0)
    unit = unit / np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-12)
    of_pixels = task.raw.dtype == np.uint8
    raw = task.raw / 255.0 if of_pixels else task.raw
    accuracy, seconds = {}, {}

    def add(name: str, fit: Callable[[], Callable[[Any], Array]], rows: Any) -> None:
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predict = fit()
        seconds[name] = round(time.process_time() - began, 2)
        accuracy[name] = float((predict(rows) == truth).mean())

    def logistic(x: Any, c: float) -> Callable[[], Callable[[Any], Array]]:
        return lambda: LogisticRegression(C=c, max_iter=1000).fit(x[known], task.labels[known]).predict

    def ours(method: str, x: Array, n_beside: int = 0) -> Callable[[], Callable[[Any], Array]]:
        def fit() -> Callable[[Any], Array]:
            inputs = fit_features(x[train], n_beside)
            fitter, ready = on_features(Fitter(steps=steps, device="cpu"), method), inputs(x[train])
            if method == AUTO:
                model = choose(fitter, ready, labels, cell.classes, cell.seed).model
            else:
                model = fitter.fit(method, ready, labels, cell.classes, cell.seed)
            return lambda rows: model.predict_proba(inputs(rows)).argmax(1)

        return fit

    add("logistic regression on features", logistic(unit, 10.0), unit[test])
    for c in (0.01, 1.0):  # the better one is reported, which is in its favor
        add(f"logistic regression on pixels or words, C={c:g}", logistic(raw, c), raw[test])
    add("anchored ICT on features", ours(METHOD, features), features[test])
    gray = cell.data == "digits"  # the default has pixels beside
    if gray or (of_pixels and cell.classes == 10 and cell.labels in (4, 10) and cell.seed < BESIDE_SEEDS):
        both = np.concatenate([features, task.raw], axis=1, dtype=np.float32)
        add("anchored ICT on features and pixels", ours(METHOD, both, raw.shape[1]), both[test])
    if gray:
        add("ict fit", ours(AUTO, both, raw.shape[1]), both[test])
    else:
        add("ict fit", ours(AUTO, features), features[test])
    return {"part": "accuracy", **cell._asdict(), "accuracy": accuracy, "seconds": seconds}


def rate() -> dict[str, Any]:
    """Images a second of the packaged network in one thread: the converted one, and torch's."""
    backbones = {"onnxruntime": open_backbone(PHOTOS, "cpu"), "torch": by_torch(torch.device("cpu"))}
    rows = np.random.default_rng(0).integers(0, 256, (64, 160, 160, 3), dtype=np.uint8)
    times: dict[str, list[float]] = {name: [] for name in backbones}
    for _ in range(5):
        for name, backbone in backbones.items():
            began = time.process_time()
            backbone.embed(rows)
            times[name].append(time.process_time() - began)
    found = {name: len(rows) / min(some) for name, some in times.items()}
    return {"part": "rate", "images_a_second": found, "ratio": found["onnxruntime"] / found["torch"]}


def files(n: int) -> dict[str, Any]:
    """CPU seconds and memory of `ict fit` and `ict predict` on JPEG files, and of the plain loop."""
    with tempfile.TemporaryDirectory() as place:
        folder, cache = Path(place) / "photos", Path(place) / "cache"
        make_photos(folder, n)
        environment = {"ICT_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
        ict, model = [sys.executable, "-m", "ict"], str(Path(place) / "model")
        loop = loop_command(folder)
        predict = [*ict, "predict", model, str(folder), "-o", str(Path(place) / "p.csv")]
        steps = {
            "conversion": CONVERSION,
            "plain loop": loop,
            "fit": [*ict, "fit", str(folder), "--out", model],
            "fit again": [*ict, "fit", str(folder), "--out", f"{model}2"],
            "predict": predict,
        }
        measured = {name: cost(command, environment) for name, command in steps.items()}
        taken = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
    ratio = measured["fit"]["cpu_seconds"] / measured["plain loop"]["cpu_seconds"]
    return {"part": "files", "n": n, "side": [WIDE, HIGH], "cost": measured, "ratio": ratio, "cache_bytes": taken}


def loop_command(folder: Path) -> list[str]:
    return [sys.executable, __file__, "--loop", str(folder)]


def plain_loop(folder: Path) -> None:
    """What anybody would write: decode, resize and embed one image after the other."""
    backbone = open_backbone(PHOTOS, "cpu")
    for path in sorted(folder.rglob("*.jpg")):
        with Image.open(path) as image:
            backbone.embed([backbone.prepare(np.asarray(image.convert("RGB")))])


def make_photos(folder: Path, n: int, n_labeled: int = 40) -> None:
    """Smooth color noise around a color of each of four classes, in turn; the first ones are labeled."""
    draws = np.random.default_rng(0)
    colors = draws.integers(60, 200, (4, 3))
    for i in range(n):
        small = np.clip(colors[i % 4] + draws.normal(0, 40, (24, 32, 3)), 0, 255).astype(np.uint8)
        path = folder / (f"class{i % 4}" if i < n_labeled else "unlabeled") / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(small).resize((WIDE, HIGH), Image.Resampling.BICUBIC).save(path, quality=85)


def cost(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """A process's CPU seconds and its largest memory in GB."""
    began = time.monotonic()
    process = subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)} ended with status {status}")
    return {
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "seconds": round(time.monotonic() - began, 1),
        "gigabytes": round(used.ru_maxrss * 1024 / 1e9, 2),
    }


def cells(seeds: int) -> Iterator[Cell]:
    for seed in range(seeds):
        yield Cell("cifar10", 4, 40, seed)
        for n in (1, 4, 10, 40):
            yield Cell("cifar10", 10, n, seed)
            yield Cell("descriptions, minilm", SECTIONS, n, seed)
            yield Cell("descriptions, tfidf", SECTIONS, n, seed)
        for n in (4, 10):
            yield Cell("digits", 10, n, seed)


def write(arguments: argparse.Namespace, done: list[dict[str, Any]]) -> None:
    """The result file, with the rows in one order."""
    if arguments.out is None:
        return
    rows = sorted(done, key=lambda row: [str(row.get(key, "")).zfill(4) for key in ("part", *Cell._fields)])
    settings = {"benchmark": "backbones", "seeds": arguments.seeds, "pool": POOL, "test": TEST}
    content = settings | provenance(torch.device("cpu")) | {"rows": rows}
    write_atomic(arguments.out, (json.dumps(content, indent=1) + "\n").encode())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--data", type=Path, help="folder of CIFAR-10")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--workers", type=int, default=1, help="processes of one thread each")
    options.add_argument("--features", type=Path, default=Path("runs/benchmarks/features"), help="folder to keep them")
    options.add_argument("--parts", default="accuracy,rate,files")
    options.add_argument("--fast", action="store_true", help="few updates and files, to see that it runs")
    options.add_argument("--progress", type=Path, default=Path("runs/benchmarks/backbones.jsonl"))
    options.add_argument("--out", type=Path)
    options.add_argument("--loop", type=Path, help=argparse.SUPPRESS)
    arguments = options.parse_args()
    torch.set_num_threads(1)
    if arguments.loop:
        plain_loop(arguments.loop)
        return
    arguments.progress.parent.mkdir(parents=True, exist_ok=True)
    lines = arguments.progress.read_text().splitlines() if arguments.progress.exists() else []
    done: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def keep(measured: dict[str, Any]) -> None:
        done.append(measured)
        with arguments.progress.open("a") as file:
            file.write(json.dumps(measured) + "\n")
        print(json.dumps(measured), flush=True)

    parts = arguments.parts.split(",")
    # first, while this process is small: Linux starts a child's largest memory at that of its parent
    if "files" in parts and not any(d["part"] == "files" for d in done):
        keep(files(60 if arguments.fast else PHOTO_FILES))
    if "rate" in parts and not any(d["part"] == "rate" for d in done):
        keep(rate())
    if "accuracy" in parts:
        have = {tuple(d[key] for key in Cell._fields) for d in done if d["part"] == "accuracy"}
        missing = [cell for cell in cells(arguments.seeds) if cell not in have]
        for data in dict.fromkeys(cell.data for cell in missing):
            load(data, arguments.data, arguments.features)  # once, before the processes read it
        measure = partial(
            accuracies, cifar=arguments.data, kept=arguments.features, steps=30 if arguments.fast else None
        )
        os.environ["OMP_NUM_THREADS"] = "1"  # for the processes, before they import NumPy
        with multiprocessing.get_context("spawn").Pool(arguments.workers) as pool:
            for i, measured in enumerate(pool.imap_unordered(measure, missing), 1):
                keep(measured)
                if i % WRITE_EVERY == 0:
                    write(arguments, done)
    write(arguments, done)


if __name__ == "__main__":
    main()
