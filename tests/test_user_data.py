"""A user's own data, against files made here: whole, odd and damaged."""

import os
import pickle
import struct
import sys
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from ict.base.errors import UserError
from ict.data.user import table_file
from ict.data.user.image_file import in_threads
from ict.data.user.read import read_data
from ict.data.user.records import UserData

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def noise(seed: int, *shape: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def save_table(path: Path, frame: Any) -> Path:
    """A data frame as a CSV or Parquet file."""
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    return path


def save(path: Path, image: Image.Image | NDArray[Any], **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(path, **options)
    return path


def two_classes(folder: Path, *shape: int) -> dict[str, NDArray[np.uint8]]:
    """Two images of each class and one unlabeled, by name in order."""
    names = ("cat/a.png", "cat/deep/er/b.png", "dog/a.png", "dog/b.PNG", "unlabeled/c.png")
    arrays = {name: noise(i, *(shape or (16, 16))) for i, name in enumerate(names)}
    for name, array in arrays.items():
        save(folder / name, array)
    return arrays


def the_one(data: UserData, name: str) -> NDArray[Any]:
    return np.asarray(data.x[data.names.index(name)])


def assert_refused(path: Path, *words: str, **options: Any) -> None:
    with pytest.raises(UserError) as caught:
        read_data(path, **options)
    sentence = str(caught.value)
    assert all(word in sentence for word in words), sentence
    assert "\n" not in sentence
    assert sentence.endswith(".")


def flat(folder: Path, names: Sequence[str] = ("a.png", "b.png", "sub/c.png")) -> Path:
    for i, name in enumerate(names):
        save(folder / name, noise(i, 8, 8))
    return folder


# --- folders of images ---


def test_class_folders_give_labels_and_the_rest_is_unlabeled(tmp_path: Path) -> None:
    arrays = two_classes(tmp_path)
    data = read_data(tmp_path)
    assert data.names == tuple(arrays)
    assert data.y.tolist() == ["cat", "cat", "dog", "dog", None]
    assert data.x.dtype == np.uint8
    assert np.array_equal(data.x, np.stack(list(arrays.values())))
    assert data.remarks == ()


def test_one_color_image_makes_all_rgb(tmp_path: Path) -> None:
    arrays = two_classes(tmp_path)
    color = noise(9, 16, 16, 3)
    save(tmp_path / "dog/z.png", color)
    data = read_data(tmp_path)
    assert data.x.shape == (6, 16, 16, 3)
    assert np.array_equal(the_one(data, "dog/z.png"), color)
    assert np.array_equal(the_one(data, "cat/a.png"), np.repeat(arrays["cat/a.png"][..., None], 3, axis=2))


@pytest.mark.parametrize(("sides", "size"), [((3, 3), 8), ((20, 90), 24), ((19, 19), 16), ((500, 400), 64)])
def test_the_size_is_the_median_of_the_shorter_sides(tmp_path: Path, sides: tuple[int, int], size: int) -> None:
    two_classes(tmp_path, *sides)
    assert read_data(tmp_path).x.shape == (5, size, size)
    assert read_data(tmp_path, size=13).x.shape == (5, 13, 13)


def test_the_middle_is_kept(tmp_path: Path) -> None:
    two_classes(tmp_path)
    wide = np.zeros((16, 48), np.uint8)
    wide[:, 16:32] = noise(3, 16, 16)
    save(tmp_path / "cat/wide.png", wide)
    assert np.array_equal(the_one(read_data(tmp_path), "cat/wide.png"), wide[:, 16:32])


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp"])
def test_exif_orientation_is_applied(tmp_path: Path, suffix: str) -> None:
    two_classes(tmp_path)
    upright = np.zeros((16, 16), np.uint8)
    upright[:8] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise to view
    save(tmp_path / f"cat/turned.{suffix}", Image.fromarray(np.rot90(upright).copy()), exif=exif)
    seen = the_one(read_data(tmp_path), f"cat/turned.{suffix}")
    seen = seen if seen.ndim == 2 else seen[..., 0]  # webp is always in color
    assert seen[:6].min() > 200
    assert seen[10:].max() < 55


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "I;16"])
def test_modes(tmp_path: Path, mode: str) -> None:
    two_classes(tmp_path)
    gray = mode in ("1", "L", "LA", "I;16")
    if mode == "I;16":
        image = Image.fromarray(np.full((16, 16), 65535, np.uint16))
        image.putpixel((0, 0), 257 * 100)
        image.putpixel((1, 0), 0)
    else:
        image = Image.new("RGB", (16, 16), "white" if gray else RED)
        image.paste("black" if gray else BLUE, (1, 0, 2, 1))
        image = image.quantize(4) if mode == "PA" else image
        image = image.convert(mode)
    if mode in ("LA", "PA", "RGBA"):
        alpha = Image.new("L", (16, 16), 255)
        alpha.putpixel((0, 0), 0)
        image.putalpha(alpha)
    # Neither format holds every mode.
    name = "cat/m.tif" if mode in ("CMYK", "PA") else "cat/m.png"
    save(tmp_path / name, image)
    data = read_data(tmp_path)
    seen = the_one(data, name)
    assert data.x.ndim == (3 if gray else 4)
    first = {"I;16": 100, "L": 255, "1": 255, "LA": 255, "PA": 255, "RGBA": 255}.get(mode, RED)
    assert np.array_equal(seen[0, 0], np.broadcast_to(first, seen[0, 0].shape))  # white where it was transparent
    assert np.array_equal(seen[0, 1], 0 if gray else BLUE)
    assert np.array_equal(seen[8, 8], 255 if gray else RED)


