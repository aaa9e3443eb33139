"""Computes features of photos and texts, during reading or from memory, once; then they are cached."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import __version__ as PILLOW

from ict.backbones import PHOTOS, TEXTS, WORDS, open_backbone
from ict.backbones.backbone import Backbone, Features, identity
from ict.backbones.feature_cache import FeatureCache
from ict.backbones.listing import is_ready
from ict.backbones.preparation import Pixels
from ict.backbones.word_bag import fit_words
from ict.base.array_types import Array
from ict.base.errors import UserError
from ict.data.user.image_cache import FORMAT as DECODING
from ict.data.user.records import Items, Progress
from ict.engine.device import Device

AUTO, NONE = "auto", "none"  # instead of a backbone's name
_AT_ONCE = 256  # items that are prepared before they are embedded
_PACK = 4096  # items that are embedded before they are cached: the most that an interrupted run loses

Squares = Callable[[Sequence[int]], Iterator[NDArray[np.uint8] | str]]


class Embedder:
    """A backbone with a cache of its features. If it is None, TF-IDF is fitted to the first texts."""

    def __init__(self, backbone: Backbone | None) -> None:
        self._backbone = backbone

    @property
    def backbone(self) -> Backbone:
        if self._backbone is None:
            raise UserError(f"backbone {WORDS} is fitted to texts, and none were given: give it texts first.")
        return self._backbone

    @property
    def side(self) -> int:
        """The side of the squares to which photos are decoded."""
        return self._pixels.size

    def photos(
        self, digests: Sequence[bytes], squares: Squares, source: Path, progress: Progress | None
    ) -> tuple[Features, dict[int, str]]:
        """The features of files with these hashes, and by position the reasons why the others cannot be read."""
        _ = self._pixels  # a backbone of texts is refused
        return self._cached(digests, squares, source, progress)

    def squares(self, squares: Sequence[Array]) -> Features:
        """The features of decoded photos, without the cache."""
        _ = self._pixels
        return self.backbone.embed(squares)

    def texts(self, texts: Sequence[str], source: Path | None, progress: Progress | None) -> Features:
        """The features of texts, cached. A backbone without weights is fitted to the first texts."""
        if self._backbone is None:
            self._backbone = fit_words(list(texts))
            return self.texts_now(texts)
        self._refuse_texts()
        digests = [hashlib.blake2b(text.encode("utf-8", "surrogatepass")).digest() for text in texts]

        def prepared(places: Sequence[int]) -> Iterator[Array]:
            return (self.backbone.prepare(texts[i]) for i in places)

        return self._cached(digests, prepared, source, progress)[0]

    def texts_now(self, texts: Sequence[str]) -> Features:
        """The features of texts, without the cache."""
        self._refuse_texts()
        return self.backbone.embed([self.backbone.prepare(text) for text in texts])

    def images(self, images: Array, progress: Progress | None = None) -> Features:
        """The features of an array of images, uint8 [n, h, w] or [n, h, w, c], cached."""
        digests = [hashlib.blake2b(repr(image.shape).encode() + image.tobytes()).digest() for image in images]

        def prepared(places: Sequence[int]) -> Iterator[Array]:
            return (self.backbone.prepare(images[i]) for i in places)

        _ = self._pixels
        return self._cached(digests, prepared, None, progress)[0]

    @property
    def _pixels(self) -> Pixels:
        preparation = self.backbone.preparation
        if not isinstance(preparation, Pixels):
            raise UserError(f"backbone {self.backbone.name} is for texts: name one for photos.")
        return preparation

    def _refuse_texts(self) -> None:
        if isinstance(self.backbone.preparation, Pixels):
            raise UserError(f"backbone {self.backbone.name} is for photos: name one for texts.")

    def _cached(
        self,
        digests: Sequence[bytes],
        prepared: Callable[[Sequence[int]], Iterator[Array | str]],
        source: Path | None,
        progress: Progress | None,
    ) -> tuple[Features, dict[int, str]]:
        cache = FeatureCache(f"{identity(self.backbone)} {PILLOW} {DECODING}", source)
        first = {digest: place for place, digest in reversed(list(enumerate(digests)))}
        missing = sorted(place for digest, place in first.items() if digest not in cache)
        reasons: dict[bytes, str] = {}
        done = len(digests) - len(missing)
        items = zip(missing, prepared(missing), strict=True)
        for _ in range(0, len(missing), _PACK):
            found, parts = list[bytes](), list[Features]()
            for some in _batches(islice(items, _PACK), _AT_ONCE):
                good = {digests[place]: row for place, row in some if not isinstance(row, str)}
                reasons |= {digests[place]: row for place, row in some if isinstance(row, str)}
                parts.append(self.backbone.embed(list(good.values())))
                found += good
                done += len(some)
                if progress is not None:
                    progress("features", done, len(digests))
            cache.add(found, np.concatenate(parts))
        bad = {place: reasons[digest] for place, digest in enumerate(digests) if digest in reasons}
        rows = [cache[digest] for digest in digests if digest not in reasons]
        return (np.stack(rows) if rows else self.backbone.embed([])), bad


def embedder(name: str, items: Items, device: Device) -> Embedder | None:
    """The embedder for items of a kind: a named backbone, or with `auto` the packaged one if it is installed."""
    if name == NONE or (name == AUTO and items == "numbers"):
        return None
    if name == AUTO and items == "photos":
        return Embedder(open_backbone(PHOTOS, device)) if is_ready(PHOTOS) else None
    if name == AUTO:
        name = TEXTS if is_ready(TEXTS) else WORDS
    return Embedder(None if name == WORDS else open_backbone(name, device))


def _batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
