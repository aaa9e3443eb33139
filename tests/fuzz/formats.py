"""Every format that is read: how to make a valid sample of it, and what reads it."""

import hashlib
import importlib
import json
import os
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from scipy.io import savemat

from ict import SemiSupervisedClassifier, load
from ict.backbones import hf_folder, onnx_backbone, open_backbone, timm_network
from ict.backbones.embedder import Embedder
from ict.backbones.preparation import Pixels, Preparation, from_json
from ict.base.errors import UserError
from ict.base.files import read_json
from ict.data import DATASETS, cifar10
from ict.data.array_inputs import ArrayInputs
from ict.data.user.answers import HEADER, Answer, AnswerKind, as_lines
from ict.data.user.read import read_data, stream_data
from ict.data.user.records import digest
from ict.data.write_shards import write_shards
from ict.engine import checkpoint
from ict.experiment.run import evaluate, train
from ict.experiment.run_folder import Folder
from ict.fit.earlier import read_earlier
from ict.fit.predict import predict_files
from ict.label.log import AnswerLog
from ict.label.session import Session
from ict.models.saved_model import SavedModel, load_model, save_model
from ict.models.trained_network import TrainedNetwork
from ict.models.used_backbone import UsedBackbone
from ict.networks import NETWORKS
from ict.paper.table import find_results
from ict.recipes import find
from ict.recipes.recipe import change
from tests.tiny import BACKBONE

_SETTINGS = ("train.steps=4", "eval.every=2", "eval.log_every=1", "dataset.n=30", "train.unlabeled_batch=8")


@dataclass(frozen=True)
class Format:
    """`make` writes a sample into a folder, `read` reads it; `finish` comes between damage and reading."""

    make: Callable[[Path], None]
    read: Callable[[Path], Any]
    finish: Callable[[Path], None] = lambda _: None
    damaged: str = "**/*"  # the files that are damaged


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _pixels(*shape: int) -> Any:
    return _rng().integers(0, 256, shape, np.uint8)


# --- official datasets ---


def _cifar_binary(folder: Path) -> None:
    (folder / "cifar-10-batches-bin").mkdir()
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        records = np.concatenate([np.array([[1], [2], [3]], np.uint8), _pixels(3, 3072)], axis=1)
        (folder / "cifar-10-batches-bin" / f"{name}.bin").write_bytes(records.tobytes())


def _cifar_pickle(folder: Path) -> None:
    import pickle

    (folder / "cifar-10-batches-py").mkdir()
    for i, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        content = {b"data": _pixels(3, 3072), b"labels": [1, 2, 3], b"filenames": [b"a.png"] * 3}
        (folder / "cifar-10-batches-py" / name).write_bytes(pickle.dumps(content, (2, 3, 4)[i % 3]))


def _read_cifar(folder: Path) -> None:
    cifar10.RECORDS = 3  # where the official files have 10,000
    DATASETS["cifar10"](folder, 0)


def _matlab(folder: Path) -> None:
    for name, n, packed in (("train", 3, False), ("test", 2, True)):
        content = {"X": _pixels(32, 32, 3, n), "y": np.arange(1, n + 1, dtype=np.uint8)[:, None]}
        savemat(folder / f"{name}_32x32.mat", content, do_compression=packed)


def _shards(folder: Path) -> None:
    x, y = _pixels(5, 1, 4, 4), np.array([0, 1, 0, 1, -1])
    write_shards(folder / "shards", {"train": [(x, y)], "test": [(x[:2], y[:2])]}, ["a", "b"], 3)


# --- a user's own data ---


def _images(folder: Path) -> None:
    for label in ("a", "b"):
        (folder / "data" / label).mkdir(parents=True)
        for i, kind in enumerate(("png", "jpg", "bmp", "gif", "tif", "webp")):
            Image.fromarray(_pixels(9, 8, 3)).save(folder / "data" / label / f"{i}.{kind}")


def _image_labels(folder: Path) -> None:
    (folder / "data").mkdir()
    for i in range(3):
        Image.fromarray(_pixels(8, 8)).save(folder / "data" / f"{i}.png")
    (folder / "labels.csv").write_text('path,label,other\n0.png,a,1\n"1.png",b,2\n./2.png,,3\n')