def test_a_palette_with_a_transparent_color_is_laid_on_white(tmp_path: Path) -> None:
    two_classes(tmp_path)
    image = Image.new("P", (16, 16), 0)
    image.putpalette([*GREEN, *BLUE])
    image.putpixel((3, 0), 1)
    save(tmp_path / "cat/t.gif", image, transparency=1)
    save(tmp_path / "cat/t.png", image, transparency=1)
    data = read_data(tmp_path)
    for name in ("cat/t.gif", "cat/t.png"):
        assert the_one(data, name)[0, 3].tolist() == [255, 255, 255]
        assert the_one(data, name)[0, 0].tolist() == list(GREEN)


def test_half_transparent_gray_is_laid_on_white(tmp_path: Path) -> None:
    two_classes(tmp_path)
    save(tmp_path / "cat/h.png", Image.new("LA", (16, 16), (0, 51)))  # a fifth
    assert np.unique(the_one(read_data(tmp_path), "cat/h.png")).tolist() == [204]


def bomb(side: int) -> bytes:
    """A PNG whose header promises side x side pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


def bad_file(kind: str, path: Path) -> None:
    save(path, noise(5, 64, 64), format="PNG")
    whole = path.read_bytes()
    if kind == "pipe":
        path.unlink()
        os.mkfifo(path)
        return
    content = {
        "empty": b"",
        "text": b"no image",
        "truncated": whole[: len(whole) // 2],
        "headless": whole[100:],
        "corrupt": whole[:200] + bytes(200) + whole[400:],
        "bomb": bomb(30_000),
        "half a bomb": bomb(10_000),  # pillow only warns
        "postscript": save(path, noise(5, 9, 9), format="EPS").read_bytes(),
    }[kind]
    path.write_bytes(content)


REASONS = {
    "empty": "is empty",
    "text": "known kind",
    "truncated": "truncated",
    "headless": "known kind",
    "corrupt": "corrupt",
    "bomb": "pixels",
    "half a bomb": "pixels",
    "postscript": "known kind",  # which pillow would hand to Ghostscript
    "pipe": "not a file",
}


@pytest.mark.parametrize("kind", REASONS)
def test_a_bad_image_is_named_or_left_out(tmp_path: Path, kind: str) -> None:
    arrays = two_classes(tmp_path)
    bad_file(kind, tmp_path / "cat/b.png")
    assert_refused(tmp_path, "cat/b.png", "--skip-bad", REASONS[kind])
    data = read_data(tmp_path, skip_bad=True, size=16)
    assert data.names == tuple(arrays)
    assert np.array_equal(data.x, np.stack(list(arrays.values())))
    assert data.remarks == ("1 photo could not be read and was left out: cat/b.png",)


def test_what_is_cut_and_resized_is_told(tmp_path: Path) -> None:
    for name, sides in (("a.png", (16, 16)), ("b.png", (16, 20)), ("c.png", (12, 24))):
        save(tmp_path / name, noise(0, *sides))
    told = ("2 photos were cut to the square in the middle", "1 photo was resized to 16x16 pixels")
    assert read_data(tmp_path, size=16).remarks[:2] == told
    assert "3 photos were resized to 8x8 pixels" in read_data(tmp_path, size=8).remarks
    two_classes(tmp_path / "squares")
    assert read_data(tmp_path / "squares", size=16).remarks == ()


def test_no_thread_is_left_where_reading_is_given_up() -> None:
    """The garbage collector, which would wait for it, may run while `threading` holds a lock that the thread needs."""
    before = set(threading.enumerate())
    names = [str(i) for i in range(1000)]
    answers = in_threads(str.upper, names)
    assert next(answers) == "0"
    assert set(threading.enumerate()) <= before
    assert [*answers] == names[1:]


def test_bad_images_are_counted_and_five_are_named(tmp_path: Path) -> None:
    two_classes(tmp_path)
    for i in range(7):
        (tmp_path / f"cat/bad{i}.jpg").write_bytes(b"x")
    (remark,) = read_data(tmp_path, skip_bad=True).remarks
    assert remark.startswith("7 photos could not be read and were left out: cat/bad0.jpg, ")
    assert remark.endswith("cat/bad4.jpg and 2 more")


def test_a_bad_color_image_does_not_color_the_others(tmp_path: Path) -> None:
    arrays = two_classes(tmp_path)
    raw = save(tmp_path / "cat/b.png", noise(1, 64, 64, 3)).read_bytes()
    (tmp_path / "cat/b.png").write_bytes(raw[:2000])
    assert np.array_equal(read_data(tmp_path, skip_bad=True).x, np.stack(list(arrays.values())))


def test_only_bad_images(tmp_path: Path) -> None:
    for kind in ("empty", "truncated"):
        (tmp_path / kind / "a").mkdir(parents=True)
        bad_file(kind, tmp_path / kind / "a/a.png")
        assert_refused(tmp_path / kind, "none of the 1", skip_bad=True)


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    folder, outside = tmp_path / "in", tmp_path / "out"
    arrays = two_classes(folder)
    two_classes(outside)
    (folder / "cat/inside.png").symlink_to(folder / "cat/a.png")
    (folder / "cat/broken.png").symlink_to(folder / "cat/gone.png")
    (folder / "cat/link.png").symlink_to(outside / "cat/a.png")
    (folder / "horse").symlink_to(outside / "dog")
    assert_refused(folder, "cat/broken.png")
    (folder / "cat/broken.png").unlink()
    assert_refused(folder, "cat/link.png", "leads out")
    data = read_data(folder, skip_bad=True)
    assert set(data.names) == {*arrays, "cat/inside.png"}
    assert data.remarks == ("2 photos could not be read and were left out: cat/link.png, horse",)
    (folder / "cat/link.png").unlink()
    assert_refused(folder, "horse", "link")


def test_hidden_files_are_passed_over_and_others_counted(tmp_path: Path) -> None:
    arrays = two_classes(tmp_path)
    for name in (".hidden/a.png", "cat/._a.png", "cat/.DS_Store"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert read_data(tmp_path).names == tuple(arrays)
    assert read_data(tmp_path).remarks == ()
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "cat/notes.txt").write_text("x")
    assert read_data(tmp_path).remarks == ("2 files that are no photos were ignored: cat/notes.txt, notes.txt",)


def test_remarks_on_sizes_single_images_and_duplicates(tmp_path: Path) -> None:
    arrays = two_classes(tmp_path)
    save(tmp_path / "eel/a.png", noise(8, 129, 129))
    for name in ("dog/same.png", "unlabeled/same.png"):
        save(tmp_path / name, arrays["cat/a.png"])
    assert read_data(tmp_path).remarks == (
        "the photos differ widely in size, with sides from 16 to 129 pixels",
        "1 photo was resized to 16x16 pixels",
        "1 class has a single labeled photo: eel",
        "1 photo is in different classes with the same content: cat/a.png = dog/same.png",
    )


def test_folders_that_cannot_be_learned_from(tmp_path: Path) -> None:
    assert_refused(tmp_path, "no photos: put files such as .png")
    (tmp_path / "raw.CR2").write_bytes(b"x")
    assert_refused(tmp_path, "no photos, but raw.CR2: make them one of .png")
    two_classes(tmp_path)
    assert_refused(tmp_path, "--size 0", size=0)


def test_images_without_any_label_can_be_predicted_on(tmp_path: Path) -> None:
    data = read_data(flat(tmp_path, ("a.png", "b.png")))
    assert data.y.tolist() == [None, None]
    assert data.remarks == ("no photo has a label",)


def test_images_beside_the_class_folders(tmp_path: Path) -> None:
    two_classes(tmp_path)
    save(tmp_path / "stray.png", noise(7, 16, 16))
    data = read_data(tmp_path)
    assert (data.names[-2], data.y[-2]) == ("stray.png", None)
    assert data.remarks == ("photos outside the class folders count as unlabeled",)


def test_reading_twice_is_the_same_and_leaves_no_trace(tmp_path: Path) -> None:
    def listing() -> list[tuple[str, int, int]]:
        paths = sorted([tmp_path, *tmp_path.rglob("*")])
        return [(str(p), p.stat().st_mtime_ns, p.stat().st_size) for p in paths]

    for i in range(30):
        save(tmp_path / "ab"[i % 2] / f"{i * 7 % 30}.jpg", noise(i, 30 + i, 40, 3))
    before, calls = listing(), []
    one = read_data(tmp_path, progress=lambda *told: calls.append(told))
    other = read_data(tmp_path)
    assert listing() == before
    assert calls == [(stage, i + 1, 30) for stage in ("reading photos", "decoding photos") for i in range(30)]
    assert (one.names, one.y.tolist(), one.remarks) == (other.names, other.y.tolist(), other.remarks)
    assert list(one.names) == sorted(one.names)
    assert np.array_equal(one.x, other.x)


# --- a folder with a file of labels ---


@pytest.mark.parametrize(
    "text",
    [
        "path,label\na.png,x\n./b.png, y \n",
        "\ufeffclass,where\r\ny,b.png\r\nx,a.png\r\n,sub/c.png\r\n\r\n",
        'Label,note,Image\nx,"1,2",a.png\ny,,b.png\n-1,,sub\\c.png\n',
        "what,which\na.png,x\nb.png,y\nsub/c.png,nan\n",
        "which,filename\nx,a.png\ny,b.png\n",
    ],
)
def test_a_file_of_labels(tmp_path: Path, text: str) -> None:
    labels = flat(tmp_path) / "labels.csv"
    labels.write_bytes(text.encode())
    data = read_data(tmp_path, labels=labels)
    assert data.names == ("a.png", "b.png", "sub/c.png")
    assert data.y.tolist() == ["x", "y", None]
    spelled = next((f"1 photo is unlabeled: 1 '{word}'" for word in ("-1", "nan") if word in text), None)
    assert data.remarks == (  # and the labels are no ignored file
        *([spelled] if spelled else []),
        f"the folder names no class, since {labels} has no such label: sub",
        "2 classes have a single labeled photo: x, y",
    )


def test_a_named_column_of_labels(tmp_path: Path) -> None:
    labels = flat(tmp_path) / "labels.csv"
    labels.write_text("path,label,kind\na.png,1,x\nb.png,1,y\n")
    assert read_data(tmp_path, labels=labels, label_column="kind").y.tolist() == ["x", "y", None]
    assert_refused(tmp_path, "'sort'", "kind", labels=labels, label_column="sort")
    assert_refused(tmp_path, "--label-column kind", "--labels", label_column="kind")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("path,label\na.png,x\ngone.png,y\n", ("'gone.png'", "line 3")),
        ("path,label\na.png,x\n../a.png,y\n", ("'../a.png'",)),
        ("path,label\na.png,x\na.png,y\n", ("'a.png' is 'x' in line 2 and 'y' in line 3",)),
        ("a.png,x\nb.png,y\n", ("header",)),
        ("path\na.png\n", ("header",)),
        ("", ("header",)),
        ('path,label\n"a.png,x\n', ("CSV",)),
        ("path,label\na.png,\xe9\n", ("UTF-8",)),
    ],
)
def test_mistakes_in_a_file_of_labels(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_bytes(text.encode("latin-1"))
    assert_refused(flat(tmp_path / "images"), *words, labels=labels)


def test_labels_of_images_that_are_not_there(tmp_path: Path) -> None:
    labels = flat(tmp_path / "images").parent / "labels.csv"
    labels.write_text("path,label\na.png,x\ngone.png,z\nb.png,y\nlost.png,x\n")
    assert_refused(tmp_path / "images", "'gone.png' in line 3", "'lost.png' in line 5", "--skip-bad", labels=labels)
    data = read_data(tmp_path / "images", labels=labels, skip_bad=True)
    assert data.y.tolist() == ["x", "y", None]
    assert data.remarks[:2] == (
        f"2 lines of {labels} without a photo were left out: 'gone.png' in line 3, 'lost.png' in line 5",
        f"the folder names no class, since {labels} has no such label: sub",
    )


def test_a_class_without_an_image_that_can_be_read(tmp_path: Path) -> None:
    two_classes(tmp_path)
    (tmp_path / "eel").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "Unlabeled").mkdir()
    assert read_data(tmp_path).remarks == ("1 class has no readable photo, so the model will not know of it: eel",)
    (tmp_path / "eel/a.png").write_bytes(b"")
    assert_refused(tmp_path, "eel/a.png")
    assert (
        read_data(tmp_path, skip_bad=True).remarks[1]
        == "1 class has no readable photo, so the model will not know of it: eel"
    )


# --- arrays ---


@pytest.mark.parametrize(("x_name", "y_name"), [("x", "y"), ("X", "labels"), ("features", "targets"), ("data", "y")])
def test_features_from_an_npz(tmp_path: Path, x_name: str, y_name: str) -> None:
    x = np.random.default_rng(0).normal(size=(5, 3))
    arrays: dict[str, Any] = {x_name: x, y_name: np.array([1, 0, -1, 2, 0])}
    np.savez(tmp_path / "d.npz", **arrays)
    data = read_data(tmp_path / "d.npz")
    assert data.x.dtype == np.float32
    assert np.array_equal(data.x, x.astype(np.float32))
    assert data.y.tolist() == ["1", "0", None, "2", "0"]
    assert data.names == ("row 1", "row 2", "row 3", "row 4", "row 5")
    assert data.remarks == ("1 row is unlabeled: 1 '-1'", "2 classes have a single labeled row: 1, 2")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (np.array([[1.0], [np.nan], [-1.0]]), ["1", None, None]),
        (np.array([" a", "", "nan"]), ["a", None, None]),
        (np.array([b"a", b"-1", b"b"]), ["a", None, "b"]),
        (np.array([0.5, 2.0, 1.5]), ["0.5", "2", "1.5"]),
    ],
)
def test_labels_become_texts(tmp_path: Path, labels: NDArray[Any], expected: list[str | None]) -> None:
    np.savez(tmp_path / "d.npz", x=np.eye(3), y=labels)
    assert read_data(tmp_path / "d.npz").y.tolist() == expected


def test_images_from_an_npz(tmp_path: Path) -> None:
    gray, color = noise(0, 4, 5, 6), noise(1, 4, 5, 6, 3)
    given: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {
        "gray": (gray, gray),
        "one": (gray[..., None], gray),
        "floats": (gray.astype(np.float64), gray),
        "color": (color, color),
        "first": (color.transpose(0, 3, 1, 2), color),
    }
    for name, (images, expected) in given.items():
        np.savez(tmp_path / f"{name}.npz", images=images)
        data = read_data(tmp_path / f"{name}.npz")
        assert data.x.dtype == np.uint8
        assert np.array_equal(data.x, expected)
        assert data.remarks == ("no row has a label",)


class Trap:
    """Leaves a mark if it is ever unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def test_pickled_objects_are_refused_and_not_run(tmp_path: Path) -> None:
    trap = np.array([Trap(tmp_path / "mark"), None], dtype=object)
    np.savez(tmp_path / "x.npz", x=trap)
    np.savez(tmp_path / "y.npz", x=np.eye(2), y=trap)
    np.save(tmp_path / "x.npy", trap)
    (tmp_path / "raw.npy").write_bytes(pickle.dumps(trap))
    (tmp_path / "raw.npz").write_bytes(pickle.dumps(trap))
    for name in ("x.npz", "y.npz", "x.npy"):
        assert_refused(tmp_path / name, name, "Python objects")
    (tmp_path / "text.npz").write_text("a,b\n")
    for name in ("raw.npy", "raw.npz", "text.npz"):
        assert_refused(tmp_path / name, name, "cannot be read as a NumPy file")
    assert not (tmp_path / "mark").exists()
    with np.load(tmp_path / "x.npz", allow_pickle=True) as archive:  # the trap works
        _ = archive["x"]
    assert (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("y.txt", "a\n\n-1\n b \n"),
        ("y.txt", "label\na\n\n-1\nb"),
        ("y.csv", '"a"\n\n-1\nb\n'),
        ("y.csv", "Class\r\na\r\n\r\n-1\r\nb\r\n"),
    ],
)
def test_an_npy_with_labels_in_lines(tmp_path: Path, name: str, text: str) -> None:
    x = noise(0, 4, 3).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / name).write_bytes(text.encode())
    data = read_data(tmp_path / "x.npy", labels=tmp_path / name)
    assert data.y.tolist() == ["a", None, None, "b"]
    assert isinstance(data.x, np.memmap)
    assert np.array_equal(data.x, x)


