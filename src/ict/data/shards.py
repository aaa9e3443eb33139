"""Data larger than memory: a folder of shards. Each is an array in a memory-mapped file, read when it is used.

index.json contains the shape of an example, the classes, and for each shard its files, their hashes and the number of
examples. `write_shards` writes such folders.
"""

import hashlib
import reprlib
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ict.base.errors import UserError
from ict.base.fields import positive
from ict.base.files import read_json
from ict.base.reading import check_file, reading
from ict.data.dataset import Dataset, Examples
from ict.data.labels import UNLABELED
from ict.data.numpy_file import load_npy

FORMAT = "ict shards 1"
INDEX = "index.json"
SUBSETS = ("train", "test")
_ADVICE = "write the folder again with `ict shard`"
DTYPES = ("uint8", "float32")


class Shards:
    """Examples in several arrays; only batches of them are copied. It replaces a tensor in host memory wherever
    examples are only indexed, split or moved to a device."""

    device = torch.device("cpu")

    def __init__(self, arrays: list[NDArray[Any]], shape: tuple[int, ...], dtype: str) -> None:
        self.arrays = arrays
        self.starts = np.cumsum([0, *map(len, arrays)])  # of each shard, and where the last one ends
        self.shape = torch.Size((int(self.starts[-1]), *shape))
        self.dtype: torch.dtype = getattr(torch, dtype)
        self.nbytes = prod(self.shape) * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return prod(self.shape)

    def __getitem__(self, rows: int | slice | Tensor) -> Tensor:
        if isinstance(rows, int):
            return self[torch.tensor([rows])][0]
        if isinstance(rows, slice):
            rows = torch.arange(len(self))[rows]
        return self.take(rows, torch.empty((len(rows), *self.shape[1:]), dtype=self.dtype))

    def take(self, rows: Tensor, out: Tensor) -> Tensor:
        """Copy the examples of these rows into `out`."""
        wanted, target = rows.numpy(), out.numpy()
        shard_of = np.searchsorted(self.starts, wanted, side="right") - 1
        for shard in np.unique(shard_of):
            here = np.flatnonzero(shard_of == shard)
            target[here] = self.arrays[shard][wanted[here] - self.starts[shard]]
        return out

    def split(self, size: int) -> Iterator[Tensor]:
        for start in range(0, len(self), size):
            yield self[start : start + size]

    def to(self, device: torch.device) -> "Shards | Tensor":
        """All examples on a device, copied with one shard at a time in the host's memory."""
        if device == self.device:
            return self
        there = torch.empty(self.shape, dtype=self.dtype, device=device)
        for start, array in zip(self.starts, self.arrays, strict=False):
            there[start : start + len(array)] = torch.from_numpy(np.array(array))
        return there


@dataclass(frozen=True)
class WindowOrder:
    """A random order that reads few shards at a time: shards are shuffled, then rows within a window."""

    starts: Tensor  # of the shards
    window: int

    def __call__(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        place = torch.randperm(len(self.starts), generator=generator)  # of each shard
        shard_of = torch.searchsorted(self.starts, rows, right=True) - 1
        rows = rows[torch.argsort(place[shard_of], stable=True)]
        return torch.cat([part[torch.randperm(len(part), generator=generator)] for part in rows.split(self.window)])


def shards(
    folder: Path | None,
    seed: int,  # noqa: ARG001
    *,
    path: str | None = None,
    window: int = 65_536,
    verify: bool = False,
) -> Dataset:
    """The shards in `path`, or else in the data folder. `window`: how many consecutive rows are shuffled together, so
    that reading stays local. `verify`: read everything once and compare it with the hashes."""
    positive(window=window)
    home = Path(path) if path is not None else folder
    if home is None:
        raise UserError("shards needs a folder: pass --data-dir DIR or set dataset.path, filled by `ict shard`.")
    index = _index(home)
    subsets = {subset: _examples(home, index, subset, verify) for subset in SUBSETS}
    starts = subsets["train"][0].starts[:-1]
    train, test = (Examples(cast(Tensor, x), y) for x, y in subsets.values())
    order = WindowOrder(torch.from_numpy(starts), window)
    return Dataset(train, test, tuple(index["classes"]), order=order)


def _index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    if not path.is_file():
        raise UserError(f"{folder} holds no shards: there is no {INDEX} in it; write them with `ict shard`.")
    index = read_json(path)
    if index.get("format") != FORMAT:
        raise _bad(path, f"the format '{FORMAT}'", reprlib.repr(index.get("format")))
    shape, classes = index.get("shape") or [], index.get("classes")
    if not _counts(shape) or len(shape) not in (1, 3):
        raise _bad(path, "a shape [F] or [C, H, W]", reprlib.repr(shape))
    if index.get("dtype") not in DTYPES:
        raise _bad(path, f"a dtype among {', '.join(DTYPES)}", reprlib.repr(index.get("dtype")))
    if not isinstance(classes, list) or not classes or not all(isinstance(name, str) for name in classes):
        raise _bad(path, "a list of classes", reprlib.repr(classes))
    for subset in SUBSETS:
        listed = index.get(subset)
        if not isinstance(listed, list) or not all(_is_shard(entry) for entry in listed):
            raise _bad(path, f"a list of shards under '{subset}'", reprlib.repr(listed))
    if not index["train"]:
        raise _bad(path, "at least one shard under 'train'", "none")
    return index


def _counts(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and all(type(n) is int and n > 0 for n in values)


def _is_shard(entry: Any) -> bool:
    """Whether an entry is valid, with file names that stay in the folder."""
    if not isinstance(entry, dict) or not _counts([entry.get("count")]):
        return False
    texts = [entry.get(key) for key in ("x", "y", "x_sha256", "y_sha256")]
    return all(isinstance(text, str) and Path(text).name == text for text in texts)


def _examples(folder: Path, index: dict[str, Any], subset: str, verify: bool) -> tuple[Shards, Tensor]:
    shape, dtype, lowest = tuple(index["shape"]), index["dtype"], UNLABELED if subset == "train" else 0
    arrays, labels = [], [np.empty(0, np.int64)]
    for entry in index[subset]:
        x, y = folder / entry["x"], folder / entry["y"]
        if verify:
            for file, expected in ((x, entry["x_sha256"]), (y, entry["y_sha256"])):
                if (actual := digest(file)) != expected:
                    raise _bad(file, f"the SHA-256 {expected[:12]}...", f"{actual[:12]}...")
        arrays.append(_array(x, dtype, (entry["count"], *shape)))
        labels.append(np.array(_array(y, "int64", (entry["count"],))))
        wrong = labels[-1][(labels[-1] < lowest) | (labels[-1] >= len(index["classes"]))]
        if wrong.size:
            raise _bad(y, f"labels {lowest} to {len(index['classes']) - 1}", f"{wrong[0]}")
    return Shards(arrays, shape, dtype), torch.from_numpy(np.concatenate(labels))


def _array(path: Path, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    if not path.exists():
        raise _bad(path, "a shard", "no file")
    array = load_npy(path, _ADVICE)
    if array.dtype != dtype or array.shape != shape:
        raise _bad(path, f"{dtype} {list(shape)}", f"{array.dtype} {list(array.shape)}")
    return array


def digest(path: Path) -> str:
    check_file(path)
    with reading(path, "a shard", _ADVICE), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _bad(path: Path, expected: str, found: str) -> UserError:
    return UserError(f"{path}: expected {expected}, found {found}; {_ADVICE}.")