def _table(_: Path) -> Any:
    pandas: Any = importlib.import_module("pandas")
    return pandas.DataFrame({"a": [1.0, 2, 3], "b": [4, 5, 6], "c": [True, False, True], "label": ["x", "y", None]})


def _columns(folder: Path) -> Any:
    """A table with a column of every kind, and gaps."""
    days = ["2024-02-29", "", "2031-07-01 12:00", "1999-01-01"]
    more = {"d": [1.5, None, 2, 3], "e": ["red", "", "blue", "red"], "f": days}
    table = _table(folder)
    return table.reindex(range(4)).fillna({"a": 4.0, "b": 7.0, "c": True}).assign(**more)


def _read_table(path: Path) -> None:
    data = read_data(path, skip_bad=True)
    for _ in stream_data(path, data.x.shape[1:], data.columns, skip_bad=True, table=data.table).chunks:
        pass


def _read_numbers(path: Path) -> None:
    read_data(path)
    for _ in stream_data(path, (3,), ("a", "b", "c"), skip_bad=False).chunks:
        pass


def _npz(folder: Path) -> None:
    np.savez(folder / "a.npz", x=_rng().normal(size=(4, 3)), y=np.array(["a", "b", "", "a"]))


def _npz_members(folder: Path) -> None:
    """Damaged before they are packed, so that the archive's checksums are right."""
    np.save(folder / "x.npy", _rng().normal(size=(4, 3)))
    np.save(folder / "y.npy", np.array([1, 2, -1, 1]))


