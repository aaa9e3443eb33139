"""Arrays in .npy and .npz files. Nothing is ever unpickled: that could run any code."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ict.base.errors import UserError
from ict.base.reading import check_file, check_unpacked, reading

_ADVICE = "save it again with numpy.save or savez"
_ARRAY, _ARCHIVE = b"\x93NUMPY", b"PK"  # how files begin


def load_npy(path: Path, advice: str = _ADVICE) -> NDArray[Any]:
    """The array in a .npy, memory-mapped."""
    check_file(path)
    with _numpy(path, advice):
        _check_start(path, _ARRAY)
        loaded: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        return loaded


def load_npz(path: Path, names: Collection[str]) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """The arrays of a .npz that have one of these names, and the names of all."""
    check_file(path)
    with _numpy(path):
        _check_start(path, _ARCHIVE)
        # opened here: numpy forgets to close a file that turns out to be damaged
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            members = [member for member in archive.zip.infolist() if member.filename.removesuffix(".npy") in names]
            size = sum(member.file_size for member in members)
            check_unpacked(path, size, "save it by numpy.savez, which does not compress")
            arrays = {name: archive[name] for name in archive.files if name in names}
            if not all(isinstance(array, np.ndarray) for array in arrays.values()):
                raise ValueError("a member is no array")
            return arrays, list(archive.files)


@contextmanager
def _numpy(path: Path, advice: str = _ADVICE) -> Iterator[None]:
    with reading(path, "a NumPy file", advice):
        try:
            yield
        except ValueError as problem:  # such as "Object arrays cannot be loaded" and "Python objects in dtype"
            if "bject" not in str(problem):
                raise
            raise UserError(
                f"{path} holds Python objects, which are not read because they can run code: "
                "save arrays of numbers or texts."
            ) from None


def _check_start(path: Path, start: bytes) -> None:
    """Numpy takes anything else for a pickle."""
    with path.open("rb") as file:
        if file.read(len(start)) != start:
            raise ValueError("it begins otherwise")
