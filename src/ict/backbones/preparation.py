"""Prepares a photo or a text for a network. The settings are stored with the weights."""

import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from math import inf
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ict.base.errors import UserError
from ict.base.files import json_object
from ict.data.user.image_file import square

PreparedItems = Sequence[NDArray[Any]] | NDArray[Any]
LARGEST = 1024  # pixels of a side
LONGEST = 8192  # tokens of a text


@dataclass(frozen=True)
class Pixels:
    """A centered square of `size` pixels; the network gets (x / scale - mean) / std."""

    size: int
    scale: float
    mean: tuple[float, ...]  # of the channels, after the division by scale
    std: tuple[float, ...]
    channels_last: bool = False  # the layout that the network itself takes

    @classmethod
    def from_dict(cls, values: dict[str, Any], source: str) -> Self:
        """From our own JSON, or from that of a `preprocessor_config.json`."""
        if {"size", "image_mean", "image_std"} <= values.keys():
            values = _as_ours(values)
        if missing := [key for key in ("size", "scale", "mean", "std") if key not in values]:
            raise UserError(f"{source} lacks {', '.join(missing)}: add how the backbone's pixels are scaled.")
        size, scale, layout = values["size"], values["scale"], values.get("layout", "nchw")
        if not (isinstance(size, int) and not isinstance(size, bool) and 8 <= size <= LARGEST):
            raise UserError(f"size in {source} is {size!r}: it must be a number of pixels from 8 to {LARGEST}.")
        if not _is_number(scale) or scale <= 0:
            raise UserError(f"scale in {source} is {scale!r}: it must be a number above 0, such as 255 or 1.")
        if layout not in ("nchw", "nhwc"):
            raise UserError(f"layout in {source} is {layout!r}: choose nchw or nhwc.")
        for key in ("mean", "std"):
            three = values[key]
            if not (isinstance(three, list | tuple) and len(three) == 3 and all(map(_is_number, three))):
                raise UserError(f"{key} in {source} is {three!r}: it must be three numbers.")
            if key == "std" and min(three) <= 0:
                raise UserError(f"std in {source} is {three!r}: its numbers must be above 0.")
        mean, std = (tuple(map(float, values[key])) for key in ("mean", "std"))
        return cls(size, float(scale), mean, std, layout == "nhwc")

    def to_json(self) -> str:
        values = {key: value for key, value in asdict(self).items() if key != "channels_last"}
        return json.dumps({"kind": "pixels", **values, "layout": "nhwc" if self.channels_last else "nchw"})

    @property
    def example(self) -> NDArray[Any]:
        """Two prepared items with random pixels."""
        return np.random.default_rng(0).integers(0, 256, (2, self.size, self.size, 3), dtype=np.uint8)

    def prepare(self, item: Any) -> NDArray[np.uint8]:
        pixels = np.asarray(item)
        gray = pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] == 1)
        if pixels.dtype != np.uint8 or not (gray or (pixels.ndim == 3 and pixels.shape[2] == 3)) or not pixels.size:
            raise UserError(
                f"an image has the shape {pixels.shape} of {pixels.dtype}: give uint8 pixels [h, w] or [h, w, 3]."
            )
        return square(Image.fromarray(pixels.reshape(pixels.shape[:2]) if gray else pixels).convert("RGB"), self.size)

    def batch(self, rows: PreparedItems) -> NDArray[np.uint8]:
        """Prepared items as one array."""
        if not len(rows):
            return np.empty((0, self.size, self.size, 3), np.uint8)
        return np.stack(list(rows))


