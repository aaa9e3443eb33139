"""Files of labels: merged with class folders, found from several places, and every mistake named at once."""

import csv
from pathlib import Path

import numpy as np
import pytest

from ict.base.errors import UserError
from ict.data.user.read import read_data
from ict.data.user.records import UserData
from ict.data.user.remarks import a_letter_away
from tests.test_cli import ict
from tests.test_user_data import noise, save


def photos(folder: Path, *names: str) -> Path:
    for i, name in enumerate(names):
        save(folder / name, noise(i, 8, 8))
    return folder


def labels_of(data: UserData) -> dict[str, str]:
    return {name: label for name, label in zip(data.names, data.y, strict=True) if label is not None}


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def refusal(path: Path, labels: Path) -> str:
    with pytest.raises(UserError) as caught:
        read_data(path, labels=labels)
    return str(caught.value)


def test_labels_are_added_to_those_of_class_folders(tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", "cat/1.png", "dog/2.png", "unlabeled/3.png", "unlabeled/4.png", "5.png")
    labels = write(tmp_path / "labels.csv", "example,label", "unlabeled/3.png,bird", "5.png,dog", "cat/1.png,cat")
    data = read_data(folder, labels=labels)
    assert labels_of(data) == {"cat/1.png": "cat", "dog/2.png": "dog", "unlabeled/3.png": "bird", "5.png": "dog"}


def test_folders_that_are_no_classes_are_told(tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", "2024-01/1.png", "2024-01/2.png", "2024-02/3.png")
    labels = write(tmp_path / "labels.csv", "example,label", "2024-01/1.png,cat", "2024-02/3.png,dog")
    data = read_data(folder, labels=labels)
    assert labels_of(data) == {"2024-01/1.png": "cat", "2024-02/3.png": "dog"}
    assert f"the folders name no classes, since {labels} has no such label: 2024-01, 2024-02" in data.remarks


def test_a_folder_and_a_line_that_differ_are_refused(tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", "cat/1.png", "cat/2.png", "dog/3.png")
    labels = write(tmp_path / "labels.csv", "example,label", "cat/1.png,dog", "cat/2.png,bird")
    said = refusal(folder, labels)
    assert "'cat/1.png' is 'dog'" in said and "'cat/2.png' is 'bird'" in said and "\n" not in said


@pytest.mark.parametrize("start", ["folder", "file", "here", "absolute"])
def test_a_path_may_start_at_three_places(start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = photos(tmp_path / "data/photos", "a.png", "more/b.png")
    (tmp_path / "notes").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    before = {
        "folder": "./", "file": "../data/photos/", "here": "../data/../data/photos/", "absolute": f"{folder}/"
    }[start]  # fmt: skip
    home = tmp_path / ("notes" if start == "file" else "")
    labels = write(home / "labels.csv", "path,label", f"{before}a.png,x", f"{before}more\\b.png,y")
    assert labels_of(read_data(Path("../data/photos"), labels=labels)) == {"a.png": "x", "more/b.png": "y"}


@pytest.mark.parametrize("separator", [";", "\t"])
def test_spreadsheets_may_write_other_separators(separator: str, tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", "a.png", "b, c.png")
    labels = write(tmp_path / "labels.csv", f"path{separator}label", f"a.png{separator}x", f"b, c.png{separator}y")
    assert labels_of(read_data(folder, labels=labels)) == {"a.png": "x", "b, c.png": "y"}


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", "a.png")
    lost = [f"lost{i}.png,x" for i in range(7)]
    said = refusal(folder, write(tmp_path / "labels.csv", "path,label", *lost, "blank.png,", "a.png,x"))
    assert all(f"'lost{i}.png' in line {i + 2}" in said for i in range(5)) and "2 more" in said and "blank" not in said
    torn = write(tmp_path / "labels.csv", "path,label", "a.png,x", "gone.png,x", "./a.png,y")
    assert "'a.png' is 'x' in line 2 and 'y' in line 4" in refusal(folder, torn)


def test_rows_of_a_table_are_labeled(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    table = write(tmp_path / "rows.csv", "a,b", "1,2", "3,4", "5,6")
    labels = write(tmp_path / "next.csv", "rank,example,label,why", "1,row 3,x,far", "2,row 1,y,near", "3,row 2,,")
    data = read_data(table, labels=labels)
    assert labels_of(data) == {"row 3": "x", "row 1": "y"} and data.columns == ("a", "b")
    own = write(tmp_path / "own.csv", "a,label", "1,x", "3,", "5,z")
    assert labels_of(read_data(own, labels=write(labels, "example,label", "row 2,y"))) == {
        "row 1": "x", "row 2": "y", "row 3": "z",
    }  # fmt: skip
    assert "row 1" in refusal(own, write(labels, "example,label", "row 1,y"))


def test_texts_of_a_folder_are_labeled(tmp_path: Path) -> None:
    from ict.backbones.embedder import Embedder

    folder = tmp_path / "texts"
    for name, text in (
        ("good/1.txt", "aa bb cc"),
        ("bad/2.txt", "cc dd ee"),
        ("3.txt", "aa dd ff"),
        ("4.txt", "ee ff gg"),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    labels = write(folder / "labels.csv", "example,label", "3.txt,good")
    data = read_data(folder, labels=labels, embed=Embedder(None))
    assert labels_of(data) == {"good/1.txt": "good", "bad/2.txt": "bad", "3.txt": "good"}
    assert not any("ignored" in remark for remark in data.remarks)


def test_a_label_a_letter_away_is_pointed_out(tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", *(f"{i}.png" for i in range(6)))
    labels = write(tmp_path / "l.csv", "path,label", "0.png,cat", "1.png,cat", "2.png,cta", "3.png,dog", "4.png,dog")
    slips = [remark for remark in read_data(folder, labels=labels).remarks if "typo" in remark]
    assert slips == ["the label 'cta' of 2.png occurs once and is a letter away from 'cat': a typo?"]


@pytest.mark.parametrize(
    ("a", "b", "near"),
    [
        ("cat", "cats", True), ("cat", "cut", True), ("cat", "cta", True), ("Cat", "cat", True), ("cat", "dog", False),
        ("cat", "act", True), ("cat", "catch", False), ("class1", "class2", False), ("12", "13", False),
        ("a", "b", False),
        ("ship", "shpi", True), ("ship", "hsip", True), ("abcd", "badc", False), ("cat", "cat2", False),
    ],
)  # fmt: skip
def test_a_letter_away(a: str, b: str, near: bool) -> None:
    assert a_letter_away(a, b) is near and a_letter_away(b, a) is near


def test_from_no_label_to_a_file_that_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Gray and white squares: two heaps, of which each gives one suggestion before any gives two."""
    monkeypatch.chdir(tmp_path)
    for i in range(20):
        save(tmp_path / f"photos/{i}.png", (noise(i, 8, 8) // 16 + (0 if i < 12 else 240)).astype(np.uint8))
    words = ["photos", "--backbone", "none"]
    assert ict(monkeypatch, "fit", *words) == 2
    assert "photos has no label yet: add --suggest 40 for a file of photos" in capsys.readouterr().err
    assert ict(monkeypatch, "fit", *words, "--suggest", "2") == 0
    assert "--labels next.csv" in capsys.readouterr().out and not (tmp_path / "model").exists()
    rows = list(csv.DictReader((tmp_path / "next.csv").read_text().splitlines()))
    assert [row["label"] for row in rows] == ["", ""] and list(rows[0])[:3] == ["rank", "example", "label"]
    assert [int(row["example"][:-4]) < 12 for row in rows] == [True, False], "the larger heap first"
    before = (tmp_path / "next.csv").read_bytes()
    assert ict(monkeypatch, "fit", *words, "--suggest", "2") == 2, "it may hold labels by now"
    assert (tmp_path / "next.csv").read_bytes() == before and "next.csv is there already" in capsys.readouterr().err
    filled = [row | {"label": "dark" if int(row["example"][:-4]) < 12 else "light"} for row in rows]
    with (tmp_path / "next.csv").open("w", newline="") as file:
        lines = csv.DictWriter(file, list(rows[0]), delimiter=";")  # as a spreadsheet may save it
        lines.writeheader()
        lines.writerows(filled)
    data = read_data(tmp_path / "photos", labels=tmp_path / "next.csv")
    assert labels_of(data) == {row["example"]: row["label"] for row in filled}
    assert ict(monkeypatch, "fit", *words, "--labels", "next.csv", "--suggest", "5", "--out", "more.csv") == 0
    more = [row["example"] for row in csv.DictReader((tmp_path / "more.csv").read_text().splitlines())]
    assert len(more) == 5 and not set(more) & set(labels_of(data))


def test_rows_without_a_column_of_labels_are_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv", "a,b", *(f"{i % 3 * 10 + i / 100},{i % 3}" for i in range(30)))
    assert ict(monkeypatch, "fit", "rows.csv", "--suggest", "3") == 0
    rows = list(csv.DictReader((tmp_path / "next.csv").read_text().splitlines()))
    assert {int(row["example"].removeprefix("row ")) % 3 for row in rows} == {0, 1, 2}, "one of each heap"


def test_texts_stand_beside_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for i in range(6):
        write(tmp_path / f"texts/{i}.txt", f"apples and\n  pears {i}" if i % 2 else "ships, " * 90)
    assert ict(monkeypatch, "fit", "texts", "--backbone", "tfidf", "--suggest", "2") == 0
    texts = [row["text"] for row in csv.DictReader((tmp_path / "next.csv").read_text().splitlines())]
    assert sorted(text[:10] for text in texts) == ["apples and", "ships, shi"]
    assert all(len(text) <= 300 for text in texts) and any(text.endswith("…") for text in texts)


def test_several_files_of_labels_are_one(tmp_path: Path) -> None:
    """The labels of one round and of the next."""
    folder = photos(tmp_path / "photos", *(f"{i}.png" for i in range(4)))
    first = write(tmp_path / "next.csv", "example,label", "0.png,cat", "1.png,dog", "2.png,")
    second = write(tmp_path / "model/next.csv", "rank;example;label", "1;2.png;dog", "2;3.png;", "3;0.png;cat")
    assert labels_of(read_data(folder, labels=[first, second])) == {"0.png": "cat", "1.png": "dog", "2.png": "dog"}
    other = write(tmp_path / "other.csv", "example,label", "0.png,bird", "3.png,dog")
    with pytest.raises(UserError, match=r"other.csv gives 0.png another label than .* keep one of them"):
        read_data(folder, labels=[first, other])
    table = write(tmp_path / "t.csv", "a,b", "1,2", "3,4", "5,6")
    rows = [write(tmp_path / f"{i}.csv", "example,label", f"row {i},x") for i in (1, 3)]
    assert labels_of(read_data(table, labels=rows)) == {"row 1": "x", "row 3": "x"}
    np.save(tmp_path / "a.npy", np.eye(3))
    one_a_row = write(tmp_path / "y.csv", "u", "", "v")
    named = write(tmp_path / "named.csv", "example,label", "row 2,v")
    for order in ([one_a_row, named], [named, one_a_row]):
        assert labels_of(read_data(tmp_path / "a.npy", labels=order)) == {"row 1": "u", "row 2": "v", "row 3": "v"}
