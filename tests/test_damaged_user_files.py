"""A user's files that are damaged, hostile or of another kind than their name says: each is one sentence."""

import os
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ict.base import reading
from ict.base.errors import UserError
from ict.data.user.image_file import LARGEST
from ict.data.user.read import read_data, stream_data
from ict.data.user.table_cells import table_cells

pandas = pytest.importorskip("pandas")
NO_BACKBONE: Any = object()


def assert_refused(path: Path, *words: str, **options: Any) -> None:
    with pytest.raises(UserError) as caught:
        read_data(path, **options)
    sentence = str(caught.value)
    assert path.name in sentence
    assert all(word in sentence for word in words), sentence
    assert "\n" not in sentence


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npy", ".npz"])
def test_a_pipe_is_refused_at_once(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"pipe{suffix}"
    os.mkfifo(path)
    assert_refused(path, "is not a regular file")


def test_labels_that_are_a_pipe(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(3))
    os.mkfifo(tmp_path / "labels.csv")
    with pytest.raises(UserError, match=r"labels\.csv are not a file"):
        read_data(tmp_path / "a.npy", labels=tmp_path / "labels.csv")


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npy", ".npz"])
@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"PK\x03\x04" + b"\xff" * 60, b"\x93NUMPY\x01\x00v\x00{" * 9])
def test_files_of_another_kind(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    assert_refused(path)


@pytest.mark.parametrize("x", [np.array(5.0), np.array("x"), np.zeros((2, 0)), np.zeros((1, 1, 1, 1, 1))], ids=str)
def test_arrays_of_another_rank(tmp_path: Path, x: Any) -> None:
    np.save(tmp_path / "a.npy", x)
    assert_refused(tmp_path / "a.npy", "inputs of")
    np.savez(tmp_path / "a.npz", x=x, y=np.array(1))
    assert_refused(tmp_path / "a.npz", "inputs of")


def test_a_member_that_is_no_array(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x", b"text")
    assert_refused(tmp_path / "a.npz", "no array")


def test_parquet_with_an_index_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "label": ["x", "y"]}, index=pandas.Index([7, 8], name="id"))
    frame.to_parquet(tmp_path / "a.parquet")
    assert read_data(tmp_path / "a.parquet").columns == ("a",)


def test_parquet_with_a_name_twice(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table([[1.0], [2.0], ["x"]], names=["a", "a", "label"]), tmp_path / "a.parquet")
    assert_refused(tmp_path / "a.parquet", "two columns named 'a'")


def test_parquet_of_far_more_rows_than_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte can hold a billion equal rows. Predictions are streamed, so they need no memory for them."""
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    pandas.DataFrame({"a": np.arange(100_000) >= 50_000, "text": "x", "label": "y"}).to_parquet(path)
    assert read_data(path).x.shape == (100_000, 1)
    monkeypatch.setattr(reading, "UNPACKED", 1_000_000)
    assert 100 * path.stat().st_size < 4 * 3 * 100_000
    for read in (read_data, partial(read_data, text_column="text", embed=NO_BACKBONE), table_cells):
        with pytest.raises(UserError, match=r"a\.parquet says that it unpacks to 1,200,000 bytes.*as a \.csv"):
            read(path)
    assert sum(len(chunk.x) for chunk in stream_data(path, (1,), ("a",), skip_bad=False).chunks) == 100_000


def test_a_sparse_image_of_any_size_costs_no_memory(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.new("L", (8, 8)).save(tmp_path / name / "1.png")
    with (tmp_path / "a" / "2.png").open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(UserError, match=r"2\.png has more than 400,000,000 bytes"):
        read_data(tmp_path)
    assert len(read_data(tmp_path, skip_bad=True).x) == 2


def test_links_that_lead_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    Image.new("L", (8, 8)).save(tmp_path / "a" / "1.png")
    (tmp_path / "a" / "2.png").symlink_to(tmp_path / "a" / "2.png")
    (tmp_path / "notes.txt").symlink_to(tmp_path / "notes.txt")
    labels = tmp_path.parent / "labels.csv"
    labels.write_text("path,label\na/1.png,x\n")
    with pytest.raises(UserError, match=r"2\.png"):
        read_data(tmp_path, labels=labels)
    assert read_data(tmp_path, labels=labels, skip_bad=True).names == ("a/1.png",)


def test_a_class_that_cannot_be_written(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    Image.new("L", (8, 8)).save(folder / "1.png")
    with pytest.raises(UserError, match="is not UTF-8: rename it"):
        read_data(tmp_path)
