"""Splits by set algebra, the shuffle against splitmix64 in Python's own integers."""

import hashlib
from pathlib import Path
from random import Random
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ict.base.errors import UserError
from ict.data import split as splits
from ict.data.split import Indices, shuffled

Unlabeled = Literal["rest", "disjoint", "all"]
LABELS = np.arange(1200) * 7 % 10


def splitmix64(state: int) -> int:
    mask = 2**64 - 1
    z = (state + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
    return z ^ z >> 31


def test_the_oracle_is_splitmix64() -> None:
    assert splitmix64(1234567) == 6457827717110365317  # the reference implementation's first output


@given(st.integers(0, 300), st.integers(0, 2**63 - 1))
def test_shuffled_orders_rows_by_splitmix64(n: int, key: int) -> None:
    order = shuffled(n, key)
    assert order.dtype == np.int64
    assert order.tolist() == sorted(range(n), key=lambda i: splitmix64(key + i))


def test_shuffled_uses_every_bit() -> None:
    n, key = 200_000, 3  # enough rows for some to differ in their low bits alone
    assert shuffled(n, key).tolist() == sorted(range(n), key=lambda i: splitmix64(key + i))


def test_shuffled_moves_most_rows_and_depends_on_the_key() -> None:
    a, b = shuffled(1000, 1), shuffled(1000, 2**40)
    assert (a == np.arange(1000)).sum() < 10
    assert (a == b).sum() < 10


@given(
    extra=st.lists(st.integers(-1, 3), max_size=30),
    order=st.randoms(use_true_random=False),
    per_class=st.integers(1, 4),
    valid_per_class=st.integers(0, 4),
    unlabeled=st.sampled_from(["rest", "disjoint", "all"]),
    seed=st.integers(0, 2**31),
)
def test_exact_counts_of_every_class_and_nothing_twice(
    extra: list[int], order: Random, per_class: int, valid_per_class: int, unlabeled: Unlabeled, seed: int
) -> None:
    n_classes = 4
    values = [*range(n_classes)] * (per_class + valid_per_class) + extra
    order.shuffle(values)
    labels = np.array(values)
    found = splits.split(
        labels,
        labeled=per_class * n_classes,
        valid=valid_per_class * n_classes,
        unlabeled=unlabeled,
        n_classes=n_classes,
        seed=seed,
    )
    labeled, valid, rest = (set(a.tolist()) for a in (found.labeled, found.valid, found.unlabeled))
    everything = set(range(len(labels)))
    assert labeled.isdisjoint(valid)
    assert rest == {"rest": everything - valid, "disjoint": everything - valid - labeled, "all": everything}[unlabeled]
    for rows, count in ((found.labeled, per_class), (found.valid, valid_per_class)):
        assert np.bincount(labels[rows], minlength=n_classes).tolist() == [count] * n_classes
    for rows in (found.labeled, found.valid, found.unlabeled):
        assert rows.dtype == np.int64
        assert rows.tolist() == sorted(set(rows.tolist()))


def make(seed: int = 1, labeled: int = 40, valid: int = 100) -> Indices:
    return splits.split(LABELS, labeled=labeled, valid=valid, unlabeled="rest", n_classes=10, seed=seed)


def test_one_split_for_ever() -> None:
    found = make()
    stored = b"".join(rows.astype("<i8").tobytes() for rows in (found.labeled, found.valid, found.unlabeled))
    assert hashlib.sha256(stored).hexdigest() == "096772b961e261f64211a06cc792efcb8d6f630201e355dbf530759f8ceda57f"


def test_seeds_and_classes_differ() -> None:
    assert set(make(1).labeled.tolist()) != set(make(2).labeled.tolist())
    # Every class has rows in the same places of its own list, so one shared key would choose alike.
    rows_of = [np.flatnonzero(np.equal(LABELS, label)) for label in range(10)]
    places = {tuple(np.flatnonzero(np.isin(rows, make().labeled))) for rows in rows_of}
    assert len(places) == 10


def test_validation_rows_come_first_so_they_do_not_depend_on_the_number_of_labels() -> None:
    assert make(labeled=40).valid.tolist() == make(labeled=400).valid.tolist()
    assert set(make(labeled=40).labeled.tolist()) < set(make(labeled=400).labeled.tolist())


@pytest.mark.parametrize(
    ("labeled", "valid", "message"),
    [
        (41, 0, "labeled is 41: it must be a multiple of 10"),
        (40, 5, "valid is 5: it must be a multiple of 10"),
        (40, -10, "valid is -10"),
        (0, 0, "labeled is 0: it must be above 0"),
        (1200, 10, "class 0 has 120 labeled examples but needs 121"),
    ],
)
def test_counts_that_cannot_be_met(labeled: int, valid: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make(labeled=labeled, valid=valid)


def test_given_takes_the_datas_word() -> None:
    labels = np.array([2, -1, 0, 1, -1])
    found = splits.given(labels, None)
    assert (found.labeled.tolist(), found.valid.tolist()) == ([0, 2, 3], [])
    assert found.unlabeled.tolist() == [0, 1, 2, 3, 4]
    assert splits.given(labels, np.array([3, 0])).labeled.tolist() == [0, 3]
    for rows in ([0, 1], []):
        with pytest.raises(UserError, match="the labeled rows"):
            splits.given(labels, np.array(rows, dtype=np.int64))


def test_saved_and_loaded(tmp_path: Path) -> None:
    path = tmp_path / "split.npz"
    path.write_bytes(b"an older file")
    make().save(path)
    assert list(tmp_path.iterdir()) == [path]
    loaded = Indices.load(path)
    for name in ("labeled", "valid", "unlabeled"):
        rows = getattr(loaded, name)
        assert rows.dtype == np.int64
        assert rows.tolist() == getattr(make(), name).tolist()


def test_an_interrupted_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "split.npz"
    make(1).save(path)

    def cut(file: Any, **_: Any) -> None:
        file.write(b"PK")
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez", cut)
    with pytest.raises(OSError, match="no space"):
        make(2).save(path)
    assert Indices.load(path).labeled.tolist() == make(1).labeled.tolist()


@pytest.mark.parametrize("damage", ["missing", "text", "cut", "array", "pickle"])
def test_a_damaged_split_is_the_users_to_mend(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "split.npz"
    make().save(path)
    if damage == "missing":
        path.unlink()
    elif damage == "text":
        path.write_text("rows")
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "array":
        with path.open("wb") as file:
            np.save(file, np.arange(3))
    else:
        with path.open("wb") as file:
            np.savez(file, labeled=np.array([{}], dtype=object), valid=np.arange(1), unlabeled=np.arange(1))
    with pytest.raises(UserError, match=r"split\.npz (cannot be read|is not a saved split|holds Python objects)"):
        Indices.load(path)
