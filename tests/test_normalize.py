"""Augmentation, scaling, ZCA and the order of rows, against NumPy slicing and linear algebra."""

from typing import get_args, get_type_hints

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ict.base.rng import Rng
from ict.contract import Batch
from ict.data.augment import shift_and_flip
from ict.data.dataset import Examples
from ict.data.normalize import Scale, Whiten, Zca, fit
from ict.engine.batches import Batches, RowStream
from ict.engine.input_transform import InputTransform
from ict.engine.settings import Inputs, Train
from tests.scripted import Array, ScriptedDraws

CPU = torch.device("cpu")
IMAGES = torch.randint(1, 256, (3, 2, 6, 7), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("reflect", [False, True])
def test_crop_and_flip_with_forced_draws_equal_numpy_slicing(reflect: bool) -> None:
    tops, lefts, uniforms = [0, 3, 4], [4, 1, 2], [0.7, 0.2, 0.49]
    out = shift_and_flip(IMAGES, ScriptedDraws((), [tops, lefts], [uniforms]), pad=2, reflect=reflect, flip=True)
    for image, top, left, uniform, got in zip(IMAGES.numpy(), tops, lefts, uniforms, out, strict=True):
        padded = np.pad(image, ((0, 0), (2, 2), (2, 2)), mode="reflect" if reflect else "constant")
        cut = padded[:, top : top + 6, left : left + 7]
        np.testing.assert_array_equal(got, cut[:, :, ::-1] if uniform < 0.5 else cut)
    assert out.dtype == torch.uint8 and out.is_contiguous()


def test_no_shift_and_no_flip_draws_nothing() -> None:
    assert shift_and_flip(IMAGES, ScriptedDraws(), pad=0) is IMAGES


def test_padding_is_black_in_pixel_space_before_standardisation() -> None:
    x = torch.full((1, 1, 4, 4), 100, dtype=torch.uint8)
    x[:, :, :2] = 200
    whiten = fit(x)
    moved = shift_and_flip(x, ScriptedDraws((), [[0], [0]]), pad=1)  # down and to the right by one
    black = (0 - 150 / 255) / (50 / 255)
    np.testing.assert_allclose(whiten(moved)[0, 0, 0], np.full(4, black), rtol=1e-5)
    np.testing.assert_allclose(whiten(moved)[0, 0, 1:, 1:], whiten(x)[0, 0, :3, :3])


def test_channels_get_zero_mean_and_unit_deviation() -> None:
    x = torch.randint(0, 256, (5000, 3, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    out = fit(x)(x).double().numpy()
    np.testing.assert_allclose(out.mean((0, 2, 3)), 0, atol=1e-6)
    np.testing.assert_allclose(out.std((0, 2, 3)), 1, atol=1e-6)


@pytest.mark.parametrize(("scale", "low", "high"), [("half", -1.0, 1.0), ("none", 0.0, 1.0), ("centered", -0.5, 0.5)])
def test_fixed_scales(scale: Scale, low: float, high: float) -> None:
    x = torch.tensor([[[[0, 255]]]], dtype=torch.uint8)
    assert fit(x, scale=scale)(x).flatten().tolist() == [low, high]


def test_features_are_scaled_each_and_a_constant_one_becomes_zero() -> None:
    x = torch.tensor([[1.0, 10.0, 4.0], [3.0, 30.0, 4.0]])
    np.testing.assert_allclose(fit(x)(x), [[-1, -1, 0], [1, 1, 0]], atol=1e-6)
    assert torch.equal(fit(x, scale="none")(x), x)


def alone(images: Array, scale: str) -> Array:
    """Scales of one image at a time, in a loop."""
    out = np.zeros(images.shape)
    for i, image in enumerate(images):
        centered = image - image.mean()
        out[i] = centered / image.std() if scale == "image" else centered * 55 / np.sqrt((centered**2).sum())
    return out


each_alone = pytest.mark.parametrize("scale", ["image", "gcn"])


@each_alone
def test_an_image_is_scaled_by_itself_alone(scale: Scale) -> None:
    out = fit(IMAGES.flip(0), scale=scale)(IMAGES)
    np.testing.assert_allclose(out, alone(IMAGES.numpy() / 255.0, scale), atol=1e-5)
    assert torch.equal(fit(IMAGES[:1], scale=scale)(IMAGES[1:2]), out[1:2])
    assert out.dtype == torch.float32 and out.shape == IMAGES.shape


@each_alone
def test_features_are_scaled_over_one_example(scale: Scale) -> None:
    x = np.random.default_rng(0).normal(3.0, size=(4, 7))
    np.testing.assert_allclose(fit(torch.from_numpy(x), scale=scale)(torch.from_numpy(x)), alone(x, scale), atol=1e-5)


@each_alone
@pytest.mark.parametrize("zca", [False, True])
def test_a_constant_image_becomes_zero(scale: Scale, zca: bool) -> None:
    for level in range(256):  # the float32 mean of a constant is not always that constant
        x = torch.full((1, 3, 7, 5), level, dtype=torch.uint8)
        whiten = Whiten((3, 7, 5), scale=scale, zca=zca)
        if zca:
            whiten.matrix.copy_(torch.eye(105))
        assert not whiten(x).any(), "a NaN would count as any"


def correlated() -> torch.Tensor:
    draws = np.random.default_rng(0)
    mixing = draws.normal(size=(12, 12))
    values = 128 + 12 * draws.normal(size=(9000, 12)) @ mixing
    return torch.from_numpy(values.clip(0, 255).astype(np.uint8).reshape(-1, 3, 2, 2))


def test_zca_output_has_identity_covariance_on_its_fit_set() -> None:
    x = correlated()
    out = fit(x, zca="authors", epsilon=0.0)(x).flatten(1).double().numpy()
    np.testing.assert_allclose(np.cov(out.T, bias=True), np.eye(12), atol=2e-4)
    np.testing.assert_allclose(out.mean(0), 0, atol=1e-4)


@pytest.mark.parametrize("formula", ["authors", "ridge"])
def test_zca_formulas_match_a_numpy_svd(formula: str) -> None:
    x, epsilon = correlated(), 0.05
    scaled = fit(x)(x).flatten(1).double().numpy()
    centered = scaled - scaled.mean(0)
    u, s, _ = np.linalg.svd(centered.T @ centered / len(centered))
    gains = 1 / np.sqrt(s) + epsilon if formula == "authors" else 1 / np.sqrt(s + epsilon)
    expected = centered @ (u * gains) @ u.T
    out = fit(x, zca=formula, epsilon=epsilon)(x).flatten(1)  # type: ignore[arg-type]
    np.testing.assert_allclose(out, expected, atol=1e-4)


@pytest.mark.parametrize("scale", ["none", "centered", "half", "image", "gcn"])
def test_zca_is_fitted_to_inputs_scaled_alike(scale: Scale) -> None:
    x, epsilon = correlated(), 0.1
    unit = x.flatten(1).numpy() / 255.0
    fixed = {"none": unit, "centered": unit - 0.5, "half": 2 * unit - 1}
    scaled = fixed[scale] if scale in fixed else alone(unit, scale)
    centered = scaled - scaled.mean(0)
    # (covariance + epsilon)^-1/2 by way of solving, so that no eigenvector is shared with the code under test
    root = scipy.linalg.sqrtm(centered.T @ centered / len(centered) + epsilon * np.eye(12)).real
    expected = np.linalg.solve(root, centered.T).T
    out = fit(x, scale=scale, zca="ridge", epsilon=epsilon)(x).flatten(1)
    np.testing.assert_allclose(out, expected, atol=1e-4)


@each_alone
def test_zca_without_ridge_does_not_amplify_what_scaling_took_away(scale: Scale) -> None:
    """The images of these scales do not vary along their mean, where S^-1/2 would blow rounding errors up."""
    x = correlated()
    scaled = alone(x.flatten(1).numpy() / 255.0, scale)
    u, _, v = np.linalg.svd(scaled - scaled.mean(0), full_matrices=False)
    expected = np.sqrt(len(x)) * u[:, :11] @ v[:11]
    out = fit(x, scale=scale, zca="authors", epsilon=0.0)(x).flatten(1)
    np.testing.assert_allclose(out, expected, atol=1e-4)


@pytest.mark.parametrize("scale", get_args(Scale))
@pytest.mark.parametrize("zca", ["none", "ridge"])
def test_saved_buffers_and_the_settings_give_the_same_transform(scale: Scale, zca: Zca) -> None:
    x = correlated()[:50]
    fitted = fit(x, scale=scale, zca=zca, epsilon=0.1)
    saved = fitted.state_dict()
    size = 12 if zca == "ridge" else 0
    assert {name: tuple(value.shape) for name, value in saved.items()} == {
        "mean": (3, 1, 1),
        "std": (3, 1, 1),
        "center": (size,),
        "matrix": (size, size),
    }
    read_back = Whiten((3, 2, 2), scale=scale, zca=zca == "ridge")
    read_back.load_state_dict(saved)
    assert torch.equal(read_back(x), fitted(x))


def test_every_scale_and_zca_of_a_recipe_is_known() -> None:
    hints = get_type_hints(Inputs)
    assert get_args(hints["scale"]) == get_args(Scale)
    assert get_args(hints["zca"]) == get_args(Zca)


@given(n=st.integers(1, 40), batch=st.integers(1, 40), seed=st.integers(0, 5))
@settings(max_examples=50, deadline=None)
def test_every_pass_is_a_fresh_permutation(n: int, batch: int, seed: int) -> None:
    pool = torch.arange(n) * 3 + 1
    rows = RowStream(pool, batch, seed, 0, CPU)
    epochs = [torch.cat([rows.at(e, i) for i in range(rows.per_epoch)]).tolist() for e in range(3)]
    for epoch in epochs:
        assert len(epoch) == (n // batch) * batch or (batch > n and len(epoch) == batch)
        counts = np.unique(epoch, return_counts=True)[1]
        assert set(epoch) <= set(pool.tolist()) and counts.max() <= -(-batch // n)
    if n >= 20 and batch <= n:
        assert epochs[0] != epochs[1] != epochs[2]
    assert RowStream(pool, batch, seed, 0, CPU).at(2, 0).tolist() == epochs[2][:batch], "a row needs no history"


def batches(order: str = "reshuffled", views: int = 1) -> Batches:
    x = torch.arange(40, dtype=torch.uint8)[:, None, None, None].expand(40, 1, 4, 4).contiguous()
    train = Train(labeled_batch=4, unlabeled_batch=5, labeled_order=order)  # type: ignore[arg-type]
    transform = InputTransform(Inputs(pad=1), fit(x, scale="none"))
    y = torch.where(torch.arange(40) < 10, torch.arange(40), -1)
    return Batches(Examples(x, y), torch.arange(10), torch.arange(10, 40), transform, train, views, seed=1)


def ids(x: torch.Tensor) -> list[int]:
    return (x.amax((1, 2, 3)) * 255).round().int().tolist()


def at(b: Batches, step: int) -> Batch:
    return b.at(step, Rng(CPU, step))


def test_a_batch_has_its_labels_and_keeps_labeled_and_unlabeled_apart() -> None:
    b = batches(views=2)
    for step in range(20):
        batch = at(b, step)
        assert ids(batch.x) == batch.y.tolist()
        assert batch.x.shape == (4, 1, 4, 4) and len(batch.u) == 2
        assert all(10 <= i < 40 for i in ids(batch.u[0])) and ids(batch.u[0]) == ids(batch.u[1])
    assert not torch.equal(batch.u[0], batch.u[1]), "views are augmented each for itself"


def test_labeled_batches_are_reshuffled_every_pass() -> None:
    b = batches()
    passes = [[ids(at(b, 2 * p + i).x) for i in range(2)] for p in range(4)]
    assert all(len(set(p[0] + p[1])) == 8 for p in passes)
    assert len({str(p) for p in passes}) == 4


def test_repeated_order_replays_the_same_augmented_batches_within_an_epoch() -> None:
    b = batches("repeated")  # 6 unlabeled and 2 labeled batches an epoch
    seen = [at(b, step).x for step in range(12)]
    assert all(torch.equal(seen[i], seen[i % 2]) for i in range(6))
    assert all(torch.equal(seen[6 + i], seen[6 + i % 2]) for i in range(6))
    assert not torch.equal(seen[0], seen[6])
