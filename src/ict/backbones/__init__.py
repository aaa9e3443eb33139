"""Pretrained features: frozen networks that turn photos and texts into rows of numbers, and files of such networks.

A name is looked up here and nowhere else: nothing that a file names is imported. May import `engine` and all below it.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from ict.base.errors import UserError, unknown
from ict.base.registry import Entry, Registry

if TYPE_CHECKING:
    from ict.backbones.backbone import Backbone
    from ict.engine.device import Device

PHOTOS, TEXTS, WORDS = "efficientnet-lite0", "minilm", "tfidf"
BACKBONES = Registry(
    "backbone",
    __name__,
    {
        PHOTOS: Entry("efficientnet_lite0:open_packaged", "photos, by EfficientNet-lite0 trained on ImageNet"),
        TEXTS: Entry("minilm:open_packaged", "English texts, by all-MiniLM-L6-v2"),
        WORDS: Entry("word_bag:open_unfitted", "texts, by TF-IDF and an SVD fitted to them: nothing pretrained"),
    },
)
KINDS = Registry(
    "kind of backbone",
    __name__,
    {
        "onnx": Entry("onnx_backbone:open_file", "onnx:FILE, with its preprocessing in the file or in FILE.json"),
        "timm": Entry("timm_network:open_network", "timm:NAME (downloaded by timm) or timm:NAME@FILE of weights"),
        "hf": Entry("hf_folder:open_folder", "hf:DIR, a folder of Hugging Face transformers with safetensors"),
        "torch": Entry("torch_factory:open_factory", "torch:module:factory, your own code"),
    },
)


def open_backbone(name: str, device: "Device" = "auto", *, by_file: bool = False) -> "Backbone":
    """The backbone of a name. `by_file`: a file gave the name, which may name no code and nothing to download."""
    from ict.engine.device import pick_device

    target = pick_device(device)
    kind, _, rest = name.partition(":")
    opened: Backbone
    if name in BACKBONES:
        opened = BACKBONES[name](target)
    elif kind in KINDS and rest:
        if by_file and kind == "torch":
            raise UserError(f"backbone '{name}' names code, which no file may do: give it by --backbone.")
        if by_file and kind == "timm":  # the hub of a name such as timm:hf-hub:... is anybody's
            raise UserError(
                f"backbone '{name}' may download what it names, which no file may do: give it by --backbone."
            )
        opened = KINDS[kind](Path(rest) if kind in ("onnx", "hf") else rest, target)
    else:
        raise unknown("backbone", name, [*BACKBONES, *(f"{kind}:..." for kind in KINDS)])
    return opened
