"""Writes a folder of shards, completely or not at all."""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ict.base.errors import UserError
from ict.base.fields import positive
from ict.base.files import remove_leftovers, temporary_beside, write_json
from ict.data.dataset import Dataset
from ict.data.shards import DTYPES, FORMAT, INDEX, SUBSETS, digest

Block = tuple[NDArray[Any], NDArray[np.int64]]
"""Some examples [n, C, H, W] or [n, F], and their labels, -1 where unknown."""


def write_shards(out: Path, subsets: Mapping[str, Iterable[Block]], classes: Iterable[str], size: int) -> str:
    """Write blocks of "train" and "test" examples, one in memory at a time, as shards of at most `size` examples.

    Returns a summary.
    """
    positive(size=size)
    index: dict[str, Any] = {"format": FORMAT, "shape": [], "dtype": "", "classes": list(classes)}
    with _whole_folder(out) as folder:
        for subset in SUBSETS:
            index[subset] = []
            for x, y in subsets.get(subset, ()):
                if x.dtype.name not in DTYPES:
                    raise UserError(f"the examples are {x.dtype}: shards hold {' or '.join(DTYPES)}.")
                kind = {"shape": list(x.shape[1:]), "dtype": x.dtype.name}
                if index["dtype"] and kind != {key: index[key] for key in kind}:
                    raise UserError(f"a block holds {kind['dtype']} {kind['shape']}, others do not: make them alike.")
                index |= kind
                for start in range(0, len(x), size):
                    cut = slice(start, start + size)
                    index[subset].append(_write(folder, f"{subset}-{len(index[subset]):05d}", x[cut], y[cut]))
        if not index["train"]:
            raise UserError("there is no training example to write.")
        write_json(folder / INDEX, index)
    counts = {subset: sum(entry["count"] for entry in index[subset]) for subset in SUBSETS}
    shape = "x".join(map(str, index["shape"]))
    return (
        f"{out}: {counts['train']:,} training and {counts['test']:,} test examples of {shape} {index['dtype']} "
        f"in {len(index['classes'])} classes, {sum(len(index[subset]) for subset in SUBSETS)} shards"
    )


def shard_dataset(data: Dataset, out: Path, size: int) -> str:
    """Write a registered dataset with its test examples. The split later decides which rows are labeled."""
    blocks = {
        subset: [(examples.x.numpy(), examples.y.numpy())]
        for subset, examples in (("train", data.train), ("test", data.test))
    }
    return write_shards(out, blocks, data.classes, size)


def _write(folder: Path, name: str, x: NDArray[Any], y: NDArray[np.int64]) -> dict[str, Any]:
    files = {"x": folder / f"{name}-x.npy", "y": folder / f"{name}-y.npy"}
    np.save(files["x"], x)
    np.save(files["y"], y.astype(np.int64, copy=False))
    names = {key: path.name for key, path in files.items()}
    return {"count": len(x), **names, **{f"{key}_sha256": digest(path) for key, path in files.items()}}


@contextmanager
def _whole_folder(out: Path) -> Iterator[Path]:
    """A temporary folder beside `out`. At the end it is renamed to `out`, or deleted after an error."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists already: name another folder.")
    temporary = temporary_beside(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(out.parent)
        temporary.mkdir()
        yield temporary
        temporary.replace(out)
    except OSError as problem:
        raise UserError(f"cannot write to {out} ({problem.strerror}): name another folder.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
