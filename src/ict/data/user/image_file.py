"""Reads one image file: its header, or its pixels as a square of a given size.

An image is gray if its file has a gray mode, whatever its pixels. Of an animation or of several pages the first is
used.
"""

import hashlib
import importlib
import io
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from ict.base.errors import UserError
from ict.data.user.folder_files import GONE

_HEIC = (".heic", ".heif")
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", *_HEIC)
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP")  # no others: pillow runs other programs for some
GRAY = ("1", "L", "LA", "La", "I", "I;16", "I;16L", "I;16B", "I;16N")
LARGEST = 400_000_000  # bytes of a file: as many pixels as pillow takes, uncompressed
WORKERS = min(8, os.cpu_count() or 1)  # each holds one whole image in memory
_AT_ONCE = 256  # files given to the workers at once, to bound the memory of their results

Pixels = NDArray[np.uint8]
Answer = TypeVar("Answer")


class _Bad(Exception):
    """The reason why a file cannot be used."""


@dataclass(frozen=True)
class Header:
    sides: tuple[int, int]
    gray: bool
    digest: bytes  # of the file's bytes


def header(path: Path, root: Path) -> Header | str:
    """The header of a file, without decoding it; or the reason why it cannot be used."""
    try:
        raw = _bytes(path, root)
        with Image.open(io.BytesIO(raw), formats=_formats(path)) as image:
            return Header(image.size, image.mode in GRAY, hashlib.blake2b(raw).digest())
    except Exception as error:  # damaged files make pillow raise nearly anything
        return _reason(error)


def decoded(path: Path, root: Path, size: int, gray: bool, digest: bytes | None = None) -> tuple[Pixels, bool] | str:
    """The pixels, [size, size] or [size, size, 3], and whether the file is gray; or why it cannot be used.

    `digest`: the hash that the file must still have.
    """
    try:
        raw = _bytes(path, root)
    except Exception as error:  # also a loop of links
        raw, why = b"", _reason(error)
        if why == GONE:
            return why
    if digest is not None and hashlib.blake2b(raw).digest() != digest:
        raise UserError(f"{path} changed while it was read: run the command again.")
    try:
        return _pixels(raw, size, gray, _formats(path)) if raw else why
    except Exception as error:  # damaged files make pillow raise nearly anything
        return _reason(error)


def whole(path: Path, root: Path, side: int) -> Image.Image | str:
    """All of the image in RGB, at most `side` pixels wide and high, for people; or why it cannot be used."""
    try:
        image, _ = _upright(_bytes(path, root), _formats(path), lambda opened: opened.draft(None, (side, side)))
        colored = image.convert("RGB")
        colored.thumbnail((side, side))
    except Exception as error:  # damaged files make pillow raise nearly anything
        return _reason(error)
    return colored


def in_threads(work: Callable[[str], Answer], names: Sequence[str]) -> Iterator[Answer]:
    """work(name) for each name in order, computed for a few names in advance.

    No thread is running while a result is used. If the caller stops early, the garbage collector ends this generator,
    possibly while `threading` holds a lock, and waiting for threads would then deadlock.
    """
    for start in range(0, len(names), _AT_ONCE):
        with _quiet_pillow(), ThreadPoolExecutor(WORKERS) as pool:
            try:
                answers = list(pool.map(work, names[start : start + _AT_ONCE]))
            except BaseException:
                pool.shutdown(cancel_futures=True)  # otherwise Ctrl-C would wait for all the others
                raise
        yield from answers


@contextmanager
def _quiet_pillow() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about unusual but readable files
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _bytes(path: Path, root: Path) -> bytes:
    if path.is_symlink() and not path.resolve().is_relative_to(root):
        raise _Bad("is a link that leads out of the folder")
    if path.is_symlink() and not path.exists():
        raise _Bad("is a link to nothing")
    status = path.stat()
    if not S_ISREG(status.st_mode):  # reading a pipe, for example, would block forever
        raise _Bad("is not a file")
    if status.st_size > LARGEST:
        raise _Bad(f"has more than {LARGEST:,} bytes")
    raw = path.read_bytes()
    if not raw:
        raise _Bad("is empty")
    return raw


def _reason(error: Exception) -> str:
    if isinstance(error, _Bad):
        return str(error)
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return f"has more than {Image.MAX_IMAGE_PIXELS} pixels, pillow's limit"
    if isinstance(error, UnidentifiedImageError):
        return "is not a photo of a known kind"
    if isinstance(error, PermissionError):
        return "may not be read"
    if isinstance(error, FileNotFoundError):
        return GONE
    if isinstance(error, OSError) and error.errno is not None:  # pillow's own have no number
        return f"cannot be read ({error.strerror})"
    return "is corrupt or truncated"


def _formats(path: Path) -> tuple[str, ...]:
    """The formats that a file may have; pillow reads HEIC only with the help of another package."""
    if path.suffix.lower() not in _HEIC:
        return FORMATS
    try:
        importlib.import_module("pillow_heif").register_heif_opener()
    except ImportError:
        raise _Bad("needs the package pillow-heif (`pip install pillow-heif`) to be read") from None
    return ("HEIF",)


def _pixels(raw: bytes, size: int, gray: bool, formats: tuple[str, ...]) -> tuple[Pixels, bool]:
    image, file_is_gray = _upright(raw, formats, lambda opened: _reduce(opened, size))
    return square(image.convert("L" if gray else "RGB"), size), file_is_gray


def _upright(raw: bytes, formats: tuple[str, ...], reduce: Callable[[Image.Image], object]) -> tuple[Image.Image, bool]:
    """The image with 8 bits per channel, as it is meant to be seen, and whether the file is gray."""
    with Image.open(io.BytesIO(raw), formats=formats) as opened:
        file_is_gray = opened.mode in GRAY
        reduce(opened)
        sixteen_bit = opened.mode.startswith("I;16") or (opened.mode == "I" and opened.format == "PNG")
        image = ImageOps.exif_transpose(opened)
    return _eight_bit(image, sixteen_bit), file_is_gray


def _reduce(image: Image.Image, size: int) -> None:
    """Decode a JPEG file at 1/8, 1/4 or 1/2 of its sides if that leaves three pixels for each of the result.

    Only where the sides are multiples of 8, 4 or 2: otherwise the last pixels would lie partly outside of the image.
    """
    for times in (8, 4, 2):
        width, height = image.width // times, image.height // times
        if (width * times, height * times) == image.size and min(width, height) >= 3 * size:
            image.draft(None, (width, height))  # does nothing for other formats
            return


def square(image: Image.Image, size: int) -> Pixels:
    """The largest centered square of an image, resized."""
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    cut = image.crop((left, top, left + side, top + side))
    return np.asarray(cut.resize((size, size), Image.Resampling.LANCZOS))


def _eight_bit(image: Image.Image, sixteen_bit: bool) -> Image.Image:
    """The image with 8 bits per channel and without transparency."""
    if sixteen_bit:
        return Image.fromarray(np.rint(np.asarray(image) / 257).astype(np.uint8))  # 65535 becomes 255
    if image.mode in ("I", "F"):
        raise _Bad("has 32-bit pixels, which have no common range")
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        # pillow converts La and RGBa (with premultiplied alpha) only through LA and RGBA
        image = image.convert({"La": "LA"}.get(image.mode, "RGBA")).convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image
