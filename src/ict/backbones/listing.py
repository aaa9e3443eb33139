"""The list of backbones: ready or how to install them, their size and licence."""

from importlib.util import find_spec
from typing import NamedTuple

from ict.backbones import BACKBONES, KINDS, PHOTOS, TEXTS, WORDS
from ict.backbones import efficientnet_lite0 as photos
from ict.backbones import minilm as texts
from ict.backbones.packaged import find_packaged

_RUNTIME = ("onnx", "onnxscript", "onnxruntime")
_NEEDS: dict[str, tuple[tuple[str, ...], str]] = {
    "onnx": (_RUNTIME, "pip install 'ict-ssl[onnx]'"),
    "timm": (("timm", "torchvision"), "pip install timm torchvision"),
    "hf": (("transformers", "tokenizers"), "pip install transformers"),
    "torch": ((), ""),
}


class Listed(NamedTuple):
    name: str
    summary: str
    state: str  # ready, or what to do


def listed() -> list[Listed]:
    """A row for each backbone and for each kind of file."""
    rows = []
    for name, source, needs in ((PHOTOS, photos, _RUNTIME), (TEXTS, texts, (*_RUNTIME, "tokenizers"))):
        path = find_packaged(source.PACKAGE, source.FILE)
        ready = path is not None and _installed(needs)
        size = f"{path.stat().st_size / 1e6:.0f} MB, " if path else ""
        state = (
            f"ready, {size}{source.LICENCE}" if ready else f"{source.LICENCE}: pip install 'ict-ssl[{source.EXTRA}]'"
        )
        rows.append(Listed(name, BACKBONES.summary(name), state))
    rows.append(Listed(WORDS, BACKBONES.summary(WORDS), "ready"))
    for kind, (packages, how) in _NEEDS.items():
        rows.append(Listed(f"{kind}:", KINDS.summary(kind), "ready" if _installed(packages) else how))
    return rows


def is_ready(name: str) -> bool:
    """Whether a packaged backbone can be opened here."""
    return any(row.name == name and row.state.startswith("ready") for row in listed())


def _installed(packages: tuple[str, ...]) -> bool:
    return all(find_spec(package) is not None for package in packages)