def test_an_npy_with_labels_in_another(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(3))
    np.save(tmp_path / "y.npy", np.array([3, -1, 4]))
    assert read_data(tmp_path / "x.npy", labels=tmp_path / "y.npy").y.tolist() == ["3", None, "4"]
    assert read_data(tmp_path / "x.npy").y.tolist() == [None] * 3


def test_mistakes_in_arrays(tmp_path: Path) -> None:
    def npz(**arrays: Any) -> Path:
        np.savez(tmp_path / "d.npz", **arrays)
        return tmp_path / "d.npz"

    lines = tmp_path / "y.csv"
    lines.write_text("a\nb\n")
    assert_refused(npz(inputs=np.eye(2), target=np.eye(2)), "no array named", "but inputs, target: rename")
    assert_refused(npz(x=np.eye(3)), "y.csv", "2 labels", "3 rows", labels=lines)
    assert_refused(npz(x=np.eye(2), y=np.arange(2)), "y.csv", labels=lines)
    assert_refused(npz(x=np.eye(3), y=np.eye(3)), "labels of float64 (3, 3)")
    assert_refused(npz(x=np.arange(3)), "(3,)")
    assert_refused(npz(x=np.eye(0)), "(0, 0)")
    assert_refused(npz(x=np.array([["a"]])), "<U1")
    assert_refused(npz(x=noise(0, 2, 5, 5, 4)), "channel")
    assert_refused(npz(x=np.full((2, 3, 3), 0.5)), "0 to 255")
    assert_refused(npz(x=np.full((2, 3, 3), -1.0)), "0 to 255")
    assert_refused(npz(x=np.array([[1.0, 2.0], [3.0, 1e300]])), "row 2", "column 2")
    lines.write_text("a,b\nc,d\n")
    assert_refused(npz(x=np.eye(2)), "one label a line", labels=lines)
    (tmp_path / "d.npz").write_bytes((tmp_path / "d.npz").read_bytes()[:100])
    assert_refused(tmp_path / "d.npz", "cannot be read as a NumPy file")
    (tmp_path / "d.npy").write_bytes(b"")
    assert_refused(tmp_path / "d.npy", "cannot be read as a NumPy file")


