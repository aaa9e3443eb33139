"""`ict embed` and the cache of features: what is written, and that nothing is embedded twice."""

import json
import os
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image
from torch import Tensor, nn

from ict.backbones import open_backbone
from ict.backbones.backbone import Features
from ict.backbones.embedder import Embedder
from ict.backbones.torch_backbone import TorchBackbone
from ict.base.errors import UserError
from ict.data.user import array_cache
from ict.data.user.read import read_data, stream_data
from tests.test_cli import ict

RNG = np.random.default_rng(8)
SIDE = 16
NAME = f"torch:{__name__}:Corners"
TEXTS = {"fish/a": "a cod swims in the sea", "fish/b": "the sea holds a tuna", "bird/c": "a crow flies in the sky"}


class Corners(nn.Module):
    """The four corners' values, channel by channel."""

    preprocessing: ClassVar[dict[str, Any]] = {"size": SIDE, "scale": 255, "mean": [0, 0, 0], "std": [1, 1, 1]}

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, :: SIDE - 1, :: SIDE - 1].flatten(1)


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many items every call of a network got."""
    counts: list[int] = []
    embed = TorchBackbone.embed

    def spy(self: TorchBackbone, rows: Any) -> Features:
        counts.append(len(rows))
        return embed(self, rows)

    monkeypatch.setattr(TorchBackbone, "embed", spy)
    return counts


def photos(folder: Path, n: int = 6, side: int = SIDE, gray: bool = False) -> dict[str, np.ndarray[Any, Any]]:
    """Images by name, in two classes and unlabeled."""
    arrays = {}
    for i in range(n):
        name = f"{('ant', 'bee', 'unlabeled')[i % 3]}/{i}.png"
        arrays[name] = RNG.integers(0, 256, (side, side) if gray else (side, side, 3), dtype=np.uint8)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(arrays[name]).save(folder / name)
    return dict(sorted(arrays.items()))


def corners(arrays: Any) -> Any:
    """What `Corners` gives, by NumPy."""
    x = np.stack(list(arrays)).transpose(0, 3, 1, 2) / 255
    return x[:, :, [0, 0, -1, -1], [0, -1, 0, -1]].reshape(len(x), -1)


def run(monkeypatch: pytest.MonkeyPatch, path: Path, out: Path, *more: str) -> Any:
    assert ict(monkeypatch, "embed", path, "-o", out, "--backbone", NAME, *more) == 0
    with np.load(out, allow_pickle=False) as archive:
        return dict(archive)


def test_photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = photos(tmp_path / "in")
    found = run(monkeypatch, tmp_path / "in", tmp_path / "x.npz")
    assert found["features"].dtype == np.float32 and found["names"].tolist() == list(arrays)
    np.testing.assert_allclose(found["features"], corners(arrays.values()), atol=1e-5)
    assert found["labels"].tolist() == ["ant", "ant", "bee", "bee", "", ""]
    assert f"6 rows of 12 features by {NAME}" in capsys.readouterr().out
    again = read_data(tmp_path / "x.npz")  # as data to fit to
    np.testing.assert_array_equal(again.x, found["features"])
    assert again.y.tolist() == ["ant", "ant", "bee", "bee", None, None]


def test_images_in_an_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = RNG.integers(0, 256, (3, SIDE, SIDE, 3), dtype=np.uint8)
    np.savez(tmp_path / "in.npz", x=images)
    found = run(monkeypatch, tmp_path / "in.npz", tmp_path / "x.npz")
    np.testing.assert_allclose(found["features"], corners(images), atol=1e-5)
    assert "labels" not in found


def test_new_photos_alone_are_embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedded: list[int]) -> None:
    source = tmp_path / "in"
    arrays = photos(source)
    first = run(monkeypatch, source, tmp_path / "1.npz")
    assert sum(embedded) == 6
    embedded.clear()
    np.testing.assert_array_equal(run(monkeypatch, source, tmp_path / "2.npz")["features"], first["features"])
    assert sum(embedded) == 0
    (source / "bee/copy.png").write_bytes((source / "ant/0.png").read_bytes())
    for i in range(3):
        arrays[f"ant/new{i}.png"] = RNG.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
        Image.fromarray(arrays[f"ant/new{i}.png"]).save(source / f"ant/new{i}.png")
    arrays["bee/copy.png"] = arrays["ant/0.png"]
    found = run(monkeypatch, source, tmp_path / "3.npz")
    assert sum(embedded) == 3  # neither the old ones nor the copy
    assert found["names"].tolist() == sorted(arrays)
    np.testing.assert_allclose(found["features"], corners(arrays[name] for name in sorted(arrays)), atol=1e-5)


def test_no_pixels_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    photos(tmp_path / "in")
    run(monkeypatch, tmp_path / "in", tmp_path / "x.npz")
    assert [path.name for path in own_cache.iterdir()] == ["features"]


def test_another_backbone_or_preprocessing_has_features_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedded: list[int]
) -> None:
    arrays = photos(tmp_path / "in")
    run(monkeypatch, tmp_path / "in", tmp_path / "x.npz")
    embedded.clear()
    monkeypatch.setattr(Corners, "preprocessing", {**Corners.preprocessing, "std": [0.5, 0.5, 0.5]})
    found = run(monkeypatch, tmp_path / "in", tmp_path / "y.npz")
    assert sum(embedded) == 6
    np.testing.assert_allclose(found["features"], 2 * corners(arrays.values()), atol=1e-5)


def test_a_damaged_pack_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path, embedded: list[int]
) -> None:
    arrays = photos(tmp_path / "in")
    for damage in ("rows", "about.json", "two digests"):
        run(monkeypatch, tmp_path / "in", tmp_path / "x.npz")
        (path,) = own_cache.glob(f"features/*/*/{'rows' if damage == 'rows' else 'about.json'}")
        if damage == "two digests":  # one photo's features would be taken for another's
            about = json.loads(path.read_text())
            about["digests"][:2] = about["digests"][1::-1]
            path.write_text(json.dumps(about))
        else:
            path.write_bytes(b"?" + path.read_bytes()[1:])
        embedded.clear()
        found = run(monkeypatch, tmp_path / "in", tmp_path / "x.npz")
        assert sum(embedded) == 6
        np.testing.assert_allclose(found["features"], corners(arrays.values()), atol=1e-5)


def test_a_pack_that_a_killed_process_had_not_finished_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path, embedded: list[int]
) -> None:
    photos(tmp_path / "in")
    run(monkeypatch, tmp_path / "in", tmp_path / "x.npz")
    (pack,) = own_cache.glob("features/*/*")
    pack.rename(pack.with_name(f".{pack.name}.{2**40}-0.tmp"))
    embedded.clear()
    run(monkeypatch, tmp_path / "in", tmp_path / "x.npz")
    assert (sum(embedded), list(own_cache.glob("features/*/*"))) == (6, [pack])


def test_a_cache_that_cannot_be_written_costs_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = photos(tmp_path / "in")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ICT_CACHE", str(tmp_path / "file"))
    embed = Embedder(open_backbone(NAME, "cpu"))
    with pytest.warns(UserWarning, match="features are not cached"):
        data = read_data(tmp_path / "in", embed=embed, beside=())
    np.testing.assert_allclose(data.x, corners(arrays.values()), atol=1e-5)
    monkeypatch.setenv("ICT_CACHE", str(tmp_path / "in/cache"))
    with pytest.warns(UserWarning, match="must not change"):
        read_data(tmp_path / "in", embed=embed, beside=())
    assert not (tmp_path / "in/cache").exists()


def test_bad_photos_are_refused_or_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    source = tmp_path / "in"
    arrays = photos(source)
    raw = (source / "ant/0.png").read_bytes()
    (source / "ant/0.png").write_bytes(raw[: len(raw) // 2])
    assert ict(monkeypatch, "embed", source, "-o", tmp_path / "x.npz", "--backbone", NAME) == 2
    assert "ant/0.png is corrupt" in capsys.readouterr().err and not (tmp_path / "x.npz").exists()
    for _ in range(2):
        found = run(monkeypatch, source, tmp_path / "x.npz", "--skip-bad")
        assert found["names"].tolist() == list(arrays)[1:]
        np.testing.assert_allclose(found["features"], corners(list(arrays.values())[1:]), atol=1e-5)


def test_small_gray_photos_have_their_pixels_beside(tmp_path: Path) -> None:
    arrays = photos(tmp_path / "in", side=24, gray=True)
    embed = Embedder(open_backbone(NAME, "cpu"))
    data = read_data(tmp_path / "in", embed=embed)
    assert data.beside == (24, 24) and data.x.shape == (6, 12 + 24 * 24)
    np.testing.assert_array_equal(data.x[:, 12:], np.stack(list(arrays.values())).reshape(6, -1))
    assert data.image is not None and data.image(0).shape == (128, 128, 3)
    stream = stream_data(tmp_path / "in", data.x.shape[1:], (), False, embed, data.beside)
    chunks = list(stream.chunks)
    np.testing.assert_allclose(np.concatenate([chunk.x for chunk in chunks]), data.x, atol=1e-6)
    assert [name for chunk in chunks for name in chunk.names] == list(arrays) and stream.total == 6
    photos(tmp_path / "large", side=65, gray=True)
    photos(tmp_path / "color", side=24)
    for name in ("large", "color"):
        assert read_data(tmp_path / name, embed=embed).x.shape == (6, 12)


def texts(folder: Path) -> Path:
    for name, text in TEXTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.txt").write_text(text)
    return folder


def test_texts_in_folders_and_tables_give_the_same_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    pytest.importorskip("pandas")
    texts(tmp_path / "in")
    lines = [f'"{text}",{name.partition("/")[0]}' for name, text in sorted(TEXTS.items())]
    (tmp_path / "t.csv").write_text("\n".join(["words,label", *lines]) + "\n")
    found = []
    for source in (["in"], ["t.csv", "--text-column", "words"]):
        words: list[str | Path] = [
            "embed",
            tmp_path / source[0],
            *source[1:],
            "-o",
            tmp_path / "x.npz",
            "--backbone",
            "tfidf",
        ]
        assert ict(monkeypatch, *words) == 0
        with np.load(tmp_path / "x.npz") as archive:
            found.append(dict(archive))
    np.testing.assert_array_equal(found[0]["features"], found[1]["features"])
    near = found[0]["features"] @ found[0]["features"].T  # bird, fish, fish
    assert near[1, 2] > near[0, 1:].max()
    assert found[0]["labels"].tolist() == found[1]["labels"].tolist() == ["bird", "fish", "fish"]
    assert found[1]["names"].tolist() == ["row 1", "row 2", "row 3"]
    assert "3 rows" in capsys.readouterr().out


def test_texts_are_streamed(tmp_path: Path) -> None:
    embed = Embedder(None)
    data = read_data(texts(tmp_path / "in"), embed=embed)
    stream = stream_data(tmp_path / "in", data.x.shape[1:], (), False, embed)
    np.testing.assert_allclose(np.concatenate([chunk.x for chunk in stream.chunks]), data.x, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "words", "said"),
    [
        ("table", ["--text-column", "no"], "has no column 'no'"),
        ("table", ["--text-column", "words", "--label-column", "no"], "has no column 'no'"),
        ("table", ["--text-column", "words"], "has no text in row 2"),
        ("table", [], "name its column of texts by"),
        ("numbers", [], "features already"),
        ("numbers", ["--text-column", "x"], "needs a table"),
        ("texts", ["--label-column", "x"], "needs a table"),
        ("texts", ["--backbone", NAME], "is for photos"),
        ("photos", ["--backbone", "tfidf"], "fitted to texts"),
        ("photos", ["--backbone", "none"], "no features without a backbone"),
        ("photos", ["-o", "x.npy"], "end the name in .npz"),
        ("photos", ["-o", "in/x.npz"], "must not change"),
        ("not text", [], "not a UTF-8 text"),
    ],
)
def test_mistakes(
    make: str, words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    source = Path("in")
    if make == "table":
        source = Path("t.csv")
        source.write_text("words,label\nsome,a\n,b\n")
    elif make == "numbers":
        source = Path("t.npz")
        np.savez(source, x=np.eye(3))
    elif make == "photos":
        photos(source)
    else:
        texts(source)
        (source / "fish/a.txt").write_bytes(b"\xff\xfe\x00" if make == "not text" else b"fine")
    backbone = "tfidf" if make in ("table", "texts", "not text") else NAME
    assert ict(monkeypatch, "embed", source, "--backbone", backbone, "-o", "x.npz", *words) == 2
    assert said in capsys.readouterr().err
    assert not Path("x.npz").exists()


def test_the_cache_has_a_limit_and_can_be_cleared(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for i in range(4):
        array_cache.write_entry(own_cache / f"images/{i}", np.zeros((1, 1000), np.uint8), "uint8", (1000,), {})
        os.utime(own_cache / f"images/{i}/about.json", (i, i))
    assert array_cache.read_entry(own_cache / "images/0") is not None  # used now: the second is the oldest
    monkeypatch.setenv("ICT_CACHE_LIMIT", "0.000005")
    array_cache.write_entry(own_cache / "features/a/b", np.zeros((1, 500), np.float32), "float32", (500,), {})
    left = {path.name for path in array_cache.entries(own_cache)}
    assert "b" in left and "0" in left and "1" not in left
    monkeypatch.setenv("ICT_CACHE_LIMIT", "0.000000001")
    array_cache.write_entry(own_cache / "features/a/c", np.zeros((1, 500), np.float32), "float32", (500,), {})
    assert [path.name for path in array_cache.entries(own_cache)] == ["c"]  # the newest stays, whatever its size
    assert ict(monkeypatch, "cache") == 0
    assert str(own_cache) in capsys.readouterr().out
    (own_cache / "notes.txt").write_text("mine")
    assert ict(monkeypatch, "cache", "--clear") == 0
    assert [path.name for path in own_cache.iterdir()] == ["notes.txt"]
    monkeypatch.setenv("ICT_CACHE_LIMIT", "much")
    assert ict(monkeypatch, "cache") == 2
    assert "ICT_CACHE_LIMIT is 'much'" in capsys.readouterr().err


def test_a_backbone_of_images_refuses_texts() -> None:
    with pytest.raises(UserError, match="is for photos"):
        Embedder(open_backbone(NAME, "cpu")).texts(["a"], None, None)


def test_heic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    photos(tmp_path / "in", 2)
    (tmp_path / "in/ant/z.heic").write_bytes(b"whatever")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pillow_heif", None)
        assert ict(without, "embed", tmp_path / "in", "-o", tmp_path / "x.npz", "--backbone", NAME) == 2
    assert "ant/z.heic needs the package pillow-heif" in capsys.readouterr().err
    pillow_heif = pytest.importorskip("pillow_heif")
    image = np.full((40, 40, 3), (200, 100, 50), np.uint8)
    pillow_heif.from_pillow(Image.fromarray(image)).save(tmp_path / "in/ant/z.heic", quality=100)
    found = run(monkeypatch, tmp_path / "in", tmp_path / "x.npz")
    row = found["features"][found["names"].tolist().index("ant/z.heic")]
    np.testing.assert_allclose(row.reshape(3, 4), np.repeat([[200], [100], [50]], 4, 1) / 255, atol=0.03)
