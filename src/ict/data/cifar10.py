"""CIFAR-10 from its official files, binary or Python version; `download` has their address."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ict.base.errors import UserError
from ict.base.reading import check_file, reading
from ict.data.array_pickle import PickledArray, unpickled
from ict.data.dataset import Dataset, Examples

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
RECORDS = 10_000  # in each file
PIXELS = 3 * 32 * 32  # in each record: all of red, then green, then blue
LARGEST = 2 * RECORDS * PIXELS  # the most bytes of a file; official files have half as many

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
        check_file(path, LARGEST)
        return path.read_bytes()
    except (UserError, OSError) as problem:
        raise _bad(path, "one of the official files", f"none ({problem})".rstrip(".")) from None


def _parse_binary(raw: bytes, path: Path) -> Arrays:
    if len(raw) != RECORDS * (1 + PIXELS):
        raise _bad(path, f"{RECORDS * (1 + PIXELS)} bytes", f"{len(raw)}")
    records = np.frombuffer(raw, np.uint8).reshape(RECORDS, 1 + PIXELS)
    labels = records[:, 0].astype(np.int64)
    if labels.max() > 9:
        raise _bad(path, "labels 0 to 9", f"{labels.max()}")
    return records[:, 1:], labels


def _parse_pickle(raw: bytes, path: Path) -> Arrays:
    with reading(path, "a pickle of only byte arrays", f"get it with `ict data cifar10 {path.parent.parent}`"):
        batch = unpickled(raw)
    if not isinstance(batch, dict) or not {b"data", b"labels"} <= batch.keys():
        raise _bad(path, "a dict with data and labels", f"{type(batch).__name__} without them")
    images, labels = batch[b"data"], batch[b"labels"]
    if not isinstance(images, PickledArray) or images.bytes.shape != (RECORDS, PIXELS):
        found = f"{images.bytes.shape}" if isinstance(images, PickledArray) else type(images).__name__
        raise _bad(path, f"data of shape ({RECORDS}, {PIXELS})", found)
    if not isinstance(labels, list) or len(labels) != RECORDS:
        found = f"{len(labels)}" if isinstance(labels, list) else type(labels).__name__
        raise _bad(path, f"a list of {RECORDS} labels", found)
    wrong = [label for label in labels if type(label) is not int or not 0 <= label <= 9]
    if wrong:
        raise _bad(path, "labels 0 to 9", f"{wrong[0]}" if type(wrong[0]) is int else type(wrong[0]).__name__)
    return images.bytes, np.array(labels, dtype=np.int64)


def _bad(path: Path, expected: str, found: str) -> UserError:
    folder = path.parent.parent
    return UserError(f"{path}: expected {expected}, found {found}; get it with `ict data cifar10 {folder}`.")
