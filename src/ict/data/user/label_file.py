"""Reads a file of labels: a CSV with a header, one column that names examples and one with labels.

    example,label
    unlabeled/17.jpg,cat
    unlabeled/18.jpg,

An example is a path or, of a table or an array, a row such as `row 12`. A path starts at the folder of the examples, at
the file's own folder or at the working folder. A blank label is an unknown one. Cells may be separated by semicolons or
tabs, as spreadsheets write them.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from ict.base.errors import UserError
from ict.data.labels import find_label_column, is_unlabeled_text
from ict.data.user.folder_files import labels_by_folder
from ict.data.user.records import ReadOptions, UserData, label_strings
from ict.data.user.remarks import counted, listed, unlabeled_rows, word
from ict.data.user.text_files import csv_rows, text_of

EXAMPLE_COLUMNS = ("example", "path", "file", "filename", "image")  # in any case; without one, the first other column
_SEPARATORS = ",;\t"


@dataclass(frozen=True)
class FileLabels:
    """The labels of a file by example, and remarks on what was left out."""

    known: dict[str, str]  # without blank ones
    remarks: tuple[str, ...] = ()


def read_label_file(
    path: Path, names: Sequence[str], source: Path, what: str, column: str | None = None, skip_bad: bool = False
) -> FileLabels:
    """The labels that a file gives the examples `names` of `source`; `what` is the word for one of these."""
    header, lines = _lines(path)
    if len(header) < 2 or _normal(header[0]) in names:
        raise UserError(f"{path} lacks a header with two columns: make its first line `example,label`.")
    name_at, label_at = _columns(header, path, column)
    found, lines_of = _Names(names, source, path), dict[str, int]()
    known: dict[str, str] = {}
    missing, torn, blank = list[str](), list[str](), list[str]()
    for line, row in lines:
        cells = row + [""] * (len(header) - len(row))
        label = cells[label_at]
        if is_unlabeled_text(label):
            blank.append(label)
            continue
        name = found(cells[name_at])
        if name is None:
            missing.append(f"'{cells[name_at]}' in line {line}")
        elif known.setdefault(name, label) != label:
            torn.append(f"'{name}' is '{known[name]}' in line {lines_of[name]} and '{label}' in line {line}")
        else:
            lines_of.setdefault(name, line)
    if torn:
        raise UserError(f"{path} gives one {what} two labels: {listed(torn)}; keep one of them.")
    if missing and not skip_bad:
        raise UserError(
            f"{path} has labels for names that are no {what} of {source}: {listed(missing)}; "
            "fix the names, or add --skip-bad to leave such lines out."
        )
    left_out = f"{counted(len(missing), 'line', 'lines')} of {path} without {_a(what)}"
    were = "was" if len(missing) == 1 else "were"
    remarks = [f"{left_out} {were} left out: {listed(missing)}"] if missing else []
    return FileLabels(known, (*remarks, *unlabeled_rows(blank, what)))


def names_examples(path: Path) -> bool:
    """Whether a file of labels names examples: a CSV with a header of several columns, one of them for labels."""
    if path.suffix.lower() != ".csv":
        return False
    header, _ = _lines(path)
    return len(header) > 1 and find_label_column(header) is not None


def folder_labels(names: Sequence[str], folder: Path, what: str, options: ReadOptions) -> FileLabels:
    """The labels of the files of a folder: of class folders, of the file of labels, or of both."""
    by_folder = labels_by_folder(names)
    if options.labels is None:
        return FileLabels(by_folder)
    given = read_label_file(options.labels, names, folder, what, options.label_column, options.skip_bad)
    if remark := about_other_folders(names, given.known.values(), str(options.labels)):
        return FileLabels(given.known, (*given.remarks, remark))
    return _merged(by_folder, given, options.labels)


def about_other_folders(names: Sequence[str], labels: Collection[str], where: str) -> str | None:
    """A remark where first-level folders name no classes: none is for unlabeled examples, and labels have other names.

    `where` there are the labels.
    """
    folders = {name.split("/")[0] for name in names if "/" in name}
    classes = set(labels_by_folder(names).values())
    if not labels or not classes or len(classes) < len(folders) or not classes.isdisjoint(labels):
        return None
    are = "the folder names no class" if len(classes) == 1 else "the folders name no classes"
    return f"{are}, since {where} has no such label: {listed(sorted(classes))}"


def _merged(by_folder: dict[str, str], given: FileLabels, path: Path) -> FileLabels:
    """Labels of class folders and of a file together."""
    torn = [f"'{name}' is '{label}'" for name, label in given.known.items() if by_folder.get(name, label) != label]
    if torn:
        raise UserError(f"{path} and the folders differ: {listed(torn)}; move them to another folder or fix the lines.")
    return FileLabels({**by_folder, **given.known}, given.remarks)


def with_labels(data: UserData, path: Path, source: Path, skip_bad: bool) -> UserData:
    """The data with the labels of a file besides those that there are."""
    given = read_label_file(path, data.names, source, word(data.items, 1), skip_bad=skip_bad)
    own = {name: label for name, label in zip(data.names, data.y, strict=True) if label is not None}
    torn = [name for name, label in given.known.items() if own.get(name, label) != label]
    if torn:
        raise UserError(f"{path} gives {listed(torn)} another label than {source} or another file: keep one of them.")
    y = label_strings({**own, **given.known}.get(name) for name in data.names)
    return replace(data, y=y, remarks=(*data.remarks, *given.remarks))


class _Names:
    """Finds the example that a cell means."""

    def __init__(self, names: Sequence[str], source: Path, labels: Path) -> None:
        self._names = set(names)
        self._source = source.resolve()
        self._bases = (labels.resolve().parent, Path.cwd())

    def __call__(self, cell: str) -> str | None:
        name = _normal(cell)
        if name in self._names:
            return name
        for base in self._bases:
            path = os.path.normpath(base / name)
            if path.startswith(f"{self._source}{os.sep}"):
                inside = Path(path).relative_to(self._source).as_posix()
                if inside in self._names:
                    return inside
        return None


def _lines(path: Path) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The cells of the header, and of each other line that is not blank, with its number."""
    text = text_of(path)
    first = text.partition("\n")[0]
    rows = csv_rows(path, text, max(_SEPARATORS, key=first.count))  # a comma where none occurs
    lines = [(i, [cell.strip() for cell in row]) for i, row in enumerate(rows, 1)]
    filled = [(i, row) for i, row in lines if any(row)]
    return (filled[0][1] if filled else []), iter(filled[1:])


def _columns(header: list[str], path: Path, wanted: str | None) -> tuple[int, int]:
    """The positions of the columns of examples and labels: by name, otherwise the first columns."""
    if wanted is not None and wanted not in header:
        raise UserError(f"{path} has no column '{wanted}': name another with --label-column, of {header}.")
    column = find_label_column(header) if wanted is None else wanted
    label_at = None if column is None else header.index(column)
    lower = [name.casefold() for name in header]
    others = [i for i in range(len(header)) if i != label_at]
    name_at = next((lower.index(name) for name in EXAMPLE_COLUMNS if name in lower), others[0])
    if label_at is None:
        label_at = next(i for i in range(len(header)) if i != name_at)
    return name_at, label_at


def _normal(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).as_posix()  # without a leading ./


def _a(what: str) -> str:
    return f"an {what}" if what[0] in "aeiou" else f"a {what}"
