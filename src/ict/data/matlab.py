"""Reads arrays of real numbers from a MATLAB 5 file (`save -v6` or `-v7`); datasets contain nothing else.

Every size in the file is checked against its actual bytes before memory is allocated. A damaged file raises
ValueError, struct.error, KeyError or zlib.error: callers use `reading`.
"""

import struct
import zlib
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ict.base.reading import check_file, check_unpacked

_HEADER = 128
_START = 4096  # bytes at the start of a variable that hold its class, shape and name
_CHUNK = 1 << 20
_MATRIX, _COMPRESSED = 14, 15
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_COMPLEX = 0x0800


class Variable(NamedTuple):
    """A variable; its numbers stay in the file until `load`."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    stored: np.dtype[Any]  # whole numbers take as few bytes as they need, whatever their class
    path: Path
    order: str  # of bytes, < or >
    start: int  # of the variable in the file
    skip: int  # bytes of it before its numbers

    def load(self) -> NDArray[Any]:
        """The array, in MATLAB's order: the first index changes fastest."""
        size = self.skip + prod(self.shape) * self.stored.itemsize
        check_unpacked(self.path, size, "save it without compression, with -v6")
        with self.path.open("rb") as file:
            body, _ = _body(file, self.start, self.order, size, whole=True)
        numbers = np.frombuffer(body, self.stored, prod(self.shape), self.skip)
        return numbers.astype(self.dtype, copy=False).reshape(self.shape, order="F")


def matlab_variables(path: Path) -> dict[str, Variable]:
    """The variables of a file that are arrays of real numbers."""
    size, start = check_file(path), _HEADER
    found: dict[str, Variable] = {}
    with path.open("rb") as file:
        order = _byte_order(file.read(_HEADER))
        while start < size:
            file.seek(start)
            kind, length = struct.unpack(f"{order}2I", file.read(8))
            if start + 8 + length > size:
                raise ValueError("it is cut off")
            if kind in (_MATRIX, _COMPRESSED) and (named := _variable(path, file, start, order)):
                found[named[0]] = named[1]
            start += 8 + length
    return found


def _byte_order(header: bytes) -> str:
    order = {b"IM": "<", b"MI": ">"}.get(header[126:])
    if order is None:
        raise ValueError("its header is another")
    (version,) = struct.unpack(f"{order}H", header[124:126])
    if version != 0x0100:
        raise ValueError("it is of MATLAB 7.3 (HDF5)" if version == 0x0200 else f"it has version {version:#x}")
    return order


def _variable(path: Path, file: IO[bytes], start: int, order: str) -> tuple[str, Variable] | None:
    """A variable and its name, or None if it holds something other than real numbers."""
    body, length = _body(file, start, order, _START)
    _, at, size = _part(body, 0, order)
    (flags,) = struct.unpack_from(f"{order}I", body, at)
    if flags & 0xFF not in _CLASSES or flags & _COMPLEX:
        return None
    _, at, size = _part(body, at + size, order)
    shape = struct.unpack_from(f"{order}{size // 4}i", body, at)
    _, at, size = _part(body, at + size, order)
    name = body[at : at + size].decode("ascii")
    kind, at, size = _part(body, at + size, order)
    stored = np.dtype(order + _STORED[kind])
    if min(shape) < 0 or prod(shape) * stored.itemsize != size or at + size > length:
        raise ValueError(f"the shape {shape} of {name} does not fit the {size} bytes of its numbers")
    return name, Variable(np.dtype(_CLASSES[flags & 0xFF]), shape, stored, path, order, start, at)


def _part(body: bytes | bytearray, end: int, order: str) -> tuple[int, int, int]:
    """Type, start and size of the part of a variable after `end`; up to 4 bytes stand in the tag itself."""
    start = end + -end % 8
    word, size = struct.unpack_from(f"{order}2I", body, start)
    return (word & 0xFFFF, start + 4, word >> 16) if word >> 16 else (word, start + 8, size)


def _body(file: IO[bytes], start: int, order: str, n: int, whole: bool = False) -> tuple[bytes | bytearray, int]:
    """The first `n` bytes of a variable after its tag, and how many it has; all of it if `whole`, checksum included."""
    file.seek(start)
    kind, length = struct.unpack(f"{order}2I", file.read(8))
    if kind == _MATRIX:
        return file.read(min(n, length)), length
    packed = _Packed(file, length)
    kind, inner = struct.unpack(f"{order}2I", packed.read(8))
    if kind != _MATRIX:
        raise ValueError("it holds something other than a variable")
    body = packed.read(min(n, inner))
    if whole:
        packed.read(min(inner - len(body), 8) + 1)  # the padding of the numbers; one more reaches the checksum
        if not packed.unpack.eof:
            raise ValueError("it is damaged")
    return body, inner


class _Packed:
    """A compressed run of a file."""

    def __init__(self, file: IO[bytes], length: int) -> None:
        self.file, self.left = file, length
        self.unpack = zlib.decompressobj()

    def read(self, n: int) -> bytearray:
        """The next `n` bytes, or fewer at the end."""
        out = bytearray()
        while len(out) < n and not self.unpack.eof:
            packed = self.unpack.unconsumed_tail
            if not packed:
                packed = self.file.read(min(_CHUNK, self.left))
                self.left -= len(packed)
            if not packed:
                break
            out += self.unpack.decompress(packed, n - len(out))
        return out