def test_rows_that_are_not_finite_are_left_out_of_arrays(tmp_path: Path) -> None:
    x = np.array([[1.0, 2.0], [np.nan, 2.0], [5.0, 6.0]])
    np.savez(tmp_path / "d.npz", x=x, y=np.array(["a", "b", "c"]))
    data = read_data(tmp_path / "d.npz", skip_bad=True)
    assert (data.x.tolist(), data.y.tolist(), data.names) == ([[1, 2], [5, 6]], ["a", "c"], ("row 1", "row 3"))
    assert data.remarks[0] == "1 row was left out for a cell that cannot be used or for too many cells: row 2"
    np.savez(tmp_path / "d.npz", x=x[1:2])
    assert_refused(tmp_path / "d.npz", "every row", skip_bad=True)


def test_constant_features_of_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[1.0, 2.0, 3.0], [1.0, 5.0, 3.0]]))
    assert read_data(tmp_path / "x.npy").remarks[0] == "2 columns are constant: 1, 3"


# --- tables ---


def table(folder: Path, text: str) -> Path:
    pytest.importorskip("pandas")
    path = folder / "t.csv"
    path.write_text(text)
    return path


def test_a_table(tmp_path: Path) -> None:
    data = read_data(table(tmp_path, "a,Label,b\n1,x,2.5\n3,,4\n5,-1,1e3\n7, NA ,-2\n8,x,0\n9,NA,0\n"))
    assert data.x.dtype == np.float32
    assert data.x.tolist() == [[1, 2.5], [3, 4], [5, 1000], [7, -2], [8, 0], [9, 0]]
    assert data.y.tolist() == ["x", None, None, "NA", "x", "NA"]
    assert data.names == ("row 1", "row 2", "row 3", "row 4", "row 5", "row 6")
    assert data.columns == ("a", "b")
    assert data.remarks == ("2 rows are unlabeled: 1 blank, 1 '-1'",)


