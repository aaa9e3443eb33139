"""What the labeling page shows of each kind of source: the names, labels and digests of the reader that learns."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ict.backbones.embedder import Embedder
from ict.base.errors import UserError
from ict.data.user.answers import Answer, labels_in
from ict.data.user.read import read_data
from ict.label.log import AnswerLog
from ict.label.source import open_source
from tests.label_server import color_photos


def make(kind: str, folder: Path) -> tuple[Path, str | None]:
    """A source with a label for its second example alone; the path and the column of texts."""
    rng = np.random.default_rng(0)
    if kind == "photos":
        color_photos(folder / "photos/cat", 1)
        color_photos(folder / "photos/unlabeled", 5)
        return folder / "photos", None
    if kind == "text files":
        for name in ("bad/1", "unlabeled/2", "3"):
            path = folder / "texts" / f"{name}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"text {name}", encoding="utf-8-sig")
        return folder / "texts", None
    path = folder / f"source{'.csv' if kind in ('table', 'text rows') else '.npz'}"
    if kind == "table":
        path.write_text("a,label,b\n1,,2.5\n3,NA,4\n5,cat,6.25\n")
    elif kind == "text rows":
        path.write_text("what,label\none two,\nthree,cat\n,\nfour,\n")
        return path, "what"
    elif kind == "numbers":
        np.savez(path, x=rng.normal(size=(4, 3)), y=np.array(["", "cat", "", ""]))
    else:
        np.savez(path, x=rng.integers(0, 256, (4, 8, 8, 3), np.uint8), y=np.array(["", "cat", "", ""]))
    return path, None


@pytest.mark.parametrize("kind", ["photos", "text files", "table", "text rows", "numbers", "images"])
def test_a_source_has_the_names_labels_and_digests_of_its_reader(kind: str, tmp_path: Path) -> None:
    path, column = make(kind, tmp_path)
    source = open_source(path, text_column=column)
    embed = Embedder(None) if "text" in kind else None
    data = read_data(path, embed=embed, text_column=column, skip_bad=True, unlabeled=True, digests=True)
    assert source.names == data.names and source.items == data.items
    assert source.given == {row: label for row, label in enumerate(data.y) if label is not None} != {}
    assert tuple(map(source.digest, range(len(data.names)))) == data.digests


@pytest.mark.parametrize("kind", ["photos", "texts"])
def test_folders_that_are_no_classes_give_no_labels_to_the_page_nor_to_the_fit(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / kind
    for month in ("2026-01", "2026-02"):
        if kind == "photos":
            color_photos(folder / month, 3)
        else:
            (folder / month).mkdir(parents=True)
            for i in range(3):
                (folder / month / f"{i}.txt").write_text(f"text {month} {i}")
    with pytest.raises(UserError, match=r"has a label already.*name the classes with --classes"):
        open_source(folder)
    source = open_source(folder, classes={"red"})
    assert source.given == {} and "the folders name no classes" in source.remarks[0] and "2026-01" in source.remarks[0]
    labels = tmp_path / "labels.csv"
    with AnswerLog(labels) as log:
        log.append([Answer(source.names[0], "red", "", "suggested", source.digest(0))])
    embed = Embedder(None) if kind == "texts" else None
    data = read_data(folder, labels=labels, embed=embed)
    assert list(data.y) == ["red", *[None] * 5] and source.remarks[0].split(", ")[0] in "\n".join(data.remarks)
    assert labels_in(labels) == {"red"} and labels_in(tmp_path / "none.csv") == set()
    with AnswerLog(labels) as log:
        log.append([Answer(source.names[1], "red", "", "random", source.digest(1))])
    with AnswerLog(tmp_path / "later.csv") as log:
        log.append([Answer(source.names[2], "red", "", "random", source.digest(2))])
    (tmp_path / "next.csv").write_text(f"example,label\n{source.names[3]},red\n")
    files = [labels, tmp_path / "later.csv", tmp_path / "next.csv"]
    data = read_data(folder, labels=files, embed=Embedder(None) if kind == "texts" else None)
    assert list(data.y) == ["red"] * 4 + [None] * 2 and data.checks == (1, 2), "no file takes away what others say"
    (folder / "2026-02").rename(folder / "unlabeled")
    assert [open_source(folder, classes={"red"}).given[row] for row in range(3)] == ["2026-01"] * 3, (
        "others are unlabeled"
    )


def test_a_row_of_a_table_is_known_again_whatever_the_others_are(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,city,label\n1,Rome,\n2,Oslo,\n")
    before = read_data(path, unlabeled=True, digests=True).digests
    path.write_text("a,city,label\n1,Rome,x\n2,Bonn,\n,Lima,\n")
    after = read_data(path, unlabeled=True, digests=True).digests
    assert after[0] == before[0] and after[1] != before[1] and len(set(after)) == 3


def test_what_a_person_sees(tmp_path: Path) -> None:
    assert open_source(make("table", tmp_path)[0]).show(1) == [("a", "3"), ("b", "4")]
    assert open_source(make("text rows", tmp_path)[0], text_column="what").show(2) == "four"
    texts = open_source(make("text files", tmp_path)[0])
    assert [texts.show(row) for row in range(3)] == ["text 3", "text bad/1", "text unlabeled/2"]
    path, _ = make("numbers", tmp_path)
    first = np.load(path)["x"][0]
    assert open_source(path).show(0) == [(str(i + 1), f"{v:g}") for i, v in enumerate(first.astype(np.float32))]
    path, _ = make("images", tmp_path)
    picture = open_source(path).picture
    assert picture is not None
    with Image.open(io.BytesIO(picture(3, 100))) as got:
        assert np.array_equal(np.asarray(got), np.load(path)["x"][3])


def test_large_photos_are_shown_smaller_upright_and_without_their_metadata(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    photo = Image.new("RGB", (2000, 1000), "white")
    photo.paste("black", (0, 0, 1000, 1000))
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    exif[0x010E] = "a secret place"
    photo.save(tmp_path / "photos/a.jpg", exif=exif)
    picture = open_source(tmp_path / "photos").picture
    assert picture is not None
    content = picture(0, 600)
    assert content.startswith(b"\xff\xd8") and b"secret" not in content
    with Image.open(io.BytesIO(content)) as got:
        assert got.size == (300, 600) and not got.getexif()
        assert np.asarray(got)[100].max() < 50 and np.asarray(got)[500].min() > 200
    (tmp_path / "photos/a.jpg").unlink()
    with pytest.raises(UserError, match=r"a.jpg is not there any more: skip it"):
        picture(0, 600)
