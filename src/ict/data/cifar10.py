"""CIFAR-10 from its official files, binary or Python version; see `download` for where they come from.

The Python version is a pickle, which could run any code, and even numpy's own part of it trusts what it reads
enough to crash. So nothing that a pickle names is called: stand-ins take the bytes of its arrays.
"""

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ict.base.errors import UserError
from ict.data.dataset import Dataset, Examples

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
RECORDS = 10_000  # in each file
PIXELS = 3 * 32 * 32  # in each record: all of red, then green, then blue

Arrays = tuple[NDArray[np.uint8], NDArray[np.int64]]


def cifar10(folder: Path | None, seed: int) -> Dataset:  # noqa: ARG001
    """50,000 training and 10,000 test images."""
    if folder is None:
        raise UserError(
            "cifar10 needs a folder: pass --data-dir DIR or set ICT_DATA, filled by `ict data cifar10 DIR`."
        )
    binary, pickled = folder / "cifar-10-batches-bin", folder / "cifar-10-batches-py"
    if binary.is_dir():
        batches, suffix, parse = binary, ".bin", _parse_binary
    elif pickled.is_dir():
        batches, suffix, parse = pickled, "", _parse_pickle
    else:
        raise UserError(
            f"{folder} has no {binary.name} and no {pickled.name}: get it with `ict data cifar10 {folder}`."
        )
    return Dataset(
        train=_examples([batches / f"data_batch_{i}{suffix}" for i in range(1, 6)], parse),
        test=_examples([batches / f"test_batch{suffix}"], parse),
        classes=CLASSES,
    )


def _examples(paths: list[Path], parse: Callable[[bytes, Path], Arrays]) -> Examples:
    parsed = [parse(_read(path), path) for path in paths]
    x = np.concatenate([images for images, _ in parsed]).reshape(-1, 3, 32, 32)
    y = np.concatenate([labels for _, labels in parsed])
    return Examples(torch.from_numpy(x), torch.from_numpy(y))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _bad(path, "a file", f"none that can be read ({error.strerror})") from None


def _parse_binary(raw: bytes, path: Path) -> Arrays:
    if len(raw) != RECORDS * (1 + PIXELS):
        raise _bad(path, f"{RECORDS * (1 + PIXELS)} bytes", f"{len(raw)}")
    records = np.frombuffer(raw, np.uint8).reshape(RECORDS, 1 + PIXELS)
    labels = records[:, 0].astype(np.int64)
    if labels.max() > 9:
        raise _bad(path, "labels 0 to 9", f"{labels.max()}")
    return records[:, 1:], labels


def _parse_pickle(raw: bytes, path: Path) -> Arrays:
    try:
        batch = _Unpickler(io.BytesIO(raw), encoding="bytes").load()
    except Exception as error:  # a damaged pickle can raise almost anything
        raise _bad(path, "a pickle of byte arrays alone", str(error) or type(error).__name__) from None
    if not isinstance(batch, dict) or not {b"data", b"labels"} <= batch.keys():
        raise _bad(path, "a dict with data and labels", f"{type(batch).__name__} without them")
    images, labels = batch[b"data"], batch[b"labels"]
    if not isinstance(images, _Array) or images.pixels.shape != (RECORDS, PIXELS):
        found = f"{images.pixels.shape}" if isinstance(images, _Array) else type(images).__name__
        raise _bad(path, f"data of shape ({RECORDS}, {PIXELS})", found)
    if not isinstance(labels, list) or len(labels) != RECORDS:
        found = f"{len(labels)}" if isinstance(labels, list) else type(labels).__name__
        raise _bad(path, f"a list of {RECORDS} labels", found)
    wrong = [label for label in labels if type(label) is not int or not 0 <= label <= 9]
    if wrong:
        raise _bad(path, "labels 0 to 9", f"{wrong[0]!r:.40}")
    return images.pixels, np.array(labels, dtype=np.int64)


class _Dtype:
    def __init__(self, name: Any, *_: Any) -> None:
        self.name = name

    def __setstate__(self, state: Any) -> None:
        """Byte order and the like, which bytes do not have."""


class _Array:
    pixels: NDArray[np.uint8] = np.empty(0, np.uint8)

    def __init__(self, *_: Any) -> None:
        """Pickles make an empty array first."""

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, by_columns, raw = state
        if dtype.name not in (b"u1", "u1") or by_columns:
            raise UserError("an array of something else than bytes in rows")
        self.pixels = np.frombuffer(raw, np.uint8).reshape(shape)


_STAND_INS = {
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise UserError(f"a reference to {module}.{name}")
        return _STAND_INS[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise UserError(f"a reference to an outside object {pid!r:.40}")


def _bad(path: Path, expected: str, found: str) -> UserError:
    folder = path.parent.parent
    return UserError(f"{path}: expected {expected}, found {found}; get it with `ict data cifar10 {folder}`.")