def test_which_column_has_the_labels(tmp_path: Path) -> None:
    path = table(tmp_path, "x,y,class\n1,2,01\n3,4,02\n")
    assert read_data(path).y.tolist() == ["01", "02"]  # class comes before y, and its texts stay as written
    assert read_data(path, label_column="x").y.tolist() == ["1", "3"]
    assert_refused(path, "'z'", "'x', 'y', 'class'", label_column="z")
    assert_refused(table(tmp_path, "p,q\n1,2\n"), "--label-column", "'p', 'q'")


def test_whole_numbers_stay_whole_beside_missing_labels(tmp_path: Path) -> None:
    """Pandas writes integers beside a missing one as 1.0; where a label has a fraction, none is whole."""
    assert read_data(table(tmp_path, "a,y\n1,1.0\n2,\n3,2.0\n")).y.tolist() == ["1", None, "2"]
    assert read_data(table(tmp_path, "a,y\n1,1.0\n2,\n3,2.5\n")).y.tolist() == ["1.0", None, "2.5"]
    assert read_data(table(tmp_path, "a,y\n1,True\n2,\n3,False\n")).y.tolist() == ["True", None, "False"]


def test_rows_that_say_they_have_no_label_are_counted(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.eye(4), y=np.array([1.0, np.nan, -1, 2]))
    assert "2 rows are unlabeled: 1 'nan', 1 '-1.0'" in read_data(tmp_path / "a.npz").remarks
    np.save(tmp_path / "a.npy", np.eye(4))
    (tmp_path / "y.csv").write_text("a\n\nNaN\nb\n")
    assert "2 rows are unlabeled: 1 blank, 1 'NaN'" in read_data(tmp_path / "a.npy", labels=tmp_path / "y.csv").remarks
    (tmp_path / "y.csv").write_text("a\n\n\nb\n")
    assert not any("unlabeled" in said for said in read_data(tmp_path / "a.npy", labels=tmp_path / "y.csv").remarks)


