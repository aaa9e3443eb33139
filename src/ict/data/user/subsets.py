"""The user's training, validation and test examples: given as files, or split without duplicates across subsets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ict.base.array_types import Rows
from ict.base.errors import UserError
from ict.data.columns.kinds import Asked
from ict.data.labels import UNLABELED
from ict.data.user.read import read_data
from ict.data.user.records import Embed, Progress, UserData
from ict.data.user.remarks import counted, listed, word

Choose = Callable[[Rows], tuple[Rows, Rows]]  # from labels, -1 where unknown, to validation rows and test rows


@dataclass(frozen=True)
class GivenSubsets:
    """All data that was read, one subset after the other."""

    data: UserData
    sources: tuple[Path, ...]  # the files and folders, into which nothing may be written
    valid: Rows | None = None  # rows of `data`; None if the fit chooses them
    test: Rows | None = None


@dataclass(frozen=True)
class Subsets:
    """Rows of the data in ascending order. `train` includes the unlabeled ones."""

    train: Rows
    valid: Rows
    test: Rows
    remarks: tuple[str, ...]


def read_subsets(
    path: Path,
    *,
    valid: Path | None = None,
    test: Path | None = None,
    labels: Path | Sequence[Path] | None = None,
    label_column: str | None = None,
    size: int | None = None,
    skip_bad: bool = False,
    progress: Progress | None = None,
    embed: Embed | None = None,
    text_column: str | None = None,
    group_column: str | None = None,
    unlabeled: bool = False,
    columns: Mapping[str, Asked] | None = None,
) -> GivenSubsets:
    """Read data with `read_data`, and subsets of the same kind, which must contain their labels."""
    given = [labels] if isinstance(labels, Path) else list(labels or ())
    data = read_data(
        path,
        labels=given,
        label_column=label_column,
        size=size,
        skip_bad=skip_bad,
        progress=progress,
        embed=embed,
        text_column=text_column,
        group_column=group_column,
        unlabeled=unlabeled,
        columns=columns,
    )
    classes = {label for label in data.y if label is not None}
    pieces, rows, start = [data], {}, len(data.names)
    if data.checks:
        rows["test"] = _checks(data, listed([f"{file}" for file in given]), test)
    for name, source in (("valid", valid), ("test", test)):
        if source is None:
            continue
        images = data.x.ndim > 2 and source.is_dir()
        subset = read_data(
            source,
            label_column=None if source.is_dir() else label_column,
            size=data.x.shape[1] if images else None,
            gray=data.x.ndim == 3 if images else None,
            skip_bad=skip_bad,
            progress=progress,
            embed=embed,
            beside=data.beside,
            text_column=text_column,
            group_column=group_column,
            table=data.table,
        )
        pieces.append(_alike(subset, source, data, path, classes))
        rows[name] = np.arange(start, start + len(subset.names))
        start += len(subset.names)
    sources = tuple(source for source in (path, valid, test) if source is not None)
    return GivenSubsets(_joined(pieces) if len(pieces) > 1 else data, sources, **rows)


def _checks(data: UserData, labels: str, test: Path | None) -> Rows:
    """The rows that the labeling page asked for at random, as a test set."""
    if test is not None:
        raise UserError(f"{labels} has random checks, which are the test: leave out --test.")
    checks = np.array(data.checks, np.intp)
    trained = set(np.delete(data.y, checks)) - {None}
    if unknown := sorted(set(data.y[checks]) - trained):
        raise UserError(
            f"{labels} has {listed(unknown)} in random checks alone, which are never trained on: label another "
            f"{word(data.items, 1)} of it."
        )
    return checks


def arrange(given: GivenSubsets, labels: Rows, choose: Choose) -> Subsets:
    """Divide the rows into training, validation and test rows.

    Duplicates follow a row that `choose` takes: labeled ones into its subset, unlabeled ones out of training, since a
    test on training examples would be too good. Given subsets stay unchanged, with a remark about duplicates.
    """
    data, twins = given.data, given.data.twins
    mine = np.ones(len(labels), np.bool_)
    for rows in (given.valid, given.test):
        if rows is not None:
            mine[rows] = False
    own = np.where(mine, labels, UNLABELED)
    labeled = np.flatnonzero(own >= 0)
    first = labeled[np.unique(twins[labeled], return_index=True)[1]]
    once = np.full_like(own, UNLABELED)
    once[first] = own[first]
    chosen = dict(zip(("valid", "test"), choose(once), strict=True))
    chosen |= {name: first[:0] for name in ("valid", "test") if getattr(given, name) is not None}
    taken = np.isin(twins, twins[np.concatenate(list(chosen.values()))])
    if set(own[labeled]) - set(own[labeled[~taken[labeled]]]):  # a class whose examples are in another class as well
        chosen, taken = dict.fromkeys(chosen, first[:0]), np.zeros_like(taken)
    train = np.flatnonzero(mine & ~taken)
    subsets = {name: labeled[np.isin(twins[labeled], twins[rows])] for name, rows in chosen.items()}
    remarks, one, several = [], word(data.items, 1), word(data.items)
    if (copies := np.setdiff1d(labeled, first)).size:
        are = counted(len(copies), f"labeled {one} is", f"labeled {several} are")
        remarks.append(f"{are} the same as another and kept on its side of the split: {_pairs(data, copies)}")
    if (out := np.flatnonzero(mine & taken & (labels < 0))).size:
        were = counted(len(out), f"unlabeled {one} was", f"unlabeled {several} were")
        remarks.append(f"{were} left out of training, being the same as a held-out one: {_pairs(data, out)}")
    for name in ("valid", "test"):
        if (rows := getattr(given, name)) is not None:
            subsets[name] = rows
            others = {"labeled training": train[labels[train] >= 0], "unlabeled training": train[labels[train] < 0]}
            for kind, of in (others | ({"validation": subsets["valid"]} if name == "test" else {})).items():
                if (same := rows[np.isin(twins[rows], twins[of])]).size:
                    are = counted(len(same), f"{name} {one} is", f"{name} {several} are")
                    remarks.append(f"{are} the same as {kind} {several}: {_pairs(data, same)}")
    return Subsets(train, subsets["valid"], subsets["test"], tuple(remarks))


def _pairs(data: UserData, rows: Rows) -> str:
    """Each row, and the first row with the same content if that is another."""
    firsts = data.twins[rows]
    return listed(
        [data.names[i] + (f" = {data.names[j]}" if i != j else "") for i, j in zip(rows, firsts, strict=True)]
    )


def _alike(subset: UserData, source: Path, data: UserData, path: Path, classes: set[str]) -> UserData:
    """A subset with its file or folder in the names, and its columns in the order of the main data's."""
    names = tuple(f"{source / name}" if source.is_dir() else f"{source} {name}" for name in subset.names)
    unlabeled = [name for name, label in zip(subset.names, subset.y, strict=True) if label is None]
    if unlabeled:
        has = counted(len(unlabeled), word(data.items, 1), word(data.items))
        raise UserError(f"{source} has {has} without a label, such as {unlabeled[0]}: label or remove them.")
    if strange := sorted(set(subset.y) - classes):
        raise UserError(f"{source} has classes that {path} does not have ({listed(strange)}): label some there too.")
    x = subset.x
    if data.columns and subset.columns:
        if set(data.columns) != set(subset.columns):
            differing = sorted(set(data.columns) ^ set(subset.columns))
            raise UserError(f"{source} and {path} differ in the columns {listed(differing)}: give both the same.")
        x = x[:, [subset.columns.index(name) for name in data.columns]]
    if x.ndim == 3 and data.x.ndim == 4:
        x = np.repeat(x[..., None], 3, axis=3)
    if x.shape[1:] != data.x.shape[1:]:
        raise UserError(
            f"{source} holds {word(data.items)} of the shape {x.shape[1:]}, but {path} of {data.x.shape[1:]}: "
            "make them alike."
        )
    remarks = tuple(f"{source}: {remark}" for remark in subset.remarks)
    return replace(subset, x=x, names=names, remarks=remarks)


def _joined(pieces: list[UserData]) -> UserData:
    groups = [piece.groups for piece in pieces if piece.groups is not None]
    texts = [text for piece in pieces for text in piece.texts or ()]
    return replace(
        pieces[0],
        x=np.concatenate([piece.x for piece in pieces]),
        y=np.concatenate([piece.y for piece in pieces]),
        names=tuple(name for piece in pieces for name in piece.names),
        remarks=tuple(remark for piece in pieces for remark in piece.remarks),
        image=_image_of(pieces) if pieces[0].image else None,
        groups=np.concatenate(groups) if groups else None,
        contents=None,
        texts=tuple(texts) if texts else None,
        checks=(),
    )


def _image_of(pieces: list[UserData]) -> Callable[[int], NDArray[np.uint8]]:
    """The image of a row of all pieces."""
    starts = np.cumsum([0, *(len(piece.names) for piece in pieces)])

    def image(row: int) -> NDArray[np.uint8]:
        at = int(np.searchsorted(starts, row, side="right")) - 1
        picture = pieces[at].image
        assert picture is not None, "all pieces are of one kind"
        return picture(row - int(starts[at]))

    return image
