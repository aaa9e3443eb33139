"""JPEG files decoded at a reduced scale: the same picture to within a gray level or two, and less work."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, JpegImagePlugin

from ict.data.user.image_file import decoded, square


def photo(width: int, height: int) -> Image.Image:
    """Smooth like a photo, with edges: waves of several lengths and a disk."""
    y, x = np.mgrid[:height, :width] / min(width, height)
    waves = [np.sin(2 * np.pi * (a * x + b * y)) for a, b in ((1, 2), (3, -1), (-2, 5))]
    channels = [120 + 50 * wave + 60 * ((x - 0.5) ** 2 + (y - 0.5) ** 2 < 0.1) for wave in waves]
    return Image.fromarray(np.clip(np.stack(channels, axis=2), 0, 255).astype(np.uint8))


@pytest.mark.parametrize(
    ("sides", "scale"), [((1024, 768), 8), ((640, 480), 4), ((480, 640), 4), ((700, 700), 4), ((320, 240), 2)]
)
@pytest.mark.parametrize("turned", [False, True])
def test_a_large_jpeg_is_the_picture_that_a_whole_decode_gives(
    tmp_path: Path, sides: tuple[int, int], scale: int, turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer, exif = io.BytesIO(), Image.Exif()
    if turned:
        exif[0x0112] = 6  # a camera held upright
    photo(*sides).save(buffer, "JPEG", quality=95, exif=exif)
    (tmp_path / "a.jpg").write_bytes(buffer.getvalue())
    scales = list[int]()
    draft = JpegImagePlugin.JpegImageFile.draft

    def noting(self: JpegImagePlugin.JpegImageFile, mode: str | None, size: tuple[int, int] | None) -> object:
        before = self.width
        answer = draft(self, mode, size)
        scales.append(round(before / self.width))
        return answer

    monkeypatch.setattr(JpegImagePlugin.JpegImageFile, "draft", noting)
    answer = decoded(tmp_path / "a.jpg", tmp_path, 32, gray=False)
    assert not isinstance(answer, str) and scales[0] == scale
    whole = Image.open(io.BytesIO(buffer.getvalue()))
    expected = square(whole.transpose(Image.Transpose.ROTATE_270) if turned else whole, 32)
    difference = np.abs(answer[0].astype(int) - expected)
    assert difference.mean() < 1 and difference.max() <= 8


@pytest.mark.parametrize("sides", [(60, 60), (481, 641), (190, 3000)])
def test_small_and_odd_jpegs_are_decoded_whole(tmp_path: Path, sides: tuple[int, int]) -> None:
    photo(*sides).save(tmp_path / "a.jpg", quality=95)
    answer = decoded(tmp_path / "a.jpg", tmp_path, 32, gray=False)
    assert not isinstance(answer, str)
    np.testing.assert_array_equal(answer[0], square(Image.open(tmp_path / "a.jpg"), 32))