def test_mistakes_in_a_table(tmp_path: Path) -> None:
    assert_refused(
        table(tmp_path, "a,b,y\n1,2,0\n3,red,1\n5,6,1\n"), "'red' instead of a finite number", "'b' in row 2"
    )
    assert_refused(table(tmp_path, "a,b,y\n1,2,0\n3,1e300,1\n"), "row 2", "'b'")
    assert_refused(table(tmp_path, "a,y\n1,0,9\n2,1,9\n"), "cannot be read")
    assert_refused(table(tmp_path, "a,y\n1,0\n2,1,9\n"), "cannot be read")
    assert_refused(table(tmp_path, "a,y\n"), "no rows")
    assert_refused(table(tmp_path, "y\n1\n"), "only the label column")
    assert_refused(table(tmp_path, ""), "cannot be read")


def test_gaps_in_a_table_are_filled_and_leave_no_row_out(tmp_path: Path) -> None:
    path = table(tmp_path, "a,b,c,y\n1,2,5,u\n3,,5,v\n5,2,5,w\n")
    for skip_bad in (False, True):
        data = read_data(path, skip_bad=skip_bad)
        assert data.columns == ("a", "b", "b: gap")
        assert (data.x.tolist(), data.y.tolist()) == ([[1, 2, 0], [3, 2, 1], [5, 2, 0]], ["u", "v", "w"])
        assert data.remarks == (
            "1 column is constant: 'b'",
            "3 classes have a single labeled row: u, v, w",
        )
        assert data.table is not None and data.table.left_out == (("c", "constant"),)


