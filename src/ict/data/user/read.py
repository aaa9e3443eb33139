"""Reads a user's own files with the reader for their kind, to learn from them or to predict on them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ict.base.errors import UserError
from ict.base.reading import check_file
from ict.data.columns.kinds import Asked
from ict.data.columns.table_inputs import TableInputs
from ict.data.user.answers import is_answer_file, with_answers
from ict.data.user.label_file import names_examples, with_labels
from ict.data.user.records import Embed, Items, Progress, Reader, ReadOptions, Stream, StreamOptions, UserData
from ict.data.user.remarks import about_labels

CHUNK = 1024  # examples in a chunk of a stream
KINDS = "a folder of photos or texts, or a .npz, .npy, .csv or .parquet file"
TABLES = (".csv", ".parquet")


def reader_of(path: Path, text_column: str | None = None) -> Reader:
    """The reader for a file's kind, decided only here. Readers are imported on use: only images need pillow."""
    if not path.exists():
        raise UserError(f"{path} does not exist: give {KINDS}.")
    reader: Reader
    if text_column is not None and path.suffix.lower() not in TABLES:
        raise UserError(f"--text-column {text_column} needs a table, but {path} is not one: leave it out.")
    if text_column is not None or (path.is_dir() and _holds_texts(path)):
        from ict.data.user import texts as reader
    elif path.is_dir():
        from ict.data.user import images as reader
    elif path.suffix.lower() in (".npz", ".npy"):
        from ict.data.user import arrays as reader
    elif path.suffix.lower() in TABLES:
        from ict.data.user import tables as reader
    else:
        raise UserError(f"{path} is of an unknown kind: give {KINDS}.")
    if not path.is_dir():
        check_file(path)
    return reader


def read_data(
    path: Path,
    *,
    labels: Path | Sequence[Path] | None = None,
    label_column: str | None = None,
    size: int | None = None,
    gray: bool | None = None,
    skip_bad: bool = False,
    progress: Progress | None = None,
    embed: Embed | None = None,
    beside: tuple[int, ...] | None = None,
    text_column: str | None = None,
    group_column: str | None = None,
    unlabeled: bool = False,
    columns: Mapping[str, Asked] | None = None,
    table: TableInputs | None = None,
    digests: bool = False,
) -> UserData:
    """Read examples to learn from into memory. See `ReadOptions`. A labeling page's file labels data of any kind.

    `digests`: of a table's rows, those of the cells as they are written, which take another reading.
    """
    reader = reader_of(path, text_column)
    files = [labels] if isinstance(labels, Path) else list(labels or ())
    for file in files:
        if not file.is_file():
            raise UserError(f"the labels {file} are not a file: give one that exists.")
    if size is not None and not path.is_dir():
        raise UserError(f"--size {size} is for a folder of photos, which {path} is not: leave it out.")
    if group_column is not None and path.suffix.lower() not in TABLES:
        raise UserError(f"--group-column {group_column} needs a table, but {path} is not one: leave it out.")
    if columns and (path.suffix.lower() not in TABLES or text_column is not None):
        what = "a table of texts" if text_column else "no table"
        raise UserError(f"--columns says what columns of a table are, and {path} is {what}: leave it out.")
    answers = [file for file in files if is_answer_file(file)]
    others = [file for file in files if file not in answers]
    for_reader = next((file for file in others if path.is_dir() or not names_examples(file)), None)
    by_name = [file for file in others if file != for_reader]
    options = ReadOptions(
        for_reader,
        label_column,
        size,
        gray,
        skip_bad,
        progress,
        embed,
        beside,
        text_column,
        group_column,
        unlabeled or bool(answers or by_name),
        columns or {},
        table,
    )
    data = replace(reader.read(path, options), items=reader.ITEMS)
    if (digests or answers) and data.contents is None and path.suffix.lower() in TABLES:
        from ict.data.user.table_cells import table_cells

        data = replace(data, contents=table_cells(path, label_column).digests(data.names))
    for file in answers:
        data = with_answers(data, file, path, skip_bad)
    for file in by_name:
        data = with_labels(data, file, path, skip_bad)
    if group_column is not None:
        from ict.data.user.tables import row_groups

        data = replace(data, groups=row_groups(path, group_column, data.names))
    return replace(data, remarks=(*data.remarks, *about_labels(data)))


def stream_data(
    path: Path,
    shape: tuple[int, ...],
    columns: tuple[str, ...],
    skip_bad: bool,
    embed: Embed | None = None,
    beside: tuple[int, ...] = (),
    text_column: str | None = None,
    table: TableInputs | None = None,
    pixels: bool = True,
) -> Stream:
    """Read examples to predict on as a stream, without labels. See `StreamOptions`."""
    options = StreamOptions(shape, columns, skip_bad, CHUNK, embed, beside, text_column, table, pixels)
    return reader_of(path, text_column).stream(path, options)


def item_kind(path: Path, text_column: str | None = None) -> Items:
    """The kind of items, which decides the backbone. Arrays count as numbers, even arrays of images."""
    return reader_of(path, text_column).ITEMS


def _holds_texts(folder: Path) -> bool:
    """Whether a folder has text files and no images."""
    from ict.data.user.image_file import SUFFIXES

    texts = False
    for _, _, files in os.walk(folder):
        suffixes = {Path(name).suffix.lower() for name in files if not name.startswith(".")}
        if suffixes & set(SUFFIXES):
            return False
        texts = texts or ".txt" in suffixes
    return texts
