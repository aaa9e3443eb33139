"""The labeling page's file as labels of a fit: the last line counts, checks are the test, changes are refused."""

import csv
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ict.base.errors import UserError
from ict.data.user.answers import HEADER, Answer, as_lines, last_answers, read_answers
from ict.data.user.read import read_data
from ict.data.user.records import UserData
from ict.data.user.subsets import read_subsets
from tests.test_cli import ict

TIME = "2026-03-01T18:04:09.120Z"


def answer(example: str, label: str = "", kind: Any = "suggested", digest: str = "") -> Answer:
    return Answer(example, label, TIME, kind, digest)


def write(path: Path, *answers: Answer) -> Path:
    path.write_bytes(HEADER + as_lines(answers))
    return path


def table(path: Path, n: int = 6) -> list[str]:
    """A table without labels, and the digests of its rows by hand."""
    rows = [(float(i), i * 0.5) for i in range(n)]
    path.write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in rows))
    return [hashlib.blake2b(f"a\0{a}\0b\0{b}".encode(), digest_size=16).hexdigest() for a, b in rows]


def labels_of(data: UserData) -> dict[str, str]:
    return {name: label for name, label in zip(data.names, data.y, strict=True) if label is not None}


def test_the_last_line_of_an_example_counts(tmp_path: Path) -> None:
    digests = table(tmp_path / "rows.csv")
    labels = write(
        tmp_path / "labels.csv",
        answer("row 1", "cat", digest=digests[0]),
        answer("row 2", "cat", digest=digests[1]),
        answer("row 3", "dog", digest=digests[2]),
        answer("row 4", "dog", "random", digest=digests[3]),
        answer("row 1", "dog", digest=digests[0]),
        answer("row 2", kind="undo", digest=digests[1]),
        answer("row 5", kind="skip", digest=digests[4]),
        answer("row 6", kind="flag", digest=digests[5]),
    )
    data = read_data(tmp_path / "rows.csv", labels=labels)
    assert labels_of(data) == {"row 1": "dog", "row 3": "dog", "row 4": "dog"}
    assert data.checks == (3,) and data.columns == ("a", "b")
    assert list(last_answers(read_answers(labels)[0])) == ["row 3", "row 4", "row 1", "row 2", "row 5", "row 6"]


@pytest.mark.parametrize("name", ['a,b".txt', "ä\u2028b.txt", "\udcff.txt"])
def test_names_survive(tmp_path: Path, name: str) -> None:
    answers = [answer(name, "cät, 'a'"), answer("second", "b")]
    assert read_answers(write(tmp_path / "labels.csv", *answers))[0] == answers


@pytest.mark.parametrize("name", ["plain.txt", 'a"b,"".txt'])
def test_a_line_that_a_crash_cut_off_is_left_out_wherever_it_was_cut(tmp_path: Path, name: str) -> None:
    kept, path = answer("first", "x"), tmp_path / "labels.csv"
    whole = write(path, kept).read_bytes()
    last = as_lines([answer(name, "y")])
    for length in range(len(last)):
        path.write_bytes(whole + last[:length])
        assert read_answers(path) == ([kept], len(whole)), last[:length]
    path.write_bytes(whole + last)
    assert [one.example for one in read_answers(path)[0]] == ["first", name]


def test_a_changed_or_missing_example_is_refused_or_left_out(tmp_path: Path) -> None:
    digests = table(tmp_path / "rows.csv")
    good = answer("row 1", "cat", digest=digests[0])
    labels = write(tmp_path / "labels.csv", good, answer("row 2", "cat", digest=digests[2]))
    with pytest.raises(UserError, match="labels row 2, which changed since"):
        read_data(tmp_path / "rows.csv", labels=labels)
    data = read_data(tmp_path / "rows.csv", labels=labels, skip_bad=True)
    assert labels_of(data) == {"row 1": "cat"} and any("row 2" in remark for remark in data.remarks)
    write(labels, good, answer("row 9", "cat", digest=digests[0]))
    with pytest.raises(UserError, match="labels row 9, which the data does not have"):
        read_data(tmp_path / "rows.csv", labels=labels)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("row 1,cat,t,guess,d", "'guess' in line 2: it must be one of suggested"),
        ("row 1,cat,t", "3 cells in line 2 instead of 5"),
        ("row 1,nan,t,random,d", "no label in line 2 of the kind random"),
        ('row 1,"cat,t,random,d\nrow 2,cat,t,random,d', "cannot be read as CSV in line 2"),
        ('row 1,"cat"x,t,random,d\nrow 2,cat,t,random,d', "cannot be read as CSV in line 2"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str, words: str) -> None:
    table(tmp_path / "rows.csv")
    labels = tmp_path / "labels.csv"
    labels.write_bytes(HEADER + line.encode() + b"\n")
    with pytest.raises(UserError, match=words):
        read_data(tmp_path / "rows.csv", labels=labels)


