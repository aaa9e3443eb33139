"""Reads features from tables, CSV or Parquet: columns of any kind as numbers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ict.base.errors import UserError
from ict.base.reading import reading
from ict.data.columns.cells import is_numeric, numbers
from ict.data.columns.frames import pandas_for
from ict.data.columns.kinds import kinds_of
from ict.data.columns.learn import learn
from ict.data.columns.table_inputs import Number, TableInputs
from ict.data.labels import LABEL_COLUMNS, find_label_column, is_label_column, whole_numbers
from ict.data.user.records import Chunk, Items, ReadOptions, Stream, StreamOptions, UserData, label_strings
from ict.data.user.remarks import counted, listed, unlabeled_rows, unlike_the_model
from ict.data.user.rows import RowBlock, finite, joined, without
from ict.data.user.table_file import CHUNK, Cells, Piece, check_size, is_parquet, n_rows, pieces, table_columns

ITEMS: Items = "numbers"
Encode = Callable[[Piece, NDArray[np.object_]], RowBlock]  # a piece of a table and its labels to usable rows


def read(path: Path, options: ReadOptions) -> UserData:
    """Read every column except the labels, as features of its kind."""
    if options.labels is not None:
        raise UserError(f"{path} is a table with its own label column: leave out the labels {options.labels}.")
    check_size(path)
    names = table_columns(path)
    label = _label_column(names, path, options.label_column, options.unlabeled)
    columns = [name for name in names if name not in (label, options.group_column)]
    if not columns:
        raise UserError(f"{path} has only the label column '{label}': add columns with features.")
    if options.table is None:
        found, table = _learned(path, columns, label, options)
    else:
        table = options.table
        _require(table.names, names, path)
        found = list(pieces(path, _cells(table, label), options.skip_bad))
    encode = _by_kind(table, path, options.skip_bad)
    labels = [piece.as_written(label) for piece in found]
    blocks = [encode(piece, label_strings(some)) for piece, some in zip(found, labels, strict=True)]
    data = joined(path, blocks, table.features)
    remarks = [*data.remarks, *unlabeled_rows([value for some in labels for value in some] if label else [])]
    return replace(data, y=whole_numbers(data.y), table=table, remarks=tuple(remarks))


def stream(path: Path, options: StreamOptions) -> Stream:
    names, shape, table = table_columns(path), options.shape, options.table
    if table is not None:
        wanted, cells = list(table.names), _cells(table, None)
        encode = _by_kind(table, path, options.skip_bad)
    else:
        wanted, cells = _numeric_columns(names, options), Cells()
        encode = _as_they_are(wanted, path, options.skip_bad)
    _require(wanted, names, path)
    if table is None and (len(wanted),) != shape:
        raise unlike_the_model(path, f"{len(wanted)} features", shape)
    known = {*wanted, *(name for name, _ in table.left_out)} if table else {*wanted}
    remarks = []
    if unknown := [f"'{name}'" for name in names if name not in known and not is_label_column(name)]:
        were = counted(
            len(unknown), "column that the model does not use was", "columns that the model does not use were"
        )
        remarks = [f"{were} ignored: {listed(unknown)}"]

    def chunks() -> Iterator[Chunk]:
        for piece in pieces(path, cells, options.skip_bad, options.chunk, wanted):
            rows = encode(piece, label_strings(piece.as_written(None)))
            yield Chunk(rows.x, rows.names, rows.bad)

    return Stream(chunks(), n_rows(path), remarks)


def _require(wanted: Sequence[str], names: Sequence[str], path: Path) -> None:
    if missing := [name for name in wanted if name not in names]:
        raise UserError(f"{path} lacks columns that the model is fitted to: add {listed(missing)}.")


def row_groups(path: Path, column: str, names: tuple[str, ...]) -> NDArray[np.object_]:
    """The values of a column as text for the rows with these names; a row without a value is a group of its own."""
    columns = table_columns(path)
    if column not in columns:
        raise UserError(
            f"{path} has no column '{column}': name the one with the groups by --group-column, of {columns}."
        )
    values: dict[str, Any] = {}
    for piece in pieces(path, Cells(column), skip_bad=True):
        values |= zip((f"row {i}" for i in piece.numbers), piece.as_written(column), strict=True)
    groups = np.empty(len(names), dtype=object)
    groups[:] = [(name,) if values[name] is None else str(values[name]) for name in names]
    return groups


def text_blocks(
    path: Path, column: str | None, label: str | None, skip_bad: bool, chunk: int = CHUNK
) -> Iterator[tuple[list[str], list[Any], list[str], list[str]]]:
    """Texts, labels, names and the names of rows without a text, in blocks of `chunk` rows.

    Without `label`, a column with one of the usual names is used; if there is none, labels are unknown.
    """
    names = table_columns(path)
    if column not in names:
        raise UserError(f"{path} has no column '{column}': name the one with the texts by --text-column, of {names}.")
    if label is not None and label not in names:
        raise UserError(f"{path} has no column '{label}': name the one with the labels by --label-column, of {names}.")
    label = label or find_label_column([name for name in names if name != column])
    for piece in pieces(path, Cells(label), skip_bad, chunk):
        texts = piece.frame[column].astype(object)
        present = texts.notna().to_numpy(bool)
        bad = [f"row {i}" for i, there in zip(piece.numbers, present, strict=True) if not there]
        if bad and not skip_bad:
            raise UserError(f"{path} has no text in {bad[0]}: fill it in or add --skip-bad to leave such rows out.")
        labels = piece.as_written(label)
        yield (
            [str(text) for text in texts[present]],
            [value for value, there in zip(labels, present, strict=True) if there],
            [f"row {i}" for i, there in zip(piece.numbers, present, strict=True) if there],
            [*bad, *(f"row {i}" for i in piece.too_wide)],
        )


def _learned(
    path: Path, columns: list[str], label: str | None, options: ReadOptions
) -> tuple[list[Piece], TableInputs]:
    """The rows of a table and what is learned of its columns. Those that are not numbers are read again as written."""
    words = {name for name, kind in options.columns.items() if kind not in ("number", "ignore")}
    found = _typed(path, columns, label, words, options.skip_bad)
    as_text = {name for piece in found for name in columns if not is_numeric(piece.frame[name])}
    if as_text - words and not is_parquet(path):
        found = _typed(path, columns, label, words | as_text, options.skip_bad)
    frames = [piece.frame[columns] for piece in found]
    if not any(map(len, frames)):
        return found, TableInputs(tuple(Number(name, 0.0, False) for name in columns))  # no rows is another's error
    frame = pandas_for(path).concat(frames, ignore_index=True)
    try:
        return found, learn(frame, kinds_of(frame, options.columns))
    except UserError as problem:
        raise UserError(f"{path}: {problem}") from None


def _typed(path: Path, columns: list[str], label: str | None, words: set[str], skip_bad: bool) -> list[Piece]:
    cells = Cells(label, words, [name for name in columns if name not in words])
    return list(pieces(path, cells, skip_bad, wanted=columns))


def _cells(table: TableInputs, label: str | None) -> Cells:
    numbers = {column.name for column in table.columns if isinstance(column, Number) and not column.boolean}
    return Cells(label, {*table.names} - numbers, numbers)


def _by_kind(table: TableInputs, path: Path, skip_bad: bool) -> Encode:
    """Columns as what was learned of them. A row with a cell of another kind is bad."""

    def encode(piece: Piece, y: NDArray[np.object_]) -> RowBlock:
        try:
            x, bad = table.encode(piece.frame)
        except UserError as problem:
            raise UserError(f"{path}: {problem}") from None
        for name, mask in bad.items():
            row = int(np.argmax(mask))
            cell = f"{table.problem(name, piece.frame[name].iloc[row])} in row {piece.numbers[row]}"
            if len(mask) > 1 and mask.all():
                raise UserError(f"{path} has {cell}, and nothing else there: give the column what it is fitted to.")
            if not skip_bad:
                raise UserError(f"{path} has {cell}: fix it or add --skip-bad to leave such rows out.")
        names = [f"row {i}" for i in piece.numbers]
        left_out = np.logical_or.reduce([*bad.values()]) if bad else np.zeros(len(x), np.bool_)
        return _with_too_wide(without(x, y, names, left_out), piece)

    return encode


def _as_they_are(columns: list[str], path: Path, skip_bad: bool) -> Encode:
    """Columns of numbers, as a model was fitted to that knows no other kind. A row with a gap is bad."""

    def encode(piece: Piece, y: NDArray[np.object_]) -> RowBlock:
        with reading(path, "a table", "repair it or save it again"), np.errstate(over="ignore"):
            x = np.stack([_numbers(piece.frame[name], piece.numbers, path, skip_bad) for name in columns], axis=1)
        return _with_too_wide(finite(x, y, piece.numbers, [f"'{name}'" for name in columns], path, skip_bad), piece)

    return encode


def _with_too_wide(block: RowBlock, piece: Piece) -> RowBlock:
    bad = [*block.bad, *(f"row {i}" for i in piece.too_wide)]
    return replace(block, bad=sorted(bad, key=lambda name: int(name.removeprefix("row "))))


def _numbers(column: Any, rows: list[int], path: Path, skip_bad: bool) -> NDArray[np.float32]:
    """A column as numbers, NaN for gaps. Other cells are an error, or count as gaps if bad rows are skipped."""
    found, bad = numbers(column)
    if bad.any() and (not skip_bad or (bad | np.isnan(found)).all()):
        row = int(np.argmax(bad))
        example = f", such as '{column.iloc[row]}' in row {rows[row]}"
        raise UserError(f"{path} has the column '{column.name}' that is not numeric{example}: encode or remove it.")
    return np.where(bad, np.float32(np.nan), found)


def _numeric_columns(names: list[str], options: StreamOptions) -> list[str]:
    """The columns of a model that knows no other kind than numbers, by name or, fitted to an array, in order."""
    if options.columns:
        return list(options.columns)
    return names if (len(names),) == options.shape else [name for name in names if name != find_label_column(names)]


def _label_column(columns: list[str], path: Path, wanted: str | None, may_lack: bool) -> str | None:
    found = find_label_column(columns) if wanted is None else wanted
    if found is None and may_lack:
        return None
    if found is None or found not in columns:
        what = " or ".join(LABEL_COLUMNS) if wanted is None else f"'{wanted}'"
        raise UserError(f"{path} has no column {what}: name the one with the labels by --label-column, of {columns}.")
    return found
