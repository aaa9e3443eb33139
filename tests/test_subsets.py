"""Subsets that are given or split off: who is in which, and that no subset knows another's examples."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ict.base.errors import UserError
from ict.data.user.records import UserData, label_strings
from ict.data.user.subsets import GivenSubsets, Subsets, arrange, read_subsets
from tests.test_cli import ict
from tests.test_user_data import noise, save, two_classes

NOTHING = np.empty(0, np.int64)


def some(x: list[list[float]], y: str, **rows: Any) -> tuple[GivenSubsets, Any]:
    """Examples with a letter each for the label, '-' where it is unknown."""
    names = tuple(f"e{i}" for i in range(len(x)))
    data = UserData(np.array(x, np.float32), label_strings([None if c == "-" else c for c in y]), names, ())
    codes = np.array([-1 if c == "-" else sorted(set(y) - {"-"}).index(c) for c in y])
    return GivenSubsets(data, (), **{name: np.array(value) for name, value in rows.items()}), codes


def as_lists(found: Subsets) -> tuple[list[int], list[int], list[int]]:
    return found.train.tolist(), found.valid.tolist(), found.test.tolist()


def test_the_same_content_is_on_one_side_and_told() -> None:
    given, labels = some([[1], [2], [1], [3], [2], [1], [4], [5], [6]], "abab--aba")
    seen = []

    def split(known: Any) -> tuple[Any, Any]:
        seen.append(known.tolist())
        return np.array([6]), np.array([0])

    found = arrange(given, labels, split)
    assert seen == [[0, 1, -1, 1, -1, -1, 0, 1, 0]], "of each content one example with a label is shown"
    assert as_lists(found) == ([1, 3, 4, 7, 8], [6], [0, 2])
    assert found.remarks == (
        "1 labeled row is the same as another and kept on its side of the split: e2 = e0",
        "1 unlabeled row was left out of training, being the same as a held-out one: e5 = e0",
    )


def test_what_is_given_is_not_split_and_what_it_shares_is_told() -> None:
    given, labels = some([[1], [2], [3], [4], [1], [3], [5], [5]], "ab--abaa", valid=[6], test=[4, 5, 7])

    def split(known: Any) -> tuple[Any, Any]:
        assert known.tolist() == [0, 1, -1, -1, -1, -1, -1, -1], "rows of the other subsets are hidden"
        return NOTHING, np.array([0])

    found = arrange(given, labels, split)
    assert as_lists(found) == ([0, 1, 2, 3], [6], [4, 5, 7]), "nothing is held out besides"
    assert found.remarks == (
        "1 test row is the same as labeled training rows: e4 = e0",
        "1 test row is the same as unlabeled training rows: e5 = e2",
        "1 test row is the same as validation rows: e7 = e6",
    )
    given, labels = some([[1], [2], [3], [1], [6]], "abaab", valid=[3])
    found = arrange(given, labels, lambda known: (np.array([0]), np.array([1])))
    assert as_lists(found) == ([0, 2, 4], [3], [1]), "a test set is still split off"


def test_a_class_that_would_have_nothing_left_to_train_on_keeps_everything_in_training() -> None:
    given, labels = some([[1], [2], [3], [1]], "aaab")
    assert as_lists(arrange(given, labels, lambda known: (NOTHING, np.array([0])))) == ([0, 1, 2, 3], [], [])
    assert as_lists(arrange(given, labels, lambda known: (NOTHING, np.array([1])))) == ([0, 2, 3], [], [1])


def test_nothing_the_same_and_nothing_given() -> None:
    given, labels = some([[i] for i in range(6)], "aabb--")
    found = arrange(given, labels, lambda known: (NOTHING, np.array([1, 3])))
    assert (as_lists(found), found.remarks) == (([0, 2, 4, 5], [], [1, 3]), ())


def write(path: Path, header: str, lines: list[str]) -> Path:
    pytest.importorskip("pandas")
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_tables_are_joined_by_column(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "p,q,y", ["1,2,u", "3,4,v", "5,6,"])
    test = write(tmp_path / "t.csv", "y,q,p", ["v,8,7"])
    given = read_subsets(path, test=test)
    assert given.data.x.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert given.data.y.tolist() == ["u", "v", None, "v"]
    assert given.data.names == ("row 1", "row 2", "row 3", f"{test} row 1")
    assert given.test is not None and given.test.tolist() == [3] and given.valid is None
    assert given.sources == (path, test)
    both = read_subsets(path, valid=test, test=test)
    assert both.valid is not None and both.test is not None
    assert (both.valid.tolist(), both.test.tolist(), len(both.data.x)) == ([3], [4], 5)


@pytest.mark.parametrize(
    ("header", "lines", "words"),
    [
        ("p,q,y", ["1,2,"], r"t\.csv has 1 row without a label, such as row 1"),
        ("p,q,y", ["1,2,w", "1,2,z"], "classes that .* does not have .w, z."),
        ("p,r,y", ["1,2,u"], "lacks columns that the model is fitted to: add q"),
        ("p,q,y", ["1,red,u"], "'red' instead of a finite number in the column 'q' in row 1"),
    ],
)
def test_subsets_that_do_not_fit(header: str, lines: list[str], words: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "p,q,y", ["1,2,u", "3,4,v"])
    test = write(tmp_path / "t.csv", header, lines)
    for name in ("valid", "test"):
        with pytest.raises(UserError, match=words):
            read_subsets(path, valid=test if name == "valid" else None, test=test if name == "test" else None)


def test_images_take_the_size_and_the_mode_of_those_trained_on(tmp_path: Path) -> None:
    arrays = two_classes(tmp_path / "gray")
    color = noise(40, 16, 16, 3)
    save(tmp_path / "color/cat/x.png", color)
    save(tmp_path / "color/cat/big.png", noise(41, 48, 48))
    given = read_subsets(tmp_path / "gray", test=tmp_path / "color")
    assert given.data.x.shape == (7, 16, 16), "one class alone is enough to test on"
    assert np.array_equal(given.data.x[:5], np.stack(list(arrays.values())))
    assert f"{tmp_path / 'color'}: 1 photo in color was made gray: cat/x.png" in given.data.remarks
    save(tmp_path / "color/dog/y.png", noise(42, 16, 16))
    given = read_subsets(tmp_path / "color", valid=tmp_path / "gray/../color", size=16)
    assert given.data.x.shape == (6, 16, 16, 3)
    assert np.array_equal(given.data.x[1], color)
    np.savez(tmp_path / "g.npz", x=noise(43, 2, 16, 16), y=np.array(["cat", "dog"]))
    given = read_subsets(tmp_path / "color", test=tmp_path / "g.npz", size=16)
    assert np.array_equal(given.data.x[3:], np.repeat(noise(43, 2, 16, 16)[..., None], 3, axis=3))
    with pytest.raises(UserError, match=r"shape \(16, 16, 3\), but .* of \(8, 8, 3\)"):
        read_subsets(tmp_path / "color", test=tmp_path / "g.npz", size=8)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(2, 3)) * 9

    def lines(n: int, known: int) -> list[list[Any]]:
        return [[*(centers[i % 2] + rng.normal(size=3)), "ab"[i % 2] if i < known else ""] for i in range(n)]

    train, test = lines(60, 20), lines(10, 10)
    test[0][:3] = train[30][:3]
    for name, some in (("train", train), ("test", test)):
        with Path(f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["f", "g", "h", "label"], *some])
    assert ict(monkeypatch, "fit", "train.csv", "--test", "test.csv", "--valid", "test.csv", "--method", "graph") == 0
    said = capsys.readouterr().out
    assert "1 test row is the same as unlabeled training rows: test.csv row 1 = row 31" in said
    assert "10 of 10 held-out labels right" in said and "graph, 20 labeled and 40 unlabeled rows" in said
    assert "10 test rows are the same as validation rows" in said
    assert len(Path("model/predictions.csv").read_text().splitlines()) == 41, "those of the given subsets are left out"
    assert json.loads(Path("model/config.json").read_text())["columns"] == ["f", "g", "h"]
    assert ict(monkeypatch, "fit", "train.csv", "--test", "gone.csv", "--out", "other") == 2
    assert "gone.csv" in capsys.readouterr().err and not Path("other").exists()
