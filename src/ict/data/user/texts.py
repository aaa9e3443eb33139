"""Reads texts: a folder of .txt files in which the first-level folders name the classes, or a column of a table."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from ict.base.errors import UserError
from ict.data.labels import find_label_column, whole_numbers
from ict.data.user.folder_files import GONE, class_folders, empty_classes, files_in, ignored, refuse
from ict.data.user.label_file import folder_labels
from ict.data.user.records import (
    Chunk,
    Embed,
    Items,
    ReadOptions,
    Stream,
    StreamOptions,
    UserData,
    digest,
    label_strings,
)
from ict.data.user.remarks import counted, listed, rows_left_out, unlabeled_rows
from ict.data.user.table_file import check_size, table_columns
from ict.data.user.tables import text_blocks

ITEMS: Items = "texts"
SUFFIXES = (".txt",)
LARGEST = 10_000_000  # bytes of a file
_LINKED = "is a link to a folder, which is not followed"
_UNREADABLE = f"is not a UTF-8 text of up to {LARGEST:,} bytes, or a link that leads out of the folder"
_NO_FEATURES = np.empty((0, 0), np.float32)


def read(path: Path, options: ReadOptions) -> UserData:
    """Read texts as features, which needs an `embed`."""
    embed = _embed(path, options.embed)
    if options.labels is not None and not path.is_dir():
        raise UserError(f"{options.labels} names no rows of {path}: make its first line `example,label`.")
    texts, data = (_from_folder if path.is_dir() else _from_table)(path, options)
    if not texts:
        raise UserError(f"{path} has no readable text: repair or replace the files.")
    contents = tuple(digest(text.encode("utf-8", "surrogatepass")) for text in texts)
    return replace(data, x=embed.texts(texts, path, options.progress), contents=contents, texts=tuple(texts))


def stream(path: Path, options: StreamOptions) -> Stream:
    embed = _embed(path, options.embed)
    if not path.is_dir():
        blocks = text_blocks(path, options.text_column, None, options.skip_bad, options.chunk)
        return Stream((Chunk(embed.texts_now(texts), names, bad) for texts, _, names, bad in blocks), None, [])
    names, linked, others = files_in(path, SUFFIXES, "text")
    refuse(path, dict.fromkeys(linked, _LINKED), options.skip_bad)

    def chunks() -> Iterator[Chunk]:
        yield Chunk(np.empty((0, *options.shape), np.float32), [], linked)
        for start in range(0, len(names), options.chunk):
            found = {name: text_in(path, name) for name in names[start : start + options.chunk]}
            bad = _unreadable(path, found)
            refuse(path, bad, options.skip_bad)
            good = {name: text for name, text in found.items() if text is not None}
            yield Chunk(embed.texts_now(list(good.values())), list(good), list(bad))

    return Stream(chunks(), len(names), ignored(others, "text"))


def _from_table(path: Path, options: ReadOptions) -> tuple[list[str], UserData]:
    """The texts, and their data without features."""
    check_size(path)
    blocks = list(text_blocks(path, options.text_column, options.label_column, options.skip_bad))
    texts, labels, names, bad = ([value for block in blocks for value in block[i]] for i in range(4))
    remarks = (*_beside(path, options), *rows_left_out(bad), *unlabeled_rows(labels))
    return texts, UserData(_NO_FEATURES, whole_numbers(label_strings(labels)), tuple(names), remarks)


def _beside(path: Path, options: ReadOptions) -> list[str]:
    """A remark on the columns of a table that are neither texts nor labels."""
    rest = [name for name in table_columns(path) if name != options.text_column]
    used = (options.label_column or find_label_column(rest), options.group_column)
    unused = [f"'{name}'" for name in rest if name not in used]
    were = counted(len(unused), "other column was", "other columns were")
    return [f"{were} not used, only the text '{options.text_column}': {listed(unused)}"] if unused else []


def _from_folder(path: Path, options: ReadOptions) -> tuple[list[str], UserData]:
    if options.label_column is not None and options.labels is None:
        raise UserError(f"--label-column {options.label_column} needs a table, but {path} is a folder: leave it out.")
    names, linked, others = files_in(path, SUFFIXES, "text", options.labels)
    given = folder_labels(names, path, "text", options)
    texts: dict[str, str | None] = {}
    for done, name in enumerate(names, 1):
        texts[name] = text_in(path, name)
        if options.progress is not None:
            options.progress("reading texts", done, len(names))
    bad = dict.fromkeys(linked, _LINKED) | _unreadable(path, texts)
    refuse(path, bad, options.skip_bad)
    good = {name: text for name, text in texts.items() if text is not None}
    y = label_strings(given.known.get(name) for name in good)
    remarks = list(given.remarks)
    remarks += [f"texts that could not be read were left out: {listed(sorted(bad))}"] if bad else []
    remarks += ignored(others, "text")
    wanted = class_folders(path) if options.labels is None else set(label_strings(given.known.values())) - {None}
    remarks += empty_classes(sorted(str(name) for name in wanted - set(y)), "text")
    return list(good.values()), UserData(_NO_FEATURES, y, tuple(good), tuple(remarks))


def _embed(path: Path, embed: Embed | None) -> Embed:
    if embed is None:
        raise UserError(f"{path} holds texts, which need a backbone: name one with --backbone, such as tfidf.")
    return embed


def _unreadable(folder: Path, texts: Mapping[str, str | None]) -> dict[str, str]:
    """Why texts that are missing could not be read."""
    missing = [name for name, text in texts.items() if text is None]
    return {name: _UNREADABLE if os.path.lexists(folder / name) else GONE for name in missing}


def text_in(folder: Path, name: str) -> str | None:
    """The text of a file; None if it cannot be read."""
    path = folder / name
    try:
        if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
            return None
        if not path.is_file() or path.stat().st_size > LARGEST:
            return None
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None
