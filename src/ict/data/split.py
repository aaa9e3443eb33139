"""The split into labeled, validation and unlabeled rows: a function of labels and seed, the same on every machine."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ict.base.errors import UserError
from ict.base.fields import positive
from ict.base.files import write_atomic
from ict.base.rng import Use, fold
from ict.data.numpy_file import load_npz


def shuffled(n: int, key: int) -> NDArray[np.int64]:
    """A permutation of range(n) that does not depend on library versions: the order of splitmix64(key + index)."""
    mixed = np.arange(n, dtype=np.uint64) + np.uint64(key) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return np.argsort(mixed, kind="stable").astype(np.int64)


@dataclass(frozen=True)
class Indices:
    """Rows of the training examples, each array in ascending order."""

    labeled: NDArray[np.int64]
    valid: NDArray[np.int64]
    unlabeled: NDArray[np.int64]
    owner: str = ""  # the run that it was saved for; files of release 0.1.0 do not say it

    def save(self, path: Path) -> None:
        content = io.BytesIO()
        np.savez(content, **{name: value for name, value in vars(self).items() if name != "owner" or value})
        write_atomic(path, content.getvalue())

    @classmethod
    def load(cls, path: Path) -> "Indices":
        names = ("labeled", "valid", "unlabeled")
        stored, _ = load_npz(path, (*names, "owner"))
        rows = [stored.get(name) for name in names]
        if any(row is None or row.ndim != 1 or row.dtype.kind not in "iu" for row in rows):
            raise UserError(f"{path} is not a saved split: restore or delete it.")
        labeled, valid, unlabeled = (row.astype(np.int64) for row in rows if row is not None)
        return cls(labeled, valid, unlabeled, str(stored.get("owner", "")))


def split(
    labels: NDArray[Any],
    *,
    labeled: int,
    valid: int,
    unlabeled: Literal["rest", "disjoint", "all"],
    n_classes: int,
    seed: int,
) -> Indices:
    """Draw a split with the same number of labeled rows, and of validation rows, in every class.

    Unlabeled are all rows except validation, including the labeled ones ("rest", as in the ICT authors' program), or
    all except validation and labeled rows ("disjoint"), or all rows ("all", as in the paper's text).
    """
    positive(labeled=labeled)
    for name, count in (("labeled", labeled), ("valid", valid)):
        if count < 0 or count % n_classes:
            raise UserError(f"{name} is {count}: it must be a multiple of {n_classes}, the number of classes.")
    n_valid, needed = valid // n_classes, (valid + labeled) // n_classes
    held_out, known = [], []
    for label in range(n_classes):
        rows = np.flatnonzero(labels == label)
        if len(rows) < needed:
            raise UserError(
                f"class {label} has {len(rows)} labeled examples but needs {needed}: lower labeled or valid."
            )
        rows = rows[shuffled(len(rows), fold(seed, Use.SPLIT, label))]
        held_out.append(rows[:n_valid])
        known.append(rows[n_valid:needed])
    validation, chosen = np.sort(np.concatenate(held_out)), np.sort(np.concatenate(known))
    left_out = {"rest": validation, "disjoint": np.union1d(validation, chosen), "all": validation[:0]}
    return Indices(chosen, validation, np.setdiff1d(np.arange(len(labels)), left_out[unlabeled]))


def given(labels: NDArray[Any], labeled_rows: NDArray[Any] | None) -> Indices:
    """The split of the data itself: the rows that it names as labeled, or else all rows with a label."""
    known = np.flatnonzero(labels >= 0) if labeled_rows is None else np.sort(labeled_rows).astype(np.int64)
    if len(known) == 0 or (labels[known] < 0).any():
        raise UserError("the labeled rows must be at least one row and have labels of 0 or more.")
    return Indices(known, known[:0], np.arange(len(labels)))
