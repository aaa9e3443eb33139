"""A fit on a backbone's features: which method, which settings, and what the model's folder holds of the backbone."""

from dataclasses import dataclass, replace
from pathlib import Path

from ict.backbones import WORDS
from ict.backbones.conversion import check_packages
from ict.backbones.embedder import AUTO, NONE, Embedder, embedder
from ict.backbones.preparation import Pixels, Words
from ict.base.errors import UserError
from ict.data.user.read import item_kind
from ict.data.user.records import UserData
from ict.engine.device import Device
from ict.estimators import AUTO as AUTO_METHOD
from ict.estimators.embedding import METHOD
from ict.models.saved_model import SavedModel
from ict.models.used_backbone import UsedBackbone


@dataclass(frozen=True)
class ChosenBackbone:
    """What the examples were embedded with."""

    embed: Embedder
    text_column: str | None = None
    carry: bool = True  # a copy of the backbone in the model's folder

    def __post_init__(self) -> None:
        """Before training, refuse a model that could not predict: what was fitted to the texts is nowhere else."""
        if isinstance(self.embed.backbone.preparation, Words):
            if not self.carry:
                raise UserError(
                    f"backbone {WORDS} is fitted to your texts, so a model needs it: leave out --no-backbone."
                )
            check_packages()

    def used(self, data: UserData) -> UsedBackbone:
        return UsedBackbone.of(self.embed, data.beside, self.text_column)

    def carried_by(self, model: SavedModel, folder: Path) -> tuple[SavedModel, tuple[str, ...]]:
        """The model with a copy of its backbone in the folder, if there can be one, and what to say of it."""
        assert model.backbone is not None
        name = model.backbone.name
        note = f"features by {name}, licence: {model.backbone.licence}"
        if not self.carry:
            return model, (note, f"the folder has no copy of {name}, which predicting needs")
        if isinstance(self.embed.backbone.preparation, Pixels):
            note += f"; --backbone {NONE} trains on the pixels instead"
        try:
            return replace(model, backbone=model.backbone.carried(folder, self.embed)), (note,)
        except UserError as problem:
            return model, (note, f"the folder has no copy of {name}: {problem}")


def choose_backbone(
    path: Path,
    name: str,
    method: str,
    size: int | None,
    text_column: str | None,
    device: Device,
    *,
    pixels: bool = False,
) -> Embedder | None:
    """What embeds the examples of `path`. With `auto` a named method other than the default or a size means pixels.

    `pixels`: networks of pixels are candidates beside the features.
    """
    kind = item_kind(path, text_column)
    if pixels and kind != "photos":
        raise UserError(f"--pixels is for a folder of photos, and {path} holds {kind}: leave it out.")
    if pixels and method != AUTO_METHOD:
        raise UserError(f"--pixels adds candidates for --method {AUTO_METHOD} to compare: leave out one of the two.")
    if pixels:
        return embedder(name, kind, device)
    if kind == "numbers" and name not in (AUTO, NONE):
        raise UserError(f"{path} holds arrays or numbers: embed photos with 'ict embed' first, then fit to its file.")
    if name == AUTO and kind == "photos" and (size is not None or method not in (AUTO_METHOD, METHOD)):
        return None
    if size is not None and name != NONE:
        raise UserError(f"--size {size} is for training on pixels: leave it out, or add --backbone {NONE}.")
    return embedder(name, kind, device)
