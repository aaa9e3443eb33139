"""Views of a batch: what is random in them, in which order it is drawn, and what the copies of an example share."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from ict.base.rng import Rng
from ict.data.normalize import Whiten, fit
from ict.engine.input_transform import InputTransform
from ict.engine.settings import Inputs
from tests.scripted import Array, ScriptedDraws

IMAGES = torch.randint(1, 256, (3, 2, 5, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
FEATURES = torch.randn(3, 6, generator=torch.Generator().manual_seed(1))
TOPS, LEFTS, COINS = [0, 2, 1], [2, 1, 0], [0.7, 0.2, 0.4]


def moved(
    images: Array, tops: Sequence[int], lefts: Sequence[int], coins: Sequence[float], *, pad: int, reflect: bool
) -> Array:
    mode = "reflect" if reflect else "constant"
    out = []
    for image, top, left, coin in zip(images, tops, lefts, coins, strict=True):
        padded = np.pad(image, ((0, 0), (pad, pad), (pad, pad)), mode=mode)  # type: ignore[call-overload]
        cut = padded[:, top : top + image.shape[1], left : left + image.shape[2]]
        out.append(cut[:, :, ::-1] if coin < 0.5 else cut)
    return np.stack(out)


def whitening() -> Whiten:
    return fit(IMAGES, scale="centered", zca="ridge", epsilon=0.01)


def by_hand(images: Array, whiten: Whiten) -> Array:
    flat = (images / 255 - 0.5).reshape(len(images), -1) - whiten.center.double().numpy()
    out: Array = (flat @ whiten.matrix.double().numpy()).reshape(images.shape)
    return out


@pytest.mark.parametrize("reflect", [False, True])
def test_augmenting_pixels_moves_them_before_whitening(reflect: bool) -> None:
    whiten = whitening()
    transform = InputTransform(Inputs(pad=1, flip=True, reflect=reflect, augment="pixels"), whiten)
    out = transform(IMAGES, ScriptedDraws((), [TOPS, LEFTS], [COINS]))
    pixels = moved(IMAGES.double().numpy(), TOPS, LEFTS, COINS, pad=1, reflect=reflect)
    np.testing.assert_allclose(out, by_hand(pixels, whiten), atol=1e-4)


@pytest.mark.parametrize("reflect", [False, True])
def test_augmenting_inputs_moves_them_after_whitening(reflect: bool) -> None:
    whiten = whitening()
    transform = InputTransform(Inputs(pad=1, flip=True, reflect=reflect, augment="inputs"), whiten)
    out = transform(IMAGES, ScriptedDraws((), [TOPS, LEFTS], [COINS]))
    whitened = by_hand(IMAGES.double().numpy(), whiten)
    np.testing.assert_allclose(out, moved(whitened, TOPS, LEFTS, COINS, pad=1, reflect=reflect), atol=1e-4)
    if not reflect:
        assert not out[0, :, 0].any(), "padding is zero in whitened space"


@pytest.mark.parametrize("augment", ["pixels", "inputs"])
@pytest.mark.parametrize("x", [IMAGES, FEATURES], ids=["images", "features"])
def test_without_draws_a_view_is_the_transform_alone(augment: str, x: Tensor) -> None:
    whiten = fit(x)
    inputs = Inputs(pad=1, flip=True, shared_flip=True, noise=0.5, augment=augment)  # type: ignore[arg-type]
    assert torch.equal(InputTransform(inputs, whiten)(x), whiten(x))


@pytest.mark.parametrize("augment", ["pixels", "inputs"])
def test_noise_comes_last_on_images(augment: str) -> None:
    noise = np.random.default_rng(0).normal(size=IMAGES.shape)
    inputs = Inputs(pad=1, flip=True, augment=augment, noise=0.15)  # type: ignore[arg-type]
    whiten = whitening()
    out = InputTransform(inputs, whiten)(IMAGES, ScriptedDraws((), [TOPS, LEFTS], [COINS], normals=[noise]))
    images = IMAGES.double().numpy()
    if augment == "pixels":
        expected = by_hand(moved(images, TOPS, LEFTS, COINS, pad=1, reflect=False), whiten)
    else:
        expected = moved(by_hand(images, whiten), TOPS, LEFTS, COINS, pad=1, reflect=False)
    np.testing.assert_allclose(out, expected + 0.15 * noise, atol=1e-4)


@pytest.mark.parametrize("augment", ["pixels", "inputs"])
def test_feature_vectors_get_noise_and_nothing_else(augment: str) -> None:
    noises = list(np.random.default_rng(0).normal(size=(2, *FEATURES.shape)))
    inputs = Inputs(pad=1, flip=True, shared_flip=True, augment=augment, noise=2.0)  # type: ignore[arg-type]
    x = FEATURES.double().numpy()
    expected = (x - x.mean(0)) / x.std(0)
    out = InputTransform(inputs, fit(FEATURES)).copies(FEATURES, 2, ScriptedDraws(normals=noises))
    for got, noise in zip(out, noises, strict=True):
        np.testing.assert_allclose(got, expected + 2 * noise, atol=1e-5)


def test_noise_follows_a_views_own_shift_and_flip() -> None:
    """The draws of one copy are complete before the next one begins."""
    seen: list[str] = []

    class Recorder(ScriptedDraws):
        def integers(self, high: int, n: int) -> Tensor:
            seen.append("shift")
            return super().integers(high, n)

        def uniform(self, n: int) -> Tensor:
            seen.append("flip")
            return super().uniform(n)

        def normal_like(self, x: Tensor) -> Tensor:
            seen.append("noise")
            return super().normal_like(x)

    draws = Recorder((), [TOPS, LEFTS] * 2, [COINS] * 2, normals=[np.zeros(IMAGES.shape)] * 2)
    InputTransform(Inputs(pad=1, flip=True, noise=0.1), fit(IMAGES)).copies(IMAGES, 2, draws)
    assert seen == ["shift", "shift", "flip", "noise"] * 2


def test_copies_share_flips_and_have_their_own_shifts_and_noise() -> None:
    transform = InputTransform(
        Inputs(pad=1, flip=True, shared_flip=True, reflect=True, scale="none", noise=1.0), fit(IMAGES, scale="none")
    )
    tops, lefts = [TOPS, [1, 1, 0]], [LEFTS, [2, 0, 1]]
    noises = list(np.random.default_rng(0).normal(size=(2, *IMAGES.shape)))
    draws = ScriptedDraws((), [tops[0], lefts[0], tops[1], lefts[1]], [COINS], normals=noises)  # a single flip
    out = transform.copies(IMAGES, 2, draws)
    for got, top, left, noise in zip(out, tops, lefts, noises, strict=True):
        expected = moved(IMAGES.double().numpy() / 255, top, left, COINS, pad=1, reflect=True) + noise
        np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("augment", ["pixels", "inputs"])
def test_shared_flips_mirror_all_copies_of_an_example_or_none(augment: str) -> None:
    x = IMAGES[:1].expand(64, -1, -1, -1)
    inputs = Inputs(flip=True, shared_flip=True, augment=augment)  # type: ignore[arg-type]
    transform = InputTransform(inputs, fit(IMAGES))
    first, *others = transform.copies(x, 3, Rng(torch.device("cpu"), 0))
    assert all(torch.equal(first, other) for other in others)
    plain = transform(x)
    mirrored = sum(torch.equal(got, kept.flip(-1)) for got, kept in zip(first, plain, strict=True))
    as_it_was = sum(torch.equal(got, kept) for got, kept in zip(first, plain, strict=True))
    assert mirrored + as_it_was == 64 and min(mirrored, as_it_was) > 16


def test_shared_flips_need_flips() -> None:
    transform = InputTransform(Inputs(pad=1, shared_flip=True), fit(IMAGES))
    out = transform.copies(IMAGES, 1, ScriptedDraws((), [TOPS, LEFTS]))  # no uniforms to draw
    assert torch.equal(out[0], transform(IMAGES, ScriptedDraws((), [TOPS, LEFTS])))


@pytest.mark.parametrize("augment", ["pixels", "inputs"])
@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize(("pad", "flip"), [(0, False), (2, False), (0, True), (2, True)])
def test_copies_of_their_own_are_views_one_after_another(augment: str, noise: float, pad: int, flip: bool) -> None:
    transform = InputTransform(Inputs(pad=pad, flip=flip, augment=augment, noise=noise), fit(IMAGES))  # type: ignore[arg-type]
    together, one_by_one = (Rng(torch.device("cpu"), 7) for _ in range(2))
    for copy in transform.copies(IMAGES, 3, together):
        assert torch.equal(copy, transform(IMAGES, one_by_one))
    assert torch.equal(together.uniform(4), one_by_one.uniform(4)), "as many draws"


def test_noise_has_the_deviation_it_says() -> None:
    x = torch.zeros(2000, 10)
    out = InputTransform(Inputs(scale="none", noise=0.15), fit(x, scale="none"))(x, Rng(torch.device("cpu"), 3))
    assert abs(out.std().item() / 0.15 - 1) < 0.03 and abs(out.mean().item()) < 0.005