@dataclass(frozen=True)
class Tokens:
    """Token ids of a text, at most `length`; batches are padded with `pad`."""

    tokenizer: str  # the content of a tokenizer.json
    length: int
    pad: int = 0

    @classmethod
    def from_dict(cls, values: dict[str, Any], source: str) -> Self:
        tokenizer, length, pad = values.get("tokenizer"), values.get("length"), values.get("pad", 0)
        if not isinstance(tokenizer, str) or not isinstance(length, int) or not isinstance(pad, int):
            raise UserError(f"{source} lacks a tokenizer or the length that texts are cut to: make the file again.")
        if not 1 <= length <= LONGEST:
            raise UserError(f"length in {source} is {length}: it must lie between 1 and {LONGEST}.")
        if not 0 <= pad < 2**31:
            raise UserError(f"pad in {source} is {pad}: it must be the number of a token.")
        return cls(tokenizer, length, pad)

    def to_json(self) -> str:
        return json.dumps({"kind": "tokens", **asdict(self)})

    @property
    def example(self) -> NDArray[Any]:
        """Two prepared items, made up."""
        return np.array([[5, 7, 11, 13], [5, 7, self.pad, self.pad]], np.int64)

    def prepare(self, item: Any) -> NDArray[np.int64]:
        _check_text(item)
        return np.array(self._encoder.encode(item).ids or [self.pad], np.int64)

    def batch(self, rows: PreparedItems) -> NDArray[np.int64]:
        """Prepared items as one array, filled up to the longest."""
        return _filled_up(rows, self.pad)

    def __getstate__(self) -> dict[str, Any]:
        return asdict(self)  # without what is cached

    @cached_property
    def _encoder(self) -> Any:
        try:
            tokenizers = importlib.import_module("tokenizers")
        except ImportError:
            raise UserError("texts need the package tokenizers: run `pip install 'ict-ssl[text]'`.") from None
        try:
            encoder = tokenizers.Tokenizer.from_str(self.tokenizer)
        except Exception as problem:  # the library raises nothing narrower
            raise UserError(f"the backbone's tokenizer cannot be read ({problem}): get its file again.") from None
        encoder.no_padding()
        encoder.enable_truncation(self.length)
        return encoder


@dataclass(frozen=True)
class Words:
    """Indices, from 1 on, of the distinct words of a text that are in a vocabulary; batches are padded with 0."""

    vocabulary: tuple[str, ...]

    @classmethod
    def from_dict(cls, values: dict[str, Any], source: str) -> Self:
        words = values.get("vocabulary")
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise UserError(f"{source} lacks a vocabulary: make the file again.")
        return cls(tuple(words))

    def to_json(self) -> str:
        return json.dumps({"kind": "words", **asdict(self)})

    @property
    def example(self) -> NDArray[Any]:
        """Two prepared items, made up."""
        return np.array([[1, 2, 1, 2], [1, 0, 0, 0]], np.int64)

    def prepare(self, item: Any) -> NDArray[np.int64]:
        _check_text(item)
        numbers = {self._numbers[word] for word in self._analyze(item) if word in self._numbers}
        return np.array(sorted(numbers) or [0], np.int64)

    def batch(self, rows: PreparedItems) -> NDArray[np.int64]:
        """Prepared items as one array, filled up to the longest."""
        return _filled_up(rows, 0)

    def __getstate__(self) -> dict[str, Any]:
        return asdict(self)  # without what is cached

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.vocabulary, 1)}

    @cached_property
    def _analyze(self) -> Callable[[str], list[str]]:
        from sklearn.feature_extraction.text import CountVectorizer  # for other kinds it need not be loaded

        analyze: Callable[[str], list[str]] = CountVectorizer().build_analyzer()
        return analyze


Preparation = Pixels | Tokens | Words
_KINDS: dict[Any, type[Preparation]] = {"tokens": Tokens, "words": Words}  # all others are pixels


def from_json(content: str, source: str) -> Preparation:
    """The preparation that `to_json` wrote, or a `preprocessor_config.json`."""
    return from_values(json_object(content, source), source)


def from_values(values: dict[str, Any], source: str) -> Preparation:
    """The same of JSON that is parsed already."""
    kind = values.get("kind")
    return (_KINDS.get(kind, Pixels) if isinstance(kind, str) else Pixels).from_dict(values, source)


def _check_text(item: Any) -> None:
    if not isinstance(item, str):
        raise UserError(f"a text is {item!r}: give strings.")


def _filled_up(rows: PreparedItems, pad: int) -> NDArray[np.int64]:
    batch = np.full((len(rows), max(map(len, rows), default=1)), pad, np.int64)
    for row, ids in zip(batch, rows, strict=True):
        row[: len(ids)] = ids
    return batch


def _as_ours(values: dict[str, Any]) -> dict[str, Any]:
    crops = values.get("do_center_crop", False) and values.get("crop_size") is not None
    side = values["crop_size"] if crops else values["size"]
    if isinstance(side, dict):
        side = side.get("shortest_edge", side.get("height"))
    factor = values.get("rescale_factor", 1 / 255) if values.get("do_rescale", True) else 1
    scale = 1 / factor if _is_number(factor) and factor > 0 else factor
    mean, std = values["image_mean"], values["image_std"]
    if not values.get("do_normalize", True):
        mean, std = (0.0,) * 3, (1.0,) * 3
    return {"size": side, "scale": scale, "mean": mean, "std": std}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < inf
