"""Street View House Numbers from the official .mat files; `download` has their addresses."""

import warnings
from pathlib import Path

import numpy as np
import torch

from ict.base.errors import UserError
from ict.base.reading import reading
from ict.data.dataset import Dataset, Examples
from ict.data.download import SOURCES, md5
from ict.data.matlab import matlab_variables

KIND = "a MATLAB 5 file"


def svhn(folder: Path | None, seed: int) -> Dataset:  # noqa: ARG001
    """73,257 training and 26,032 test images of 32x32 pixels, cropped around one digit."""
    if folder is None:
        raise UserError("svhn needs a folder: pass --data-dir DIR or set ICT_DATA, filled by `ict data svhn DIR`.")
    train, test = (_examples(folder / f"{subset}_32x32.mat") for subset in ("train", "test"))
    if len(train) < len(test):
        raise _bad(folder / "train_32x32.mat", f"more images than in test_32x32.mat ({len(test)})", f"{len(train)}")
    return Dataset(train, test, classes=tuple("0123456789"))


def _examples(path: Path) -> Examples:
    if not path.is_file():
        raise _bad(path, KIND, "no file")
    advice = f"get it with `ict data svhn {path.parent}`"
    with reading(path, KIND, advice):
        variables = matlab_variables(path)
    if not {"X", "y"} <= variables.keys():
        raise _bad(path, "variables X and y", ", ".join({"X", "y"} & variables.keys()) or "neither")
    x, y = variables["X"], variables["y"]
    if x.dtype != np.uint8 or len(x.shape) != 4 or x.shape[:3] != (32, 32, 3) or x.shape[3] == 0:
        raise _bad(path, "X as uint8 (32, 32, 3, N)", f"{x.dtype} {x.shape}")
    if y.shape != (x.shape[3], 1):
        raise _bad(path, f"y as numbers ({x.shape[3]}, 1)", f"{y.dtype} {y.shape}")
    with reading(path, KIND, advice):
        pixels, numbers = x.load(), y.load()[:, 0]
    wrong = numbers[~np.isin(numbers, np.arange(1, 11))]
    if wrong.size:
        raise _bad(path, "labels 1 to 10", f"{wrong[0]}")
    images = np.ascontiguousarray(pixels.transpose(3, 2, 0, 1))
    labels = numbers.astype(np.int64) % 10  # 10 stands for the digit 0
    _warn_of_another(path)
    return Examples(torch.from_numpy(images), torch.from_numpy(labels))


def _warn_of_another(path: Path) -> None:
    """Warn about a file with another hash. It is used all the same, since a rebuilt file may hold the same images."""
    if md5(path) not in {source.md5 for source in SOURCES["svhn"]}:
        warnings.warn(f"{path} is not the official file: results may differ from those with it.", stacklevel=2)


def _bad(path: Path, expected: str, found: str) -> UserError:
    return UserError(f"{path}: expected {expected}, found {found}; get it with `ict data svhn {path.parent}`.")