def test_rows_that_cannot_be_read_are_left_out_and_the_others_keep_their_numbers(tmp_path: Path) -> None:
    path = table(tmp_path, "a,b,y\n1,2,u\n3,4,v,9\n5,red,w\n7,8,u\n9,10,v\n11,12,u,9,9\n")
    assert_refused(path, "cannot be read as a table", "line 3")
    data = read_data(path, skip_bad=True)
    assert (data.x.tolist(), data.y.tolist()) == ([[1, 2], [7, 8], [9, 10]], ["u", "u", "v"])
    assert data.names == ("row 1", "row 4", "row 5")
    left = "3 rows were left out for a cell that cannot be used or for too many cells: row 2, row 3, row 6"
    assert data.remarks[0] == left
    path = table(tmp_path, "a,b,y\n1,red,u\n2,blue,v\n")
    assert_refused(path, "'b'", "'red'", skip_bad=True, columns={"b": "number"})
    assert_refused(table(tmp_path, "a,y\n1,0,9\n2,1\n"), "cannot be read", skip_bad=True)  # a cell would be lost


def test_a_table_in_several_chunks_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(tmp_path, "a,b,y\n" + "".join(f"{i},{i * i},{'uvw'[i % 3]}\n" for i in range(40)) + "1,2,3,4\nx,1,u\n")
    whole = read_data(path, skip_bad=True)
    monkeypatch.setattr(table_file.pieces, "__defaults__", (7, ()))
    parts = read_data(path, skip_bad=True)
    assert np.array_equal(whole.x, [[i, i * i] for i in range(40)]) and np.array_equal(parts.x, whole.x)
    assert (parts.y.tolist(), parts.names) == (whole.y.tolist(), whole.names)
    assert parts.remarks == whole.remarks == (
        "2 rows were left out for a cell that cannot be used or for too many cells: row 41, row 42",
    )  # fmt: skip


