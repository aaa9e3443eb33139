"""A folder of images, decoded to one size. The folder is only read."""

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePosixPath
from statistics import median

import numpy as np

from ict.base.errors import UserError
from ict.data.labels import UNLABELED_FOLDER, find_label_column
from ict.data.user.image_cache import cache_key, cached
from ict.data.user.image_file import SUFFIXES, Header, Pixels, decoded, header, in_threads
from ict.data.user.records import Chunk, ReadOptions, Stream, StreamOptions, UserData, label_strings
from ict.data.user.remarks import counted, images_left_out, listed, made_gray, unlike_the_model
from ict.data.user.text_files import csv_rows, text_of

PATH_COLUMNS = ("path", "file", "filename", "image")


def read(folder: Path, options: ReadOptions) -> UserData:
    """Labels are the names of the first-level folders, or those of the file of labels."""
    labels, column = options.labels, options.label_column
    if column is not None and labels is None:
        raise UserError(f"label_column '{column}' needs a table, but {folder} is a folder: pass labels too.")
    if options.size is not None and options.size < 1:
        raise UserError(f"size={options.size} is not a number of pixels: give 1 or more.")
    names, linked, n_ignored = _image_files(folder, labels)
    missing: list[str] = []
    known = _by_folder(names) if labels is None else _by_file(folder, names, labels, options, missing)
    bad = dict.fromkeys(linked, "is a link to a folder, which is not followed")
    headers = _headers(folder, names, bad)
    _refuse(folder, bad, options.skip_bad)
    size = options.size or (_automatic_size(headers) if headers else 1)
    x = _decoded(folder, headers, replace(options, size=size), bad)
    kept = [name for name in headers if name not in bad]
    if not kept:
        raise UserError(f"none of the {len(bad)} images in {folder} can be read: mend or replace them.")
    y = label_strings(known.get(name) for name in kept)
    remarks = _missing_remarks(missing, labels)
    remarks += [*images_left_out(sorted(bad)), *_ignored(n_ignored)]
    wanted = _class_folders(folder) if labels is None else set(label_strings(known.values())) - {None}
    remarks += _empty_classes(sorted(wanted - set(y)))
    sides = [side for name in kept for side in headers[name].sides]
    if max(sides) > 8 * min(sides):
        remarks.append(f"the images differ widely in size, with sides from {min(sides)} to {max(sides)} pixels")
    if options.gray:
        remarks += made_gray([name for name in kept if not headers[name].gray])
    if labels is None and any(label is not None for label in y) and any("/" not in name for name in kept):
        remarks.append("images outside the class folders count as unlabeled")
    return UserData(x, y, tuple(kept), tuple(remarks))


def stream(folder: Path, options: StreamOptions) -> Stream:
    shape, skip_bad, size = options.shape, options.skip_bad, options.chunk
    if len(shape) == 1 or shape[0] != shape[1]:
        raise unlike_the_model(folder, "square images", shape)
    names, linked, n_ignored = _image_files(folder)
    linked_bad = dict.fromkeys(linked, "is a link to a folder, which is not followed")
    _refuse(folder, linked_bad, skip_bad)
    gray = len(shape) == 2
    root = folder.resolve()

    def chunks() -> Iterator[Chunk]:
        found = in_threads(lambda name: decoded(folder / name, root, shape[0], gray), names)
        yield Chunk(np.empty((0, *shape), np.uint8), [], linked)
        for start in range(0, len(names), size):
            some = names[start : start + size]
            good, bad = {}, {}
            for name, image in zip(some, islice(found, len(some)), strict=True):
                if isinstance(image, str):
                    bad[name] = image
                else:
                    good[name] = image
            _refuse(folder, bad, skip_bad)
            x = np.array([pixels for pixels, _ in good.values()], np.uint8).reshape(-1, *shape)
            colored = [name for name, (_, was_gray) in good.items() if gray and not was_gray]
            yield Chunk(x, list(good), list(bad), colored)

    return Stream(chunks(), len(names), _ignored(n_ignored))


def _image_files(folder: Path, labels: Path | None = None) -> tuple[list[str], list[str], int]:
    """Images and linked folders by their relative paths, sorted, and the number of other files."""

    def cannot(error: OSError) -> None:
        raise UserError(f"the folder {error.filename} cannot be read ({error.strerror}): change its permissions.")

    names, linked, n_ignored = [], [], 0
    for here, folders, files in os.walk(folder, onerror=cannot):
        base = Path(here)
        folders[:] = [name for name in folders if not name.startswith(".")]
        linked += [(base / name).relative_to(folder).as_posix() for name in folders if (base / name).is_symlink()]
        for name in files:
            if name.startswith("."):
                continue
            if Path(name).suffix.lower() in SUFFIXES:
                names.append((base / name).relative_to(folder).as_posix())
            elif labels is None or os.path.realpath(base / name) != os.path.realpath(labels):
                n_ignored += 1
    if not names and not linked:
        raise UserError(f"{folder} holds no images: put files such as {', '.join(SUFFIXES)} into it.")
    return sorted(names), sorted(linked), n_ignored


def _refuse(folder: Path, bad: dict[str, str], skip_bad: bool) -> None:
    if bad and not skip_bad:
        name = min(bad)
        raise UserError(f"{folder / name} {bad[name]}: mend or remove it, or set skip_bad to leave such files out.")