def test_checks_are_the_test_and_a_class_of_checks_alone_is_refused(tmp_path: Path) -> None:
    digests = table(tmp_path / "rows.csv")
    lines = [answer(f"row {i + 1}", "cd"[i % 2], ("suggested", "random")[i > 3], digests[i]) for i in range(6)]
    labels = write(tmp_path / "labels.csv", *lines)
    given = read_subsets(tmp_path / "rows.csv", labels=labels)
    assert given.test is not None and given.test.tolist() == [4, 5] and given.valid is None
    with pytest.raises(UserError, match="leave out --test"):
        read_subsets(tmp_path / "rows.csv", labels=labels, test=tmp_path / "rows.csv")
    write(labels, *lines[:5], answer("row 6", "new", "random", digests[5]))
    with pytest.raises(UserError, match="has new in random checks alone"):
        read_subsets(tmp_path / "rows.csv", labels=labels)


def test_photos_and_texts_by_the_bytes_of_their_files(tmp_path: Path) -> None:
    for i in range(3):
        for folder in ("photos", "texts"):
            (tmp_path / folder / "sub").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (80 * i, 0, 0)).save(tmp_path / "photos" / f"{i}.png")
        (tmp_path / "texts" / f"{i}.txt").write_text(f"text number {i}")
    photo = hashlib.blake2b((tmp_path / "photos/1.png").read_bytes()).hexdigest()[:32]
    labels = write(tmp_path / "labels.csv", answer("1.png", "cat", digest=photo))
    assert labels_of(read_data(tmp_path / "photos", labels=labels)) == {"1.png": "cat"}

    class Lengths:
        side = 8

        def texts(self, texts: list[str], source: Path, progress: Any) -> Any:
            return np.array([[len(text)] for text in texts], np.float32)

    text = hashlib.blake2b(b"text number 2", digest_size=16).hexdigest()
    write(labels, answer("2.txt", "cat", digest=text))
    embed: Any = Lengths()
    assert labels_of(read_data(tmp_path / "texts", labels=labels, embed=embed)) == {"2.txt": "cat"}
    (tmp_path / "texts" / "2.txt").write_text("another")
    with pytest.raises(UserError, match="which changed since"):
        read_data(tmp_path / "texts", labels=labels, embed=embed)


def test_answers_join_class_folders(tmp_path: Path) -> None:
    for name in ("cat/0.png", "dog/1.png", "unlabeled/2.png", "unlabeled/3.png"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (int(name[-5]), 0, 0)).save(tmp_path / "in" / name)
    content = hashlib.blake2b((tmp_path / "in/unlabeled/3.png").read_bytes()).hexdigest()[:32]
    labels = write(tmp_path / "labels.csv", answer("unlabeled/3.png", "dog", digest=content))
    found = labels_of(read_data(tmp_path / "in", labels=labels))
    assert found == {"cat/0.png": "cat", "dog/1.png": "dog", "unlabeled/3.png": "dog"}


def test_fit_measures_on_the_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(0, 0.1, (20, 2)), rng.normal(5, 0.1, (20, 2))]).astype(np.float32)
    with (tmp_path / "rows.csv").open("w") as file:
        csv.writer(file).writerows([["a", "b"], *rows.tolist()])
    digests = read_data(tmp_path / "rows.csv", unlabeled=True, digests=True).digests
    picked = [*range(6), *range(20, 26)]
    lines = [answer(f"row {i + 1}", f"class{i // 20}", ("suggested", "random")[i % 3 == 0], digests[i]) for i in picked]
    labels = write(tmp_path / "labels.csv", *lines)
    quick = ("--method", "supervised", "--steps", "30")
    assert ict(monkeypatch, "fit", tmp_path / "rows.csv", "--labels", labels, "--out", tmp_path / "m", *quick) == 0
    said = capsys.readouterr().out
    assert "4 of 4 held-out labels right" in said and "in folds" not in said
    assert "in folds" not in (tmp_path / "m/README.md").read_text()
    assert "4 of 4 held-out labels right" in (tmp_path / "m/report.html").read_text()
