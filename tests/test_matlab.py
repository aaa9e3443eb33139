"""MATLAB files against scipy, which writes them, and files that lie about what they hold."""

import resource
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from ict.base.errors import UserError
from ict.base.reading import RATIO, UNPACKED, reading
from ict.data.matlab import matlab_variables

KINDS = [f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)] + ["f4", "f8"]


def load(path: Path) -> dict[str, Any]:
    return {name: variable.load() for name, variable in matlab_variables(path).items()}


@pytest.mark.parametrize("compressed", [True, False])
def test_arrays_of_every_kind_are_those_that_scipy_wrote(tmp_path: Path, compressed: bool) -> None:
    rng = np.random.default_rng(0)
    arrays = {f"a_{kind}": rng.integers(0, 100, (3, 4, 5)).astype(kind) for kind in KINDS}
    arrays |= {"one": np.array([[7.0]]), "none": np.empty((0, 3)), "large": rng.normal(size=(300, 40))}
    others = {"text": "hello", "cell": np.array([1, "two"], dtype=object), "complex": np.array([[1j]])}
    savemat(tmp_path / "a.mat", {**arrays, **others}, do_compression=compressed)
    found = load(tmp_path / "a.mat")
    assert found.keys() == arrays.keys(), "what is no array of real numbers is left out"
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_the_other_byte_order(tmp_path: Path) -> None:
    def part(kind: int, data: bytes) -> bytes:
        return struct.pack(">II", kind, len(data)) + data + bytes(-len(data) % 8)

    numbers = struct.pack(">6h", 1, -2, 3, -4, 5, -6)
    body = part(6, struct.pack(">II", 10, 0)) + part(5, struct.pack(">2i", 2, 3)) + part(1, b"abcde") + part(3, numbers)
    (tmp_path / "a.mat").write_bytes(bytes(124) + struct.pack(">H", 0x0100) + b"MI" + part(14, body))
    np.testing.assert_array_equal(load(tmp_path / "a.mat")["abcde"], np.array([[1, 3, 5], [-2, -4, -6]], np.int16))


@pytest.mark.parametrize("compressed", [True, False])
def test_no_change_of_a_byte_ends_in_anything_but_arrays_or_a_sentence(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / "a.mat"
    savemat(
        path, {"X": np.arange(24, dtype=np.uint8).reshape(2, 3, 4), "y": np.ones((4, 1))}, do_compression=compressed
    )
    whole = path.read_bytes()
    refused = 0
    for place in range(124, len(whole)):
        for value in (0, 0xFF, whole[place] ^ 0x10):
            path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
            try:
                with reading(path, "a file"):
                    load(path)
            except UserError:
                refused += 1
    assert refused > 100, "the changes reached the parser"


@pytest.mark.parametrize("end", [0, 50, 127, 130, 136, 150, 190, -1, -8])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, end: int) -> None:
    path = tmp_path / "a.mat"
    savemat(path, {"X": np.arange(240, dtype=np.uint8).reshape(2, 30, 4)})
    path.write_bytes(path.read_bytes()[:end])
    with pytest.raises(UserError), reading(path, "a file"):
        load(path)


def test_damage_within_compressed_numbers_fails_the_checksum(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    noise = np.random.default_rng(0).integers(0, 256, (10, 100), np.uint8)
    savemat(path, {"X": noise}, do_compression=True)
    content = bytearray(path.read_bytes())
    content[600] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match="incorrect data check"), reading(path, "a file"):
        load(path)


def test_a_bomb_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    n = 1_100_000  # images of 32 x 32 x 3: 3.4 GB
    head = (
        (struct.pack("<II", 6, 8) + struct.pack("<II", 9, 0))
        + (struct.pack("<II", 5, 16) + struct.pack("<4i", 32, 32, 3, n))
        + (struct.pack("<HH", 1, 1) + b"X\0\0\0")
        + struct.pack("<II", 2, 3072 * n)
    )
    pack = zlib.compressobj(1)
    packed = pack.compress(struct.pack("<II", 14, len(head) + 3072 * n) + head + bytes(1_000_000)) + pack.flush()
    path = tmp_path / "a.mat"
    path.write_bytes(bytes(124) + struct.pack("<H", 0x0100) + b"IM" + struct.pack("<II", 15, len(packed)) + packed)
    assert path.stat().st_size * RATIO < UNPACKED < 3072 * n
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match=r"unpacks to 3,379,200,056 bytes, more than .*: save it without compression"):
        load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes
