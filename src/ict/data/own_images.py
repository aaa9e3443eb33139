"""A folder of images, decoded to one size. The folder is only read.

An image is gray if its file says so, whatever its colors look like; of an animation or several pages the first counts.
"""

import hashlib
import io
import os
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from statistics import median

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from ict.data.own import OwnData, counted, label_texts, listed, no_labels, text_of
from ict.data.own_tables import csv_rows
from ict.errors import UserError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP")  # no others: pillow hands some to outside programs
GRAY = ("1", "L", "LA", "La", "I", "I;16", "I;16L", "I;16B", "I;16N")
PATH_COLUMNS = ("path", "file", "filename", "image")
LABEL_COLUMNS = ("label", "class")
UNLABELED = "unlabeled"
WORKERS = min(8, os.cpu_count() or 1)  # each holds a whole image


class _Bad(Exception):
    """Why a file cannot be used."""


@dataclass(frozen=True)
class _Header:
    sides: tuple[int, int]
    gray: bool


def read_images(
    folder: Path,
    labels: Path | None,
    label_column: str | None,
    size: int | None,
    skip_bad: bool,
    progress: Callable[[int, int], None] | None,
) -> OwnData:
    """Labels are the names of the first-level folders, or those of the file `labels`."""
    if size is not None and size < 1:
        raise UserError(f"size={size} is not a number of pixels: give 1 or more.")
    names, linked, n_ignored = _listing(folder, labels)
    if not names and not linked:
        raise UserError(f"{folder} holds no images: put files such as {', '.join(SUFFIXES)} into it.")
    known = _by_folder(names) if labels is None else _by_file(folder, names, labels, label_column)
    bad = dict.fromkeys(linked, "is a link to a folder, which is not followed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pillow's remarks on odd but readable files
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        headers = _headers(folder, names, bad)
        _refuse(folder, bad, skip_bad)
        if not headers:
            raise UserError(f"none of the {len(bad)} images in {folder} can be read: mend or replace them.")
        size = size or _automatic_size(headers)
        x, digests = _decoded(folder, headers, size, bad, skip_bad, progress)
    kept = [name for name in headers if name not in bad]
    if not kept:
        raise UserError(f"none of the {len(bad)} images in {folder} can be read: mend or replace them.")
    if bad:
        x = x[[name not in bad for name in headers]]
    if x.ndim == 4 and all(headers[name].gray for name in kept):
        x = np.ascontiguousarray(x[..., 0])  # those in color turned out to be bad
    y = label_texts(known.get(name) for name in kept)
    counts = Counter(label for label in y if label is not None)
    if len(counts) == 1:
        raise UserError(f"{folder} has images of the one class '{next(iter(counts))}' only: add another class.")
    remarks = _remarks(bad, n_ignored, counts, [headers[name] for name in kept])
    if labels is None and counts and any("/" not in name for name in kept):
        remarks.append("images outside the class folders count as unlabeled")
    remarks += _duplicates(kept, y, digests) + no_labels(y)
    return OwnData(x, y, tuple(kept), tuple(remarks))


def _listing(folder: Path, labels: Path | None) -> tuple[list[str], list[str], int]:
    """Images and linked folders by their relative paths, sorted, and the number of other files."""

    def refuse(error: OSError) -> None:
        raise UserError(f"the folder {error.filename} cannot be read ({error.strerror}): change its permissions.")

    names, linked, n_ignored = [], [], 0
    for here, folders, files in os.walk(folder, onerror=refuse):
        base = Path(here)
        folders[:] = [name for name in folders if not name.startswith(".")]
        linked += [(base / name).relative_to(folder).as_posix() for name in folders if (base / name).is_symlink()]
        for name in files:
            if name.startswith("."):
                continue
            if Path(name).suffix.lower() in SUFFIXES:
                names.append((base / name).relative_to(folder).as_posix())
            elif labels is None or (base / name).resolve() != labels.resolve():
                n_ignored += 1
    return sorted(names), sorted(linked), n_ignored


def _by_folder(names: list[str]) -> dict[str, str]:
    firsts = {name: name.split("/")[0] for name in names if "/" in name}
    return {name: first for name, first in firsts.items() if first.casefold() != UNLABELED}


def _by_file(folder: Path, names: list[str], labels: Path, label_column: str | None) -> dict[str, str]:
    """Labels by path from a CSV with a header."""
    lines = [(i, [cell.strip() for cell in row]) for i, row in enumerate(csv_rows(labels, text_of(labels)), 1) if row]
    header = lines[0][1] if lines else []
    present = set(names)
    if len(header) < 2 or _normal(header[0]) in present:
        raise UserError(f"{labels} lacks a header with two columns: make its first line `path,label`.")
    path_at, label_at = _columns(header, labels, label_column)
    known: dict[str, str] = {}
    for line, row in lines[1:]:
        if not any(row):
            continue
        cells = row + [""] * (len(header) - len(row))
        name, label = _normal(cells[path_at]), cells[label_at]
        if name not in present:
            raise UserError(f"{labels} names '{name}' in line {line}, which is no image in {folder}: mend the path.")
        if known.setdefault(name, label) != label:
            raise UserError(f"{labels} gives '{name}' two labels, '{known[name]}' and '{label}': keep one of them.")
    return known


def _columns(header: list[str], labels: Path, label_column: str | None) -> tuple[int, int]:
    """Where the paths and the labels are: by name, else the first columns."""
    lower = [name.casefold() for name in header]
    if label_column is not None and label_column not in header:
        raise UserError(f"{labels} has no column '{label_column}': choose label_column from {header}.")
    label_at = next((lower.index(name) for name in LABEL_COLUMNS if name in lower), None)
    if label_column is not None:
        label_at = header.index(label_column)
    others = [i for i in range(len(header)) if i != label_at]
    path_at = next((lower.index(name) for name in PATH_COLUMNS if name in lower), others[0])
    if label_at is None:
        label_at = next(i for i in range(len(header)) if i != path_at)
    return path_at, label_at


def _normal(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).as_posix()  # without a leading ./


def _headers(folder: Path, names: list[str], bad: dict[str, str]) -> dict[str, _Header]:
    """What the files say of themselves, before any is decoded; the bad ones go into `bad`."""
    root = folder.resolve()
    headers = {}
    for name in names:
        path = folder / name
        try:
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                raise _Bad("is a link that leads out of the folder")
            if not path.is_file():  # a pipe, say, would be waited on forever
                raise _Bad("is not a file")
            if path.stat().st_size == 0:
                raise _Bad("is empty")
            with Image.open(path, formats=FORMATS) as image:
                headers[name] = _Header(image.size, image.mode in GRAY)
        except Exception as error:  # damaged files make pillow raise nearly anything
            bad[name] = _reason(error)
    return headers


def _reason(error: Exception) -> str:
    if isinstance(error, _Bad):
        return str(error)
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return f"has more than {Image.MAX_IMAGE_PIXELS} pixels, pillow's limit"
    if isinstance(error, UnidentifiedImageError):
        return "is not an image of a known kind"
    if isinstance(error, PermissionError):
        return "may not be read"
    return "is corrupt or truncated"


def _refuse(folder: Path, bad: dict[str, str], skip_bad: bool) -> None:
    if bad and not skip_bad:
        name = min(bad)
        raise UserError(f"{folder / name} {bad[name]}: mend or remove it, or set skip_bad to leave such files out.")


def _automatic_size(headers: dict[str, _Header]) -> int:
    shorter = median(min(header.sides) for header in headers.values())
    return int(min(max(8 * int(shorter / 8 + 0.5), 8), 64))


def _decoded(
    folder: Path,
    headers: dict[str, _Header],
    size: int,
    bad: dict[str, str],
    skip_bad: bool,
    progress: Callable[[int, int], None] | None,
) -> tuple[NDArray[np.uint8], dict[str, bytes]]:
    """All images, and a digest of each file; the bad ones go into `bad`."""
    gray = all(header.gray for header in headers.values())
    x = np.zeros((len(headers), size, size) if gray else (len(headers), size, size, 3), np.uint8)
    digests = {}

    def decode(name: str) -> tuple[NDArray[np.uint8], bytes] | str:
        try:
            raw = (folder / name).read_bytes()
            return _pixels(raw, size, gray), hashlib.blake2b(raw).digest()
        except Exception as error:  # damaged files make pillow raise nearly anything
            return _reason(error)

    with ThreadPoolExecutor(WORKERS) as pool:
        try:
            for i, (name, result) in enumerate(zip(headers, pool.map(decode, headers), strict=True)):
                if isinstance(result, str):
                    bad[name] = result
                    _refuse(folder, {name: result}, skip_bad)
                else:
                    x[i], digests[name] = result
                if progress is not None:
                    progress(i + 1, len(headers))
        except BaseException:
            pool.shutdown(cancel_futures=True)  # or Ctrl-C would wait for all the others
            raise
    return x, digests


def _pixels(raw: bytes, size: int, gray: bool) -> NDArray[np.uint8]:
    with Image.open(io.BytesIO(raw), formats=FORMATS) as opened:
        sixteen_bit = opened.mode.startswith("I;16") or (opened.mode == "I" and opened.format == "PNG")
        image = ImageOps.exif_transpose(opened)
    image = _eight_bit(image, sixteen_bit).convert("L" if gray else "RGB")
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    square = image.crop((left, top, left + side, top + side))
    return np.asarray(square.resize((size, size), Image.Resampling.LANCZOS))


def _eight_bit(image: Image.Image, sixteen_bit: bool) -> Image.Image:
    """Without transparency, 8 bits a channel."""
    if sixteen_bit:
        return Image.fromarray(np.rint(np.asarray(image) / 257).astype(np.uint8))  # 65535 becomes 255
    if image.mode in ("I", "F"):
        raise _Bad("has 32-bit pixels, which have no common range")
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        # pillow knows La and RGBa, with colors multiplied by alpha, only by their twins
        image = image.convert({"La": "LA"}.get(image.mode, "RGBA")).convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image


def _remarks(bad: dict[str, str], n_ignored: int, counts: Counter[str], headers: list[_Header]) -> list[str]:
    remarks = []
    if bad:
        could = counted(len(bad), "image could not be read and was", "images could not be read and were")
        remarks.append(f"{could} left out: {listed(sorted(bad))}")
    if n_ignored:
        others = counted(n_ignored, "file that is not an image was", "files that are not images were")
        remarks.append(f"{others} ignored")
    single = sorted(label for label, n in counts.items() if n == 1)
    if single:
        remarks.append(f"{counted(len(single), 'class has', 'classes have')} a single labeled image: {listed(single)}")
    sides = [side for header in headers for side in header.sides]
    if max(sides) > 8 * min(sides):
        remarks.append(f"the images differ widely in size, with sides from {min(sides)} to {max(sides)} pixels")
    return remarks


def _duplicates(names: list[str], y: NDArray[np.object_], digests: dict[str, bytes]) -> list[str]:
    """The remark on files that are the same but labeled differently."""
    groups: dict[bytes, list[tuple[str, str]]] = {}
    for name, label in zip(names, y, strict=True):
        if label is not None:
            groups.setdefault(digests[name], []).append((name, label))
    torn = [" = ".join(name for name, _ in group) for group in groups.values() if len({y for _, y in group}) > 1]
    if not torn:
        return []
    return [f"{counted(len(torn), 'image is', 'images are')} in different classes, byte for byte: {listed(torn)}"]
