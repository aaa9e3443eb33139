"""A backbone's features of arrays of images and lists of strings, and how a method is fitted to features."""

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from PIL import Image

from ict.backbones import PHOTOS, open_backbone
from ict.backbones.embedder import AUTO, NONE, Embedder, embedder
from ict.backbones.preparation import Pixels
from ict.base.array_types import Array
from ict.base.errors import UserError
from ict.data.array_inputs import ArrayInputs, fit_features, has_channels_last
from ict.data.user.image_file import square
from ict.data.user.images import pixels_beside
from ict.data.user.records import Progress
from ict.engine.device import Device
from ict.estimators import AUTO as CHOICE
from ict.estimators.default_recipes import follows_all
from ict.estimators.fitter import Fitter
from ict.models.used_backbone import UsedBackbone

METHOD = "anchored"  # the method that learns from features


@dataclass
class Embedding:
    """A backbone and the shape of the pixels that stand behind its features."""

    embed: Embedder
    beside: tuple[int, ...] = ()
    texts: bool = False
    text_column: str | None = None  # of the table whose texts the model in a folder was fitted to

    def __call__(self, x: Any, progress: Progress | None = None) -> Array:
        """Features [n, f] of examples like those that it was made for."""
        x = _items(x)
        if self.texts:
            return self.embed.texts(_strings(x), None, progress)
        images = _images(x)
        features = self.embed.images(images, progress)
        if not self.beside:
            return features
        if images.ndim != 3:
            raise UserError(f"X has images of the shape {images.shape[1:]}, but the model was fitted to gray ones.")
        pixels = np.stack([square(Image.fromarray(image), self.beside[0]) for image in images])
        return np.concatenate([features, pixels.reshape(len(pixels), -1).astype(np.float32)], axis=1)

    @property
    def used(self) -> UsedBackbone:
        return UsedBackbone.of(self.embed, self.beside, self.text_column)

    def inputs(self, features: Array) -> ArrayInputs:
        """How features are scaled."""
        return fit_features(features, prod(self.beside) if self.beside else 0)


def embedding_for(name: str, x: Any, device: Device) -> Embedding:
    """What embeds the examples `x`: strings, or images as uint8."""
    if not isinstance(name, str) or name == NONE:
        raise UserError(f"backbone is {name!r}: name one that 'ict list backbones' shows, or None for no backbone.")
    x = _items(x)
    if _holds_strings(x):
        embed = embedder(name, "texts", device)
        assert embed is not None, "texts always have a backbone"
        return Embedding(embed, texts=True)
    images = _images(x)
    embed = Embedder(open_backbone(PHOTOS if name == AUTO else name, device))
    sides = list(images.shape[1:3])
    return Embedding(embed, pixels_beside([min(sides)], gray=images.ndim == 3))


def restored_embedding(used: UsedBackbone, device: Device, name: str | None = None) -> Embedding:
    """What embeds examples for a model that was loaded. `name`: the backbone, if the folder has no copy of it."""
    embed = used.open(device, name)
    texts = not isinstance(embed.backbone.preparation, Pixels)
    return Embedding(embed, used.beside, texts, used.text_column)


def on_features(fitter: Fitter, method: str) -> Fitter:
    """A fitter whose experts know that they get features."""
    if method != CHOICE and not follows_all(method):
        return fitter
    return replace(fitter, settings=("anchor.experts=features", *fitter.settings))


def _items(x: Any) -> Any:
    """A column of a table as an array."""
    return x.to_numpy() if hasattr(x, "to_numpy") else x


def _holds_strings(x: Any) -> bool:
    return isinstance(x, list | tuple | np.ndarray) and any(isinstance(item, str) for item in x)


def _strings(x: Any) -> list[str]:
    if isinstance(x, str):
        raise UserError("X is one string: give a list of strings.")
    if not _holds_strings(x):
        raise UserError("X holds no strings, but the model is one of texts: give a list of strings.")
    wrong = next((i for i, text in enumerate(x) if not isinstance(text, str)), None)
    if wrong is not None:
        raise UserError(
            f"X[{wrong}] is {str(x[wrong])[:40]} and no string: give one for every text, such as an empty one."
        )
    return [str(text) for text in x]


def _images(x: Any) -> Array:
    try:
        images = np.asarray(x)
    except ValueError:  # NumPy's, of a list whose items differ in shape
        raise UserError(
            "X holds images of different shapes: resize them to one, or put their files into a folder for 'ict fit'."
        ) from None
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or not images.size:
        raise UserError(
            f"X has the shape {images.shape} of {images.dtype}: a backbone takes strings or images as uint8, "
            "[n, h, w] or [n, h, w, 3]."
        )
    if images.ndim == 4:
        images = images if has_channels_last(images.shape) else images.transpose(0, 2, 3, 1)
        images = images[..., 0] if images.shape[3] == 1 else images
    return np.ascontiguousarray(images)
