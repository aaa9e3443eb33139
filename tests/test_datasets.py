"""Readers against files built byte by byte in the official formats, whole and damaged."""

import hashlib
import pickle
import runpy
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from ict.base.errors import UserError
from ict.data import DATASETS, cifar10
from ict.data.digits import digits
from ict.data.download import SOURCES, OfficialFile
from ict.data.moons import FIGURE, moons
from ict.data.svhn import svhn

N = 3  # records of each CIFAR-10 file, where the official ones have 10,000


@pytest.mark.parametrize("name", ["digits", "moons", "svhn"])
def test_a_reader_loads_sklearn_and_scipy_only_when_called(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("sklearn", "sklearn.datasets", "scipy", "scipy.io"):
        monkeypatch.setitem(sys.modules, library, None)  # importing it fails
    reader = runpy.run_path(str(Path(cifar10.__file__).with_name(f"{name}.py")))[name]
    with pytest.raises((ImportError, UserError)):
        reader(None, 0)


# --- digits ---


def test_digits_holds_out_the_same_share_of_every_class() -> None:
    data = digits(None, 0, test_fraction=0.25)
    assert (data.train.x.dtype, data.train.y.dtype) == (torch.uint8, torch.int64)
    assert data.shape == (1, 8, 8)
    assert len(data.train) + len(data.test) == 1797
    assert int(torch.cat([data.train.x, data.test.x]).max()) == 16
    # The number of scans of each digit, as the data's description gives it.
    for label, count in enumerate([178, 182, 177, 183, 181, 182, 181, 179, 174, 180]):
        held_out = int((data.test.y == label).sum())
        assert abs(held_out - count / 4) <= 0.5
        assert held_out + int((data.train.y == label).sum()) == count


def test_digits_splits_by_the_seed_and_loses_no_image() -> None:
    one, same, other = digits(None, 1), digits(None, 1), digits(None, 2)
    assert torch.equal(one.test.x, same.test.x)
    assert not torch.equal(one.test.x, other.test.x)

    def all_rows(data: object) -> list[list[int]]:
        assert isinstance(data, type(one))
        rows = [torch.cat([part.x.flatten(1).long(), part.y[:, None]], dim=1) for part in (data.train, data.test)]
        return sorted(torch.cat(rows).tolist())

    assert all_rows(one) == all_rows(other)


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, float("nan")])
def test_digits_needs_a_proper_fraction(fraction: float) -> None:
    with pytest.raises(UserError, match="test_fraction"):
        digits(None, 0, test_fraction=fraction)


@pytest.mark.parametrize("fraction", [1e-6, 1 - 1e-6])
def test_digits_leaves_both_sides_an_example_of_every_class(fraction: float) -> None:
    data = digits(None, 0, test_fraction=fraction)
    assert set(data.train.y.tolist()) == set(data.test.y.tolist()) == set(range(10))


# --- moons ---


def test_moons_without_noise_lie_on_the_half_circles() -> None:
    data = moons(None, 0, n=50, noise=0.0)
    for points in (data.train, data.test):
        assert (points.x.dtype, points.y.dtype) == (torch.float32, torch.int64)
        assert torch.bincount(points.y).tolist() == [25, 25]
        x, y = points.x.unbind(1)
        centre = points.y.float()
        assert torch.allclose((x - centre) ** 2 + (y - 0.5 * centre) ** 2, torch.ones(50), atol=1e-5)
        assert bool((torch.where(points.y == 0, y, 0.5 - y) > -1e-6).all())


def test_moons_labels_are_the_points_nearest_to_the_figures() -> None:
    data = moons(None, 3)
    assert data.labeled_rows is not None
    rows: list[int] = data.labeled_rows.tolist()
    assert len(set(rows)) == 6
    for label, positions in enumerate(FIGURE):
        mine = [row for row in rows if data.train.y[row] == label]
        assert len(mine) == 3
        for position in positions:
            distance = (data.train.x - torch.tensor(position)).norm(dim=1)
            nearest = min((row for row in range(1000) if data.train.y[row] == label), key=lambda r: distance[r])
            assert nearest in mine
            assert float(distance[nearest]) < 0.15


def test_moons_labels_stay_distinct_when_points_are_few() -> None:
    rows = moons(None, 0, n=6).labeled_rows
    assert rows is not None
    assert rows.tolist() == [0, 1, 2, 3, 4, 5]