def _by_folder(names: list[str]) -> dict[str, str]:
    firsts = {name: name.split("/")[0] for name in names if "/" in name}
    return {name: first for name, first in firsts.items() if first.casefold() != UNLABELED_FOLDER}


def _class_folders(folder: Path) -> set[str | None]:
    folders = (p for p in folder.iterdir() if p.is_dir() and not p.is_symlink())
    return {p.name for p in folders if not p.name.startswith(".") and p.name.casefold() != UNLABELED_FOLDER}


def _by_file(folder: Path, names: list[str], labels: Path, options: ReadOptions, missing: list[str]) -> dict[str, str]:
    """Labels by path from a CSV with a header; paths of no image go into `missing`, and stay among the labels."""
    lines = [(i, [cell.strip() for cell in row]) for i, row in enumerate(csv_rows(labels, text_of(labels)), 1) if row]
    header = lines[0][1] if lines else []
    present = set(names)
    if len(header) < 2 or _normal(header[0]) in present:
        raise UserError(f"{labels} lacks a header with two columns: make its first line `path,label`.")
    path_at, label_at = _columns(header, labels, options.label_column)
    known: dict[str, str] = {}
    for line, row in lines[1:]:
        if not any(row):
            continue
        cells = row + [""] * (len(header) - len(row))
        name, label = _normal(cells[path_at]), cells[label_at]
        if name not in present:
            if not options.skip_bad:
                raise UserError(
                    f"{labels} names '{name}' in line {line}, which is no image in {folder}: "
                    "mend the path, or set skip_bad to leave such lines out."
                )
            missing.append(name)
        if known.setdefault(name, label) != label:
            raise UserError(f"{labels} gives '{name}' two labels, '{known[name]}' and '{label}': keep one of them.")
    return known


def _columns(header: list[str], labels: Path, wanted: str | None) -> tuple[int, int]:
    """Where the paths and the labels are: by name, else the first columns."""
    lower = [name.casefold() for name in header]
    if wanted is not None and wanted not in header:
        raise UserError(f"{labels} has no column '{wanted}': choose label_column from {header}.")
    column = find_label_column(header) if wanted is None else wanted
    label_at = None if column is None else header.index(column)
    others = [i for i in range(len(header)) if i != label_at]
    path_at = next((lower.index(name) for name in PATH_COLUMNS if name in lower), others[0])
    if label_at is None:
        label_at = next(i for i in range(len(header)) if i != path_at)
    return path_at, label_at


def _normal(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).as_posix()  # without a leading ./


def _headers(folder: Path, names: list[str], bad: dict[str, str]) -> dict[str, Header]:
    """What the files say of themselves, before any is decoded; the bad ones go into `bad`."""
    root = folder.resolve()
    headers = {}
    for name, found in zip(names, in_threads(lambda name: header(folder / name, root), names), strict=True):
        if isinstance(found, str):
            bad[name] = found
        else:
            headers[name] = found
    return headers


def _automatic_size(headers: dict[str, Header]) -> int:
    shorter = median(min(header.sides) for header in headers.values())
    return int(min(max(8 * int(shorter / 8 + 0.5), 8), 64))


def _decoded(folder: Path, headers: dict[str, Header], options: ReadOptions, bad: dict[str, str]) -> Pixels:
    """The good images; the bad ones go into `bad`."""
    names, root, size, skip_bad = list(headers), folder.resolve(), options.size or 1, options.skip_bad
    as_gray = all(header.gray for header in headers.values()) if options.gray is None else options.gray
    shape = (size, size) if as_gray else (size, size, 3)

    def images() -> Iterator[Pixels | str]:
        found = in_threads(lambda name: decoded(folder / name, root, size, as_gray, headers[name].digest), names)
        for done, (name, image) in enumerate(zip(names, found, strict=True), 1):
            if isinstance(image, str):
                _refuse(folder, {name: image}, skip_bad)
            yield image if isinstance(image, str) else image[0]
            if options.progress is not None:
                options.progress(done, len(names))

    key = cache_key((header.digest for header in headers.values()), shape)
    found = cached(key, shape, folder, len(names), images)
    newly_bad = {names[place]: why for place, why in found.bad.items()}
    bad |= newly_bad
    _refuse(folder, newly_bad, skip_bad)
    good = {name: header for name, header in headers.items() if name not in newly_bad}
    if good and options.gray is None and not as_gray and all(header.gray for header in good.values()):
        return _decoded(folder, good, options, bad)  # those in color turned out to be bad
    return found.x


def _ignored(n: int) -> list[str]:
    others = counted(n, "file that is not an image was", "files that are not images were")
    return [f"{others} ignored"] if n else []


def _missing_remarks(missing: list[str], labels: Path | None) -> list[str]:
    if not missing:
        return []
    lines = f"{counted(len(missing), 'line', 'lines')} of {labels} without an image"
    return [f"{lines} {'was' if len(missing) == 1 else 'were'} left out: {listed(missing)}"]


def _empty_classes(names: list[str | None]) -> list[str]:
    if not names:
        return []
    have = counted(len(names), "class has", "classes have")
    return [f"{have} no image that can be read: {listed([str(name) for name in names])}"]
