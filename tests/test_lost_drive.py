"""Sources that vanish or break while they are read, such as a network drive: told in one sentence, never skipped."""

import errno
import shutil
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ict.backbones.embedder import embedder
from ict.base.errors import UserError
from ict.data.user import image_file, images, texts
from ict.data.user.read import read_data
from tests.test_user_data import assert_refused, noise, save, two_classes


def two_classes_in(folder: Path) -> Path:
    two_classes(folder)
    return folder


@pytest.mark.parametrize("stage", ["header", "decoded"])
@pytest.mark.parametrize("left", ["nothing", "an empty folder", "half of the files"])
def test_a_drive_that_goes_away_is_told_and_nothing_is_left_out(
    stage: str, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --skip-bad too: who loses half of the photos to a cable wants to know."""
    folder = two_classes_in(tmp_path / "drive")
    real, calls = getattr(images, stage), count()

    def pulled(path: Path, *more: Any) -> Any:
        if next(calls) == 1:
            files = sorted(folder.rglob("*.png"))
            for file in files if left != "half of the files" else files[len(files) // 2 :]:
                file.unlink()
            if left == "nothing":
                shutil.rmtree(folder)
        return real(path, *more)

    monkeypatch.setattr(images, stage, pulled)
    monkeypatch.setattr(image_file, "WORKERS", 1)
    assert_refused(folder, str(folder), "is not there any more", "drive", "run the command again", skip_bad=True)


def test_an_error_of_the_drive_is_told_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, real = two_classes_in(tmp_path), Path.read_bytes

    def broken(path: Path) -> bytes:
        if path.name == "b.png":
            raise OSError(errno.EIO, "Input/output error")
        return real(path)

    save(folder / "cat/b.png", noise(9, 16, 16))
    monkeypatch.setattr(Path, "read_bytes", broken)
    assert_refused(folder, "b.png cannot be read (Input/output error)")
    assert any("left out: cat/b.png" in said for said in read_data(folder, skip_bad=True).remarks)


def test_links_to_nothing_are_told(tmp_path: Path) -> None:
    (two_classes_in(tmp_path) / "cat/stale.png").symlink_to(tmp_path / "cat/was.png")
    assert_refused(tmp_path, "stale.png is a link to nothing")


def test_texts_that_went_away_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abcd":
        (tmp_path / f"{name}.txt").write_text(f"words of {name}")
    real = texts.text_in

    def pulled(folder: Path, name: str) -> str | None:
        (folder / "c.txt").unlink(missing_ok=True)
        return real(folder, name)

    monkeypatch.setattr(texts, "text_in", pulled)
    embed = embedder("tfidf", "texts", "cpu")
    assert_refused(tmp_path, "c.txt is not there any more", skip_bad=True, embed=embed)


def test_a_table_that_breaks_is_no_damaged_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,y\n1,u\n2,v\n")

    def broken(*_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr("pandas.read_csv", broken)
    with pytest.raises(UserError, match=r"Input/output error\): check that it and its drive are there"):
        read_data(path)
