"""Decoded images on disk: never stale, never half, never in the user's folder."""

import json
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ict.base.errors import UserError
from ict.data.user import image_cache, images
from ict.data.user.array_cache import cache_folder
from ict.data.user.image_cache import cached
from ict.data.user.image_file import decoded, header
from ict.data.user.read import read_data
from ict.data.user.records import UserData
from tests.test_user_data import bad_file, noise, save, two_classes


@pytest.fixture
def decodings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are decoded."""
    names: list[str] = []

    def spy(path: Path, *rest: object) -> object:
        names.append(path.name)
        return decoded(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(images, "decoded", spy)
    return names


def entries(folder: Path) -> list[Path]:
    return sorted((folder / "images").iterdir())


def plain(folder: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """The images of `two_classes` by pillow alone."""
    return np.stack([np.asarray(Image.open(p)) for p in sorted(folder.rglob("*.[pP][nN][gG]"))])


def test_a_second_read_decodes_nothing_and_is_mapped(tmp_path: Path, own_cache: Path, decodings: list[str]) -> None:
    two_classes(tmp_path)
    read_data(tmp_path)
    assert len(decodings) == 5
    again = read_data(tmp_path)
    assert len(decodings) == 5
    assert isinstance(again.x, np.memmap) and not again.x.flags.writeable
    assert np.array_equal(again.x, plain(tmp_path))
    assert len(entries(own_cache)) == 1


def test_changed_bytes_are_seen_whatever_name_size_and_date_say(tmp_path: Path) -> None:
    two_classes(tmp_path)
    path = tmp_path / "cat/a.bmp"
    save(path, noise(7, 16, 16))
    read_data(tmp_path)
    before = path.stat()
    save(path, noise(8, 16, 16))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    data = read_data(tmp_path)
    assert np.array_equal(data.x[data.names.index("cat/a.bmp")], noise(8, 16, 16))


def test_other_names_and_labels_share_an_entry_and_other_sizes_and_decoders_do_not(
    tmp_path: Path, own_cache: Path, decodings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    two_classes(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    (tmp_path / "two/dog").rename(tmp_path / "two/fox")
    read_data(tmp_path / "one")
    assert read_data(tmp_path / "two").y.tolist() == ["cat", "cat", "fox", "fox", None]
    assert len(entries(own_cache)) == 1 and len(decodings) == 5
    assert read_data(tmp_path / "one", size=8).x.shape == (5, 8, 8)
    assert read_data(tmp_path / "one", gray=False).x.shape == (5, 16, 16, 3)
    assert len(entries(own_cache)) == 3
    monkeypatch.setattr(image_cache, "PILLOW", "another")
    read_data(tmp_path / "one")
    assert len(entries(own_cache)) == 4


DAMAGES = ("flipped", "cut", "no pixels", "no about", "nonsense", "other format", "fewer rows", "one that is bad")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_made_again(tmp_path: Path, own_cache: Path, damage: str, decodings: list[str]) -> None:
    two_classes(tmp_path)
    read_data(tmp_path)
    (entry,) = entries(own_cache)
    pixels, about = entry / "rows", entry / "about.json"
    raw = pixels.read_bytes()
    if damage == "flipped":
        pixels.write_bytes(raw[:100] + bytes([raw[100] ^ 1]) + raw[101:])
    elif damage == "cut":
        pixels.write_bytes(raw[:-1])
    elif damage == "no pixels":
        pixels.unlink()
    elif damage == "no about":
        about.unlink()
    elif damage in ("fewer rows", "one that is bad"):
        change = {"n": 4} if damage == "fewer rows" else {"bad": {"1": "is empty"}}
        about.write_text(json.dumps(json.loads(about.read_text()) | change))
    else:
        about.write_text("[" if damage == "nonsense" else '{"n": 5}')
    assert np.array_equal(read_data(tmp_path).x, plain(tmp_path))
    assert len(decodings) == 10
    assert np.array_equal(read_data(tmp_path).x, plain(tmp_path))
    assert len(decodings) == 10


def test_what_is_bad_is_remembered(tmp_path: Path, decodings: list[str]) -> None:
    arrays = two_classes(tmp_path)
    bad_file("truncated", tmp_path / "cat/b.png")
    first = read_data(tmp_path, skip_bad=True, size=16)
    again = read_data(tmp_path, skip_bad=True, size=16)
    assert len(decodings) == 6 and first.remarks == again.remarks != ()
    assert np.array_equal(again.x, np.stack(list(arrays.values())))
    with pytest.raises(UserError, match=r"cat/b\.png is corrupt"):
        read_data(tmp_path, size=16)


def test_an_interrupted_decoding_leaves_nothing(tmp_path: Path, own_cache: Path) -> None:
    two_classes(tmp_path)

    def interrupt(stage: str, done: int, total: int | None) -> None:
        if stage == "decoding photos" and done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_data(tmp_path, progress=interrupt)
    assert entries(own_cache) == []


@pytest.mark.parametrize("where", ["a file", "in the data"])
def test_without_a_cache_it_warns_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    folder = tmp_path / "data"
    two_classes(folder)
    (tmp_path / "file").write_text("")  # no folder can be made in it, even by root
    monkeypatch.setenv("ICT_CACHE", str(tmp_path / "file/cache" if where == "a file" else folder / "cache"))
    with pytest.warns(UserWarning, match="in memory") as caught:
        data = read_data(folder)
    assert len(caught) == 1
    assert not isinstance(data.x, np.memmap) and np.array_equal(data.x, plain(folder))
    assert not (folder / "cache").exists()


def test_a_full_disk_is_no_reason_to_stop(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_classes(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(UserWarning, match="No space left"):
        assert np.array_equal(read_data(tmp_path).x, plain(tmp_path))
    assert entries(own_cache) == []


def test_two_at_once_do_no_harm(tmp_path: Path, own_cache: Path) -> None:
    two_classes(tmp_path)
    meeting = threading.Barrier(2, timeout=30)
    found: list[UserData] = []

    def wait_for_the_other(stage: str, done: int, total: int | None) -> None:
        if stage == "decoding photos" and done == total:
            meeting.wait()  # both have decoded everything before either renames

    threads = [
        threading.Thread(target=lambda: found.append(read_data(tmp_path, progress=wait_for_the_other)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2 and all(np.array_equal(data.x, plain(tmp_path)) for data in found)
    assert len(entries(own_cache)) == 1


def test_a_file_that_changes_while_it_is_read_is_told(tmp_path: Path, own_cache: Path) -> None:
    two_classes(tmp_path)
    changing = save(tmp_path / "cat/a.png", noise(0, 16, 16))

    def late(path: Path, root: Path) -> object:
        found = header(path, root)
        if path == changing:
            save(path, noise(9, 16, 16))
        return found

    with pytest.MonkeyPatch.context() as patched, pytest.raises(UserError, match="changed while"):
        patched.setattr(images, "header", late)
        read_data(tmp_path)
    assert entries(own_cache) == []


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, own_cache: Path, tmp_path: Path) -> None:
    assert cache_folder() == own_cache
    monkeypatch.delenv("ICT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    assert cache_folder() == tmp_path / "shared/ict"
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    for value in ("", "relative"):  # which the standard says to pass over
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert cache_folder() == tmp_path / "me/.cache/ict"


def test_nothing_but_bad_images(tmp_path: Path) -> None:
    for _ in range(2):
        found = cached("key", (4, 4), tmp_path, 2, lambda: iter(["torn", "burnt"]))
        assert (found.x.shape, found.bad) == ((0, 4, 4), {0: "torn", 1: "burnt"})
