"""The backbone whose features a model was fitted to: named by its digest in the model's folder, and carried there."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ict.backbones import open_backbone
from ict.backbones.backbone import identity
from ict.backbones.embedder import Embedder
from ict.backbones.onnx_backbone import content_of, from_bytes
from ict.base.errors import UserError
from ict.base.files import write_atomic
from ict.engine.device import Device

FILE = "backbone.onnx"


@dataclass(frozen=True)
class UsedBackbone:
    name: str
    identity: str  # of weights and preparation
    licence: str
    beside: tuple[int, ...] = ()  # shape of the pixels that follow the features
    text_column: str | None = None  # of the table that the model was fitted to
    file: Path | None = None  # its copy in the model's folder
    sha256: str = ""  # of the copy

    @classmethod
    def of(cls, embed: Embedder, beside: tuple[int, ...] = (), text_column: str | None = None) -> "UsedBackbone":
        backbone = embed.backbone
        return cls(backbone.name, identity(backbone), backbone.licence, beside, text_column)

    def carried(self, folder: Path, embed: Embedder) -> "UsedBackbone":
        """With a copy of the backbone in a model's folder; a UserError says why there can be none."""
        content = embed.backbone.onnx()
        write_atomic(folder / FILE, content)
        return replace(self, file=folder / FILE, sha256=hashlib.sha256(content).hexdigest())

    def to_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "identity": self.identity,
            "licence": self.licence,
            "beside": list(self.beside),
            "text_column": self.text_column,
            "sha256": self.sha256,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], folder: Path) -> "UsedBackbone":
        """What `to_config` wrote; a ValueError says what is wrong."""
        values = {key: config[key] for key in ("name", "identity", "licence", "sha256")}
        column, beside = config["text_column"], tuple(config["beside"])
        if not all(isinstance(value, str) for value in values.values()) or not isinstance(column, str | None):
            raise ValueError("its backbone is not described by strings")
        if not all(isinstance(side, int) and 0 < side <= 64 for side in beside) or len(beside) not in (0, 2, 3):
            raise ValueError("the pixels beside its backbone's features have no shape")
        file = folder / FILE if values["sha256"] else None
        return cls(**values, beside=beside, text_column=column, file=file)

    def open(self, device: Device, name: str | None = None) -> Embedder:
        """The copy, or the backbone that is installed or that the caller names; never one with other features."""
        if name is None and self.file is not None:
            return self._copy()
        try:
            backbone = open_backbone(name or self.name, device, by_file=name is None)
        except UserError as problem:
            if name is not None or "--backbone" in str(problem):
                raise
            raise UserError(f"{str(problem).rstrip('.')}, or name the backbone by --backbone.") from None
        if identity(backbone) != self.identity:
            raise UserError(
                f"the model was fitted to features of {self.name} with the digest {self.identity[:12]}, but "
                f"{backbone.name} has {identity(backbone)[:12]}: name the backbone that it was fitted with."
            )
        return Embedder(backbone)

    def _copy(self) -> Embedder:
        assert self.file is not None
        if not self.file.exists():
            raise UserError(f"{self.file} is missing: copy it there, or name the backbone by --backbone.")
        content = content_of(self.file)
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise UserError(f"{self.file} is not the backbone that the model was fitted with: copy it there again.")
        return Embedder(from_bytes(content, self.name, self.file))
