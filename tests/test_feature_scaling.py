"""Features of a pretrained network as inputs: recognized by their look, centered, of one length, in ONNX too."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from ict.base.array_types import Array
from ict.data.array_inputs import ArrayInputs, fit_inputs, has_same_length
from ict.models.onnx import Deployed


def embeddings(n: int = 200, f: int = 128) -> Array:
    rng = np.random.default_rng(0)
    return (rng.normal(size=(n, f)) * np.linspace(0.2, 2, f) + rng.normal(size=f)).astype(np.float32)


def test_they_are_centered_and_brought_to_one_length() -> None:
    x = embeddings()
    found = fit_inputs(x)(x)
    centered = x - x.mean(0)
    np.testing.assert_allclose(
        found, centered / np.linalg.norm(centered, axis=1, keepdims=True) * np.sqrt(128), rtol=1e-4, atol=1e-5
    )
    assert has_same_length(found) and not has_same_length(centered)


@pytest.mark.parametrize("what", ["few", "whole numbers", "many scales", "pixels", "one range"])
def test_tables_and_pixels_are_scaled_as_before(what: str) -> None:
    x = {
        "few": embeddings(f=60),
        "whole numbers": np.round(10 * embeddings()),
        "many scales": embeddings() * np.logspace(0, 4, 128),
        "pixels": np.random.default_rng(0).integers(0, 256, (200, 784)).astype(np.uint8),
        "one range": load_digits().data,
    }[what]
    assert not fit_inputs(x).same_length


def test_the_rule_survives_json_and_models_from_before_it() -> None:
    inputs = fit_inputs(embeddings())
    saved = json.loads(json.dumps(asdict(inputs)))
    as_loaded = saved | {"shape": tuple(saved["shape"]), "blocks": tuple(saved["blocks"])}
    assert ArrayInputs(**as_loaded) == inputs
    del as_loaded["same_length"], as_loaded["blocks"]
    assert not ArrayInputs(**as_loaded).same_length


def test_an_example_in_the_center_stays_there() -> None:
    x = embeddings()
    inputs = fit_inputs(x)
    middle = np.array([inputs.mean])
    assert np.abs(inputs(middle)).max() < 1e-3 and np.isfinite(inputs(middle)).all()


def test_the_deployed_graph_scales_alike() -> None:
    x = embeddings()
    inputs = fit_inputs(x)
    logits, _ = Deployed(nn.Flatten(), inputs, 1.0)(torch.from_numpy(x))
    np.testing.assert_allclose(logits.numpy(), inputs(x), rtol=1e-5, atol=1e-5)