def test_moons_labels_are_of_their_class_even_where_classes_mix() -> None:
    for seed in range(10):
        data = moons(None, seed, noise=2.0)
        assert data.labeled_rows is not None
        assert torch.bincount(data.train.y[data.labeled_rows]).tolist() == [3, 3]


def test_moons_fresh_test_points_by_the_seed() -> None:
    one, same, other = moons(None, 1), moons(None, 1, labels="random"), moons(None, 2)
    assert torch.equal(one.train.x, same.train.x)
    assert same.labeled_rows is None
    assert not torch.equal(one.train.x, one.test.x)
    assert not torch.equal(one.train.x, other.train.x)
    assert not torch.equal(one.test.x, other.test.x)


@pytest.mark.parametrize(("n", "noise"), [(5, 0.1), (100, -0.1), (100, float("nan"))])
def test_moons_refuses_impossible_options(n: int, noise: float) -> None:
    with pytest.raises(UserError, match="it must be"):
        moons(None, 0, n=n, noise=noise)


# --- CIFAR-10 ---


def pixel(file: int, record: int, position: int) -> int:
    return (89 * file + 31 * record + position) % 251


def pixels(file: int) -> list[bytes]:
    return [bytes(pixel(file, record, position) for position in range(3072)) for record in range(N)]


def labels_of(file: int) -> list[int]:
    return [(3 * file + record) % 10 for record in range(N)]


def binary_batch(file: int) -> bytes:
    return b"".join(bytes([label]) + p for label, p in zip(labels_of(file), pixels(file), strict=True))


def text(value: str) -> bytes:
    """SHORT_BINSTRING, Python 2's str."""
    return b"U" + bytes([len(value)]) + value.encode()


def int32(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def python2_array(data: bytes, shape: tuple[int, int], dtype: str = "u1") -> bytes:
    """What Python 2's numpy wrote for an array, opcode by opcode."""
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    kind = b"cnumpy\ndtype\n" + text(dtype) + b"K\x00K\x01\x87R"
    kind += b"(K\x03" + text("|") + b"NNN" + int32(-1) + int32(-1) + b"K\x00tb"
    long_string = b"T" + struct.pack("<i", len(data)) + data
    return empty + b"(K\x01" + int32(shape[0]) + int32(shape[1]) + b"\x86" + kind + b"\x89" + long_string + b"tb"


def python2_batch(file: int, *, labels: bytes | None = None, data: bytes | None = None) -> bytes:
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels_of(file)) + b"e"
    return (
        b"\x80\x02}q\x00("
        + (text("batch_label") + text(f"training batch {file} of 5"))
        + (text("labels") + (listed if labels is None else labels))
        + (text("data") + (python2_array(b"".join(pixels(file)), (N, 3072)) if data is None else data))
        + (text("filenames") + b"](" + text("camion_s_000148.png") * N + b"e")
        + b"u."
    )


Kind = Literal["bin", "py"]
kinds = pytest.mark.parametrize("kind", ["bin", "py"])