def test_rows_that_are_the_same_but_labeled_differently(tmp_path: Path) -> None:
    data = read_data(table(tmp_path, "a,y\n1,u\n2,v\n1,v\n1,\n2,v\n1,u\n"))
    assert data.remarks == ("1 row is in different classes with the same content: row 1 = row 3 = row 6",)
    assert data.twins.tolist() == [0, 1, 0, 0, 1, 0]


def test_a_parquet_table(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"a": [1, 2, 3], "target": [0.0, np.nan, 2.0], "b": pandas.array([1, None, 3], "Int64")})
    frame.index = [7, 8, 9]  # an index is no feature
    path = tmp_path / "t.parquet"
    frame.to_parquet(path)
    data = read_data(path, skip_bad=True)
    assert (data.x.tolist(), data.y.tolist()) == ([[1, 1, 0], [2, 2, 1], [3, 3, 0]], ["0", None, "2"])
    assert data.columns == ("a", "b", "b: gap")
    path.write_bytes(path.read_bytes()[:-20])
    assert_refused(path, "cannot be read as a table")


def test_a_parquet_file(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"a": [1.5, 2.5], "y": ["u", None]}).to_parquet(tmp_path / "t.parquet")
    data = read_data(tmp_path / "t.parquet")
    assert (data.x.tolist(), data.y.tolist()) == ([[1.5], [2.5]], ["u", None])


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(tmp_path, "a,y\n1,2\n").rename(tmp_path / "t.parquet")
    with monkeypatch.context() as without:
        for library in ("pyarrow", "pyarrow.parquet"):
            without.setitem(sys.modules, library, None)
        assert_refused(path, "`pip install pyarrow`")
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"a": [1.0], "y": ["u"]}).to_parquet(path)
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert_refused(path, "`pip install pandas`")


def test_mistakes_in_what_is_asked_for(tmp_path: Path) -> None:
    assert_refused(tmp_path / "gone", "gone", "does not exist")
    assert_refused(tmp_path, "gone", labels=tmp_path / "gone")
    path = table(tmp_path, "a,y\n1,2\n")
    assert_refused(path, "--size 8", size=8)
    assert_refused(path, "'1' in line 2", labels=path)
    np.save(tmp_path / "x.npy", np.eye(2))
    assert_refused(tmp_path / "x.npy", "--label-column q", label_column="q")
    assert_refused(path.rename(tmp_path / "t.doc"), "t.doc", "unknown kind")