def _pack(folder: Path) -> None:
    with zipfile.ZipFile(folder / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("x.npy", "y.npy"):
            archive.write(folder / name, name)


def _npy(folder: Path) -> None:
    np.save(folder / "a.npy", _rng().normal(size=(4, 3)).astype(np.float32))
    np.save(folder / "labels.npy", np.array(["a", "b", "a", "b"]))


def _array_labels(folder: Path) -> None:
    np.save(folder / "a.npy", _pixels(4, 5, 5))
    (folder / "labels.csv").write_text('label\n"a"\nb\n\nb\n')


def _answers(folder: Path) -> None:
    x = _pixels(4, 5, 5)
    np.save(folder / "a.npy", x)
    time = "2026-03-01T18:04:09.120Z"
    kinds: tuple[tuple[str, AnswerKind], ...] = (("a", "suggested"), ("b", "suggested"), ("a", "random"), ("", "skip"))
    lines = as_lines(Answer(f"row {i + 1}", label, time, kind, digest(x[i])) for i, (label, kind) in enumerate(kinds))
    (folder / "answers.csv").write_bytes(HEADER + lines)


def _answer_more(folder: Path) -> None:
    """Goes on where the file ends, as the labeling page does. What it writes must be readable."""
    names = [f"row {i + 1}" for i in range(8)]
    with AnswerLog(folder / "answers.csv") as log:
        session = Session(names, log, digest=lambda row: f"digest of {row}")
        open_rows = [row for row in range(len(names)) if not session.queue.is_closed(row)]
        session.answer(open_rows[:2], "a")
        session.undo()
        before = session.training(), session.checks()
    with AnswerLog(folder / "answers.csv") as log:
        again = Session(names, log)
        assert (again.training(), again.checks()) == before


def _next_file(folder: Path) -> None:
    """Beside class folders, and of rows."""
    _images(folder)
    (folder / "next.csv").write_text("rank;example;label;why\n1;a/0.png;a;\n2;data/b/1.jpg;b;new\n3;b/2.bmp;;\n")
    _table(folder).to_csv(folder / "rows.csv", index=False)
    (folder / "of-rows.csv").write_text("rank,example,label,why\n1,row 3,x,\n2,row 1,x,\n")


def _read_next_file(folder: Path) -> None:
    read_data(folder / "data", labels=folder / "next.csv", skip_bad=True)
    read_data(folder / "rows.csv", labels=folder / "of-rows.csv", skip_bad=True)


def _read_arrays(path: Path, **options: Any) -> None:
    read_data(path, **options)
    for _ in stream_data(path, (3,), (), skip_bad=True).chunks:
        pass


def _texts(folder: Path) -> None:
    for label in ("a", "b"):
        (folder / "data" / label).mkdir(parents=True)
        for i in range(2):
            (folder / "data" / label / f"{i}.txt").write_text(f"text {i} of {label} é")


def _text_table(folder: Path) -> None:
    (folder / "a.csv").write_text('text,label\n"one, two",x\nthree é,y\nfour,\n')


class _Lengths:
    """Stands in for a backbone of texts."""

    def texts(self, texts: Any, path: Path, progress: Any) -> Any:
        return np.array([[len(text)] for text in texts], np.float32)


def _embed() -> Any:
    return _Lengths()


def _weights(folder: Path) -> None:
    torch.save({"a": torch.ones(3), "b": torch.zeros(2, 2)}, folder / "a.pt")


def _preprocessing(folder: Path) -> None:
    settings = {"size": 9, "scale": 255, "mean": [0.5] * 3, "std": [0.2] * 3, "layout": "nchw"}
    (folder / "m.onnx.json").write_text(json.dumps(settings))


def _hugging_face(folder: Path) -> None:
    (folder / "config.json").write_text('{"max_position_embeddings": 20, "pad_token_id": 1}')
    (folder / "tokenizer.json").write_text("{}")


def _prepare(found: Preparation) -> None:
    """What becomes of an image or of token ids with these settings, and the settings written and read again."""
    items = [found.prepare(_pixels(9, 8, 3))] if isinstance(found, Pixels) else [np.array([1, 2]), np.array([3])]
    assert len(found.batch(items)) == len(items)
    assert from_json(found.to_json(), "itself") == found


def _cache(folder: Path) -> None:
    _images(folder)
    _read_cached(folder)


def _read_cached(folder: Path) -> None:
    _same_as_uncached(folder, skip_bad=True)


def _feature_cache(folder: Path) -> None:
    (folder / "data").mkdir()
    for name in ("a", "b", "c"):
        Image.fromarray(_pixels(8, 8, 3)).save(folder / "data" / f"{name}.png")
    _read_features(folder)


def _read_features(folder: Path) -> None:
    _same_as_uncached(folder, embed=Embedder(open_backbone(BACKBONE, "cpu")), beside=())


def _same_as_uncached(folder: Path, **options: Any) -> None:
    """A damaged entry of the cache never changes a result; nothing is cached in the data's own folder."""
    read = partial(read_data, folder / "data", **options)
    damaged, repaired = (_with_cache(folder / "cache", read) for _ in range(2))
    plain = _with_cache(folder / "data", read)
    assert damaged.names == repaired.names == plain.names
    assert np.array_equal(damaged.x, plain.x)
    assert np.array_equal(repaired.x, plain.x)


def _with_cache(place: Path, work: Callable[[], Any]) -> Any:
    before = os.environ.get("ICT_CACHE")
    os.environ["ICT_CACHE"] = str(place)
    try:
        return work()
    finally:
        os.environ.pop("ICT_CACHE")
        if before is not None:
            os.environ["ICT_CACHE"] = before


# --- what this program writes ---


def _recipe(folder: Path) -> None:
    content = change(find("moons/ict"), _SETTINGS).to_dict()
    (folder / "base.json").write_text(json.dumps(content))
    changes = {"base": "@/base.json", "train": {"steps": 5}, "network": {"name": "mlp", "width": 4}}
    (folder / "recipe.json").write_text(json.dumps(changes))


def _place(folder: Path) -> None:
    """The base is a path from the working folder, so the sample has @ for its own."""
    path = folder / "recipe.json"
    path.write_bytes(path.read_bytes().replace(b"@", os.fsencode(folder)))


def _read_recipe(folder: Path) -> None:
    recipe = change(find(str(folder / "recipe.json")), ())
    assert recipe.hash


def _run(folder: Path) -> None:
    train(find("moons/ict"), settings=_SETTINGS, out=folder / "run", checkpoint_seconds=0)


def _interrupted(folder: Path) -> None:
    _run(folder)
    (folder / "run" / "result.json").unlink()
    for path in sorted((folder / "run").glob("checkpoint-*.pt"))[:-1]:
        path.unlink()


def _payload(folder: Path) -> None:
    """A checkpoint without its checksum, which is added after the damage."""
    _interrupted(folder)
    (path,) = (folder / "run").glob("checkpoint-*.pt")
    path.with_suffix(".payload").write_bytes(path.read_bytes()[len(checkpoint._MAGIC) + 32 :])


def _seal(folder: Path) -> None:
    (path,) = (folder / "run").glob("checkpoint-*.payload")
    content = path.read_bytes()
    path.with_suffix(".pt").write_bytes(checkpoint._MAGIC + hashlib.sha256(content).digest() + content)


def _resume(folder: Path) -> None:
    train(find("moons/ict"), settings=_SETTINGS, out=folder / "run", checkpoint_seconds=0, resume=True)


def _read_run(folder: Path) -> None:
    home = Folder(folder / "run")
    home.read_metrics()
    home.changed_at  # noqa: B018
    home.load_split()
    home.load_result()
    find_results(folder)
    evaluate(folder / "run")


def _model(folder: Path) -> None:
    torch.manual_seed(0)
    module = NETWORKS["mlp-wide"]((3,), 2, width=4).eval()
    recipe = {"network": {"name": "mlp-wide", "width": 4, "depth": 2, "dropout": 0.0}}
    inputs = ArrayInputs((3,), False, [0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    save_model(folder / "model", SavedModel(TrainedNetwork(module, 4, recipe, 0), inputs, ("a", "b")), {"n": 4})


def _sign(folder: Path) -> None:
    """The digests that fit the damaged weights, so that the damage reaches what reads them."""
    path = folder / "model" / "config.json"
    try:
        config, weights = json.loads(path.read_bytes()), (folder / "model" / "model.safetensors").read_bytes()
        config["sha256"]["tensors"] = hashlib.sha256(weights).hexdigest()
        path.write_text(json.dumps(config))
    except (ValueError, TypeError, KeyError, RecursionError):
        pass


def _table_model(folder: Path) -> None:
    _columns(folder).to_csv(folder / "a.csv", index=False)
    table = read_data(folder / "a.csv").table
    assert table is not None
    n = len(table.features)
    torch.manual_seed(0)
    module = NETWORKS["linear"]((n,), 2).eval()
    model = TrainedNetwork(module, 4, {"network": {"name": "linear"}}, 0)
    inputs = ArrayInputs((n,), False, [0.0] * n, [1.0] * n)
    save_model(folder / "model", SavedModel(model, inputs, ("a", "b"), table.features, table=table), {"n": 4})


def _read_table_model(folder: Path) -> None:
    predict_files(folder / "model", folder / "a.csv", folder / "p.csv", skip_bad=True)


def _read_model(folder: Path) -> None:
    load_model(folder / "model").predict_proba(np.zeros((2, 3), np.float32))


def _saved(folder: Path) -> None:
    """On features of a backbone of which there is no copy, described as a fit does it."""
    torch.manual_seed(0)
    network = TrainedNetwork(NETWORKS["linear"]((3,), 2).eval(), 4, {"network": {"name": "linear"}}, 0)
    inputs, used = ArrayInputs((3,), False, [0.0] * 3, [1.0] * 3), UsedBackbone.of(Embedder(open_backbone(BACKBONE)))
    fitted = SemiSupervisedClassifier("supervised", steps=2, device="cpu", random_state=0)
    fitted.fit(_rng().normal(size=(8, 3)), np.arange(8) % 2)
    model = SavedModel(network, inputs, ("1", "2"), backbone=used, class_type="int64")
    save_model(folder / "model", model, fitted._about)


def _load_saved(folder: Path) -> None:
    with suppress(UserError):  # the name that the folder gives is of code
        load(folder / "model")
    load(folder / "model", backbone=BACKBONE).predict(_pixels(2, 8, 8, 3))


def _earlier(folder: Path) -> None:
    measured = {"metric": "accuracy", "value": 0.5, "low": 0.1, "high": 0.9, "n": 2, "on": "held out in folds"}
    (folder / "config.json").write_text(json.dumps({"about": {"labels": {"a": 1, "b": 1}, "measured": measured}}))
    lines = ["example,label,guess,p(label),digest", "row 1,a,a,0.750000,5f0c", "row 2,b,a,0.250000,77aa"]
    (folder / "held_out.csv").write_text("\n".join(lines) + "\n")


FORMATS: dict[str, Format] = {
    "cifar-binary": Format(_cifar_binary, _read_cifar),
    "cifar-pickle": Format(_cifar_pickle, _read_cifar),
    "matlab": Format(_matlab, lambda folder: DATASETS["svhn"](folder, 0)),
    "shards": Format(_shards, lambda folder: DATASETS["shards"](folder / "shards", 0, verify=False).train.x[:]),
    "images": Format(_images, lambda folder: read_data(folder / "data", skip_bad=True)),
    "image-labels": Format(
        _image_labels, lambda f: read_data(f / "data", labels=f / "labels.csv"), damaged="labels.csv"
    ),
    "csv": Format(lambda f: _table(f).to_csv(f / "a.csv", index=False), lambda f: _read_numbers(f / "a.csv")),
    "csv-columns": Format(lambda f: _columns(f).to_csv(f / "a.csv", index=False), lambda f: _read_table(f / "a.csv")),
    "parquet": Format(lambda f: _table(f).to_parquet(f / "a.parquet"), lambda f: _read_numbers(f / "a.parquet")),
    "parquet-columns": Format(
        lambda f: _columns(f).to_parquet(f / "a.parquet"), lambda f: _read_table(f / "a.parquet")
    ),
    "npy": Format(_npy, lambda f: _read_arrays(f / "a.npy", labels=f / "labels.npy")),
    "npz": Format(_npz, lambda f: _read_arrays(f / "a.npz")),
    "npz-members": Format(_npz_members, lambda f: _read_arrays(f / "a.npz"), _pack),
    "array-labels": Format(
        _array_labels, lambda f: read_data(f / "a.npy", labels=f / "labels.csv"), damaged="labels.csv"
    ),
    "answers": Format(
        _answers, lambda f: read_data(f / "a.npy", labels=f / "answers.csv", skip_bad=True), damaged="answers.csv"
    ),
    "answers-continued": Format(_answers, _answer_more, damaged="answers.csv"),
    "next-file": Format(_next_file, _read_next_file, damaged="next.csv"),
    "next-file-rows": Format(_next_file, _read_next_file, damaged="of-rows.csv"),
    "texts": Format(_texts, lambda f: read_data(f / "data", embed=_embed())),
    "text-table": Format(_text_table, lambda f: read_data(f / "a.csv", text_column="text", embed=_embed())),
    "cache": Format(_cache, _read_cached, damaged="cache/**/*"),
    "feature-cache": Format(_feature_cache, _read_features, damaged="cache/**/*"),
    "weights": Format(_weights, lambda f: timm_network._weights(f / "a.pt")),
    "preprocessing": Format(
        _preprocessing, lambda f: _prepare(onnx_backbone._preparation(f / "m.onnx", {})[0]), damaged="*.json"
    ),
    "hf-folder": Format(
        _hugging_face, lambda f: _prepare(hf_folder._preparation(f, read_json(f / "config.json"))), damaged="*.json"
    ),
    "recipe": Format(_recipe, _read_recipe, _place),
    "model": Format(_model, _read_model),
    "model-signed": Format(_model, _read_model, _sign),
    "model-table": Format(_table_model, _read_table_model, damaged="model/*"),
    "saved": Format(_saved, _load_saved),
    "earlier": Format(_earlier, read_earlier),
    "run": Format(_run, _read_run),
    "interrupted": Format(_interrupted, _resume),
    "checkpoint": Format(_payload, _resume, _seal, damaged="run/*.payload"),
}