@pytest.fixture
def make_cifar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Kind], Path]:
    monkeypatch.setattr(cifar10, "RECORDS", N)

    def make(kind: Kind) -> Path:
        """Writes all six files and returns the first."""
        folder = tmp_path / f"cifar-10-batches-{kind}"
        folder.mkdir()
        for file, name in enumerate([f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"], start=1):
            if kind == "bin":
                (folder / f"{name}.bin").write_bytes(binary_batch(file))
            else:
                (folder / name).write_bytes(python2_batch(file))
        return folder / ("data_batch_1" + (".bin" if kind == "bin" else ""))

    return make


@kinds
def test_cifar10_every_pixel_in_its_place(make_cifar: Callable[[Kind], Path], kind: Kind) -> None:
    data = DATASETS["cifar10"](make_cifar(kind).parent.parent, 0)
    assert (data.train.x.dtype, data.train.y.dtype) == (torch.uint8, torch.int64)
    assert data.classes[0] == "airplane"
    assert data.classes[9] == "truck"
    for examples, files in ((data.train, range(1, 6)), (data.test, range(6, 7))):
        rows = [(file, record) for file in files for record in range(N)]
        expected = [
            [[[pixel(f, r, 1024 * c + 32 * i + j) for j in range(32)] for i in range(32)] for c in range(3)]
            for f, r in rows
        ]
        assert torch.equal(examples.x, torch.tensor(expected, dtype=torch.uint8))
        assert examples.y.tolist() == [label for file in files for label in labels_of(file)]


@pytest.mark.parametrize("protocol", [3, 4])
def test_cifar10_written_again_by_python_3(make_cifar: Callable[[Kind], Path], protocol: int) -> None:
    path = make_cifar("py")
    data = np.frombuffer(b"".join(pixels(1)), np.uint8).reshape(N, 3072)
    path.write_bytes(pickle.dumps({b"data": data, b"labels": [7, 8, 9]}, protocol))
    train = cifar10.cifar10(path.parent.parent, 0).train
    assert train.x[:N].flatten(1).tolist() == data.tolist()
    assert train.y[:N].tolist() == [7, 8, 9]


def test_cifar10_prefers_the_binary_version(make_cifar: Callable[[Kind], Path]) -> None:
    make_cifar("py").write_bytes(b"damaged")
    folder = make_cifar("bin").parent.parent
    assert len(cifar10.cifar10(folder, 0).train) == 5 * N


def check_refused(path: Path, found: str) -> None:
    with pytest.raises(UserError, match=found) as caught:
        cifar10.cifar10(path.parent.parent, 0)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert message.endswith(f"get it with `ict data cifar10 {path.parent.parent}`.")
    assert "\n" not in message


def test_cifar10_official_size_is_the_default(tmp_path: Path) -> None:
    path = tmp_path / "cifar-10-batches-bin" / "data_batch_1.bin"
    path.parent.mkdir()
    path.write_bytes(bytes(3073))
    check_refused(path, "expected 30730000 bytes, found 3073")


@pytest.mark.parametrize("change", [-1, 1, 3073])
def test_cifar10_binary_file_of_another_size(make_cifar: Callable[[Kind], Path], change: int) -> None:
    path = make_cifar("bin")
    path.write_bytes((path.read_bytes() + bytes(3073))[: 9219 + change])
    check_refused(path, f"expected 9219 bytes, found {9219 + change}")


def test_cifar10_binary_label_out_of_range(make_cifar: Callable[[Kind], Path]) -> None:
    path = make_cifar("bin")
    path.write_bytes(b"\x0a" + path.read_bytes()[1:])
    check_refused(path, "expected labels 0 to 9, found 10")


@kinds
def test_cifar10_file_of_any_size_costs_no_memory(make_cifar: Callable[[Kind], Path], kind: Kind) -> None:
    path = make_cifar(kind)
    with path.open("r+b") as file:
        file.truncate(1 << 40)  # a sparse file: a terabyte that takes no room
    check_refused(path, "1,099,511,627,776 bytes, more than")


@kinds
def test_cifar10_missing_file(make_cifar: Callable[[Kind], Path], kind: Kind) -> None:
    path = make_cifar(kind)
    path.unlink()
    check_refused(path, "No such file")


def test_cifar10_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no cifar-10-batches-bin .* `ict data cifar10 "):
        cifar10.cifar10(tmp_path, 0)
    with pytest.raises(UserError, match=r"--data-dir .* ICT_DATA"):
        cifar10.cifar10(None, 0)


@pytest.mark.parametrize(
    ("batch", "found"),
    [
        (b"", "pickle exhausted"),
        (python2_batch(1)[:-500], "cannot be read as a pickle"),
        (python2_batch(1)[:60], "cannot be read as a pickle"),
        (b"no pickle", "cannot be read as a pickle"),
        (b"].", "found list without them"),
        (b"\x80\x02}" + text("data") + b"Ns.", "found dict without them"),
        (python2_batch(1, labels=b"](K\x00K\x01K\x0ae"), "labels 0 to 9, found 10"),
        (python2_batch(1, labels=b"](K\x00K\x01" + int32(-1) + b"e"), "labels 0 to 9, found -1"),
        (python2_batch(1, labels=b"](K\x00K\x01" + text("2") + b"e"), "labels 0 to 9, found bytes"),
        (python2_batch(1, labels=b"](K\x00K\x01e"), "a list of 3 labels, found 2"),
        (python2_batch(1, labels=b"N"), "a list of 3 labels, found NoneType"),
        (python2_batch(1, data=b"N"), r"data of shape \(3, 3072\), found NoneType"),
        (python2_batch(1, data=python2_array(bytes(2 * 3072), (2, 3072))), r"found \(2, 3072\)"),
        (python2_batch(1, data=python2_array(bytes(N * 3072), (N, 3072), "i1")), "an array of something other"),
        (python2_batch(1, data=python2_array(bytes(N * 3072), (N, 3072), "O")), "an array of something other"),
        (python2_batch(1).replace(b"\x89T", b"\x88T"), "an array of something other"),  # by columns
        (python2_batch(1, data=python2_array(bytes(N * 3072 - 1), (N, 3072))), "cannot reshape"),
        (python2_batch(1, data=b"cnumpy\nndarray\n)R"), r"found \(0,\)"),
    ],
)
def test_cifar10_damaged_pickle(make_cifar: Callable[[Kind], Path], batch: bytes, found: str) -> None:
    path = make_cifar("py")
    path.write_bytes(batch)
    check_refused(path, found)


def test_cifar10_pickle_runs_no_code(make_cifar: Callable[[Kind], Path], tmp_path: Path) -> None:
    path, made = make_cifar("py"), tmp_path / "made"
    attack = b"cos\nmkdir\n(S'" + str(made).encode() + b"'\ntR."
    path.write_bytes(attack)
    check_refused(path, "a reference to os.mkdir")
    assert not made.exists()
    pickle.loads(attack)  # what it would have done
    assert made.is_dir()


@pytest.mark.parametrize(
    "batch",
    [
        b"c__builtin__\neval\n(S'1'\ntR.",
        b"cbuiltins\nobject\n.",
        b"cnumpy\nload\n.",
        b"cnumpy\nndarray.tofile\n.",
        b"\x80\x04\x8c\x05numpy\x8c\x0dndarray.dumps\x93.",
        b"cnumpy.core.multiarray\nfromfile\n.",
        b"(S'1'\nios\nsystem\n.",  # INST
        b"Pan outside object\n.",
        b"S'an outside object'\nQ.",
    ],
)
def test_cifar10_pickle_refers_to_arrays_alone(make_cifar: Callable[[Kind], Path], batch: bytes) -> None:
    path = make_cifar("py")
    path.write_bytes(batch)
    check_refused(path, "a reference to")


# --- SVHN ---


def element(kind: int, data: bytes) -> bytes:
    return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)


def matrix(name: str, shape: tuple[int, ...], data: bytes, *, double: bool = False) -> bytes:
    """One variable of a MATLAB 5 file, compressed as in the official files."""
    flags = element(6, struct.pack("<II", 6 if double else 9, 0))
    dimensions = element(5, struct.pack(f"<{len(shape)}i", *shape))
    plain = element(14, flags + dimensions + element(1, name.encode()) + element(9 if double else 2, data))
    packed = zlib.compress(plain)
    return struct.pack("<II", 15, len(packed)) + packed


def mat(*variables: bytes, version: int = 0x0100) -> bytes:
    header = b"MATLAB 5.0 MAT-file, Platform: GLNXA64".ljust(116) + bytes(8) + struct.pack("<H", version) + b"IM"
    return header + b"".join(variables)


def svhn_pixel(row: int, column: int, channel: int, n: int) -> int:
    return (5 * row + 7 * column + 83 * channel + 101 * n) % 256


def images(n: int) -> bytes:
    """MATLAB's order: the first index runs fastest."""
    return bytes(
        svhn_pixel(row, column, channel, i)
        for i in range(n)
        for channel in range(3)
        for column in range(32)
        for row in range(32)
    )


X, Y = matrix("X", (32, 32, 3, 3), images(3)), matrix("y", (3, 1), bytes([1, 10, 9]))


@pytest.fixture
def svhn_folder(tmp_path: Path) -> Path:
    (tmp_path / "train_32x32.mat").write_bytes(mat(X, Y))
    # The extra variable must not be in the way.
    test = mat(matrix("extra", (1, 1), b"\1"), matrix("X", (32, 32, 3, 1), images(1)), matrix("y", (1, 1), b"\4"))
    (tmp_path / "test_32x32.mat").write_bytes(test)
    return tmp_path


rebuilt = pytest.mark.filterwarnings("ignore:.*is not the official file")


@rebuilt
def test_svhn_every_pixel_in_its_place_and_ten_is_zero(svhn_folder: Path) -> None:
    data = svhn(svhn_folder, 0)
    assert data.classes == tuple("0123456789")
    assert (data.train.y.tolist(), data.test.y.tolist()) == ([1, 0, 9], [4])
    assert (data.train.x.dtype, data.train.y.dtype) == (torch.uint8, torch.int64)

    def expected(n: int) -> Tensor:
        values = [
            [[[svhn_pixel(r, c, k, i) for c in range(32)] for r in range(32)] for k in range(3)] for i in range(n)
        ]
        return torch.tensor(values, dtype=torch.uint8)

    assert torch.equal(data.train.x, expected(3))
    assert torch.equal(data.test.x, expected(1))
    assert data.train.x.is_contiguous()


@rebuilt
def test_svhn_labels_as_matlab_doubles(svhn_folder: Path) -> None:
    doubles = matrix("y", (3, 1), struct.pack("<3d", 10, 1, 2), double=True)
    (svhn_folder / "train_32x32.mat").write_bytes(mat(X, doubles))
    assert svhn(svhn_folder, 0).train.y.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (None, "found no file"),
        (b"", "cannot be read as a MATLAB 5 file"),
        (b"<html>not found</html>" * 20, "cannot be read as a MATLAB 5 file"),
        (mat(X, Y)[:700], "cannot be read as a MATLAB 5 file"),
        (mat(X, Y)[:-10], "cannot be read as a MATLAB 5 file"),
        (mat(version=0x0200).ljust(512, b"\0") + b"\x89HDF\r\n\x1a\n" + bytes(500), "HDF5"),
        (mat(X), "variables X and y, found X"),
        (mat(), "variables X and y, found neither"),
        (
            mat(matrix("X", (32, 3, 32, 1), images(1)), matrix("y", (1, 1), b"\1")),
            r"found uint8 \(32, 3, 32, 1\)",
        ),
        (mat(matrix("X", (32, 32, 3), images(1)), matrix("y", (1, 1), b"\1")), r"found uint8 \(32, 32, 3\)"),
        (mat(matrix("X", (32, 32, 3, 0), b""), matrix("y", (0, 1), b"")), r"found uint8 \(32, 32, 3, 0\)"),
        (
            mat(matrix("X", (32, 32, 3, 1), bytes(8 * 3072), double=True), Y),
            r"found float64 \(32, 32, 3, 1\)",
        ),
        (mat(X, matrix("y", (2, 1), b"\1\2")), r"y as numbers \(3, 1\), found uint8 \(2, 1\)"),
        (mat(X, matrix("y", (1, 3), b"\1\2\3")), r"found uint8 \(1, 3\)"),
        (mat(X, matrix("y", (3, 1), b"\1\0\3")), "labels 1 to 10, found 0"),
        (mat(X, matrix("y", (3, 1), b"\1\2\x0b")), "labels 1 to 10, found 11"),
        (
            mat(X, matrix("y", (3, 1), struct.pack("<3d", 1, 2, 2.5), double=True)),
            "labels 1 to 10, found 2.5",
        ),
    ],
)
def test_svhn_damaged_file(svhn_folder: Path, content: bytes | None, found: str) -> None:
    path = svhn_folder / "train_32x32.mat"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=found) as caught:
        svhn(svhn_folder, 0)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert message.endswith(f"get it with `ict data svhn {svhn_folder}`.")


def test_svhn_needs_a_folder() -> None:
    with pytest.raises(UserError, match=r"--data-dir .* ICT_DATA"):
        svhn(None, 0)


def test_svhn_warns_of_files_that_are_not_the_official_ones(svhn_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(UserWarning, match="is not the official file"):
        svhn(svhn_folder, 0)
    files = sorted(svhn_folder.iterdir())
    official = tuple(OfficialFile(file.name, "", hashlib.md5(file.read_bytes()).hexdigest()) for file in files)
    monkeypatch.setitem(SOURCES, "svhn", official)
    svhn(svhn_folder, 0)  # a warning would be an error


@rebuilt
def test_svhn_files_that_were_swapped(svhn_folder: Path) -> None:
    train, test, other = (svhn_folder / f"{name}_32x32.mat" for name in ("train", "test", "other"))
    train.rename(other), test.rename(train), other.rename(test)
    with pytest.raises(
        UserError, match=r"train_32x32\.mat: expected more images than in test_32x32\.mat \(3\), found 1"
    ):
        svhn(svhn_folder, 0)
