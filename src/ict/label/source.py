"""What there is to label, as a person sees it: the names at once, a picture, text or row when it is asked for.

No features are computed here, so that the first question can be asked while another process computes them.
"""

import io
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from ict.base.array_types import Array
from ict.base.errors import UserError
from ict.data.user import texts
from ict.data.user.folder_files import files_in, labels_by_folder
from ict.data.user.image_file import SUFFIXES, header, whole
from ict.data.user.label_file import about_other_folders
from ict.data.user.read import TABLES, item_kind, read_data
from ict.data.user.records import Items, digest, label_strings
from ict.data.user.remarks import word
from ict.data.user.table_cells import table_cells
from ict.data.user.tables import text_blocks

_EXACT = 256  # largest side of a picture that is sent without loss
_LONGEST = 20_000  # characters of a text that are shown
_MOST = 200  # numbers of an array's row that are shown
_FOLDERS = (
    " Class folders give labels: put the others into a folder 'unlabeled', or name the classes with --classes if these "
    "folders are something else."
)

Cells = list[tuple[str, str]]  # columns and values


@dataclass(frozen=True)
class Source:
    """The examples of a file or a folder, by row. `show` raises a UserError for one that cannot be read."""

    items: Items
    names: tuple[str, ...]
    given: dict[int, str]  # labels that are there already
    show: Callable[[int], str | Cells]  # the text, or the cells of a row; "" for a picture
    digest: Callable[[int], str]  # of a row's content, as its reader computes it
    picture: Callable[[int, int], bytes] | None = None  # of a row, within a side
    remarks: tuple[str, ...] = ()


def open_source(
    path: Path, label_column: str | None = None, text_column: str | None = None, classes: Collection[str] = ()
) -> Source:
    """The source at a path, with the names and labels that `ict fit` reads there.

    `classes`: the names that are known. Folders with other names only, none of them for unlabeled ones, are no classes.
    """
    items = item_kind(path, text_column)
    if path.is_dir():
        if label_column is not None:
            raise UserError(f"--label-column {label_column} needs a table, but {path} is a folder: leave it out.")
        source = _photos(path, classes) if items == "photos" else _text_files(path, classes)
    elif items == "texts":
        source = _text_rows(path, text_column, label_column)
    elif path.suffix.lower() in TABLES:
        cells = table_cells(path, label_column)
        source = Source("numbers", cells.names, _known(cells.labels), cells.row, cells.digest)
    else:
        source = _arrays(path)
    if len(source.given) == len(source.names):
        raise UserError(
            f"every {word(items, 1)} of {path} has a label already, so there is nothing to ask."
            + (_FOLDERS if path.is_dir() else "")
        )
    return source


def _photos(folder: Path, classes: Collection[str]) -> Source:
    names, _, _ = files_in(folder, SUFFIXES, "photo")
    root = folder.resolve()

    def picture(row: int, side: int) -> bytes:
        found = whole(folder / names[row], root, side)
        if isinstance(found, str):
            raise UserError(f"{folder / names[row]} {found}: skip it.")
        return _encoded(found)

    def content(row: int) -> str:
        found = header(folder / names[row], root)
        if isinstance(found, str):
            raise UserError(f"{folder / names[row]} {found}: skip it.")
        return found.digest.hex()[:32]

    given, remarks = _folder_labels(names, classes)
    return Source("photos", tuple(names), given, lambda _: "", content, picture, remarks)


def _text_files(folder: Path, classes: Collection[str]) -> Source:
    names, _, _ = files_in(folder, texts.SUFFIXES, "text")

    def text(row: int) -> str:
        found = texts.text_in(folder, names[row])
        if found is None:
            raise UserError(f"{folder / names[row]} cannot be read as a text: skip it.")
        return found

    given, remarks = _folder_labels(names, classes)
    return Source(
        "texts",
        tuple(names),
        given,
        lambda row: text(row)[:_LONGEST],
        lambda row: digest(text(row).encode("utf-8", "surrogatepass")),
        remarks=remarks,
    )


def _text_rows(path: Path, text_column: str | None, label_column: str | None) -> Source:
    blocks = list(text_blocks(path, text_column, label_column, skip_bad=True))
    found, labels, names = ([value for block in blocks for value in block[i]] for i in range(3))
    if not found:
        raise UserError(f"{path} has no text in '{text_column}': name another column.")
    return Source(
        "texts",
        tuple(names),
        _known(label_strings(labels)),
        lambda row: found[row][:_LONGEST],
        lambda row: digest(found[row].encode("utf-8", "surrogatepass")),
    )


def _arrays(path: Path) -> Source:
    data = read_data(path, skip_bad=True)
    given, x = _known(data.y), data.x
    if x.ndim == 2:
        return Source("numbers", data.names, given, lambda row: _numbers(x[row]), lambda row: data.digests[row])

    def picture(row: int, side: int) -> bytes:
        image = Image.fromarray(x[row]).convert("RGB")
        image.thumbnail((side, side))
        return _encoded(image)

    return Source("numbers", data.names, given, lambda _: "", lambda row: digest(x[row]), picture)


def _numbers(values: Array) -> Cells:
    return [(str(i), f"{value:g}") for i, value in enumerate(values[:_MOST], 1)]


def _known(labels: Iterable[str | None]) -> dict[int, str]:
    return {row: label for row, label in enumerate(labels) if label is not None}


def _folder_labels(names: list[str], classes: Collection[str]) -> tuple[dict[int, str], tuple[str, ...]]:
    """The labels of class folders, and a remark on folders that are no classes."""
    if remark := about_other_folders(names, classes, "the list of classes"):
        return {}, (remark,)
    by_folder = labels_by_folder(names)
    return _known(label_strings(by_folder.get(name) for name in names)), ()


def _encoded(image: Image.Image) -> bytes:
    """As a PNG or a JPEG: what browsers show, and without the metadata of the file."""
    file = io.BytesIO()
    if max(image.size) <= _EXACT:
        image.save(file, "PNG")
    else:
        image.save(file, "JPEG", quality=88)
    return file.getvalue()
