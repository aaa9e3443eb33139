"""Reads a model folder as an estimator that predicts."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from ict.base.errors import UserError
from ict.base.reading import reading
from ict.estimators import AUTO
from ict.estimators.classifier import ICTClassifier, SemiSupervisedClassifier

if TYPE_CHECKING:
    from ict.engine.device import Device


def load(
    folder: str | Path, *, allow_code: Collection[str] = (), backbone: str | None = None, device: "Device" = "auto"
) -> SemiSupervisedClassifier:
    """The model in a folder that `save` or `ict fit` wrote, as an estimator that predicts.

    allow_code: import paths such as "mymodule:Net" that the folder may import, for a network of your own.
    backbone: the one that the model was fitted with, if its folder has no copy. device: for the backbone.

    Nothing is unpickled. The parameters of the fit, other than the method, are not restored: to fit again, make a new
    estimator.
    """
    from ict.estimators.embedding import restored_embedding
    from ict.models.saved_model import CONFIG, about_model, load_model

    place = Path(folder)
    model, about = load_model(place, allow_code), about_model(place)
    if model.backbone is None and backbone is not None:
        raise UserError(f"the model was fitted without a backbone: leave out backbone='{backbone}'.")
    embedding = None if model.backbone is None else restored_embedding(model.backbone, device, backbone)
    made = SemiSupervisedClassifier(str(about.get("asked", AUTO)), device=device)
    if about.get("estimator") == ICTClassifier.__name__:
        made = ICTClassifier(device=device)
    with reading(place / CONFIG, "a complete model", "fit it again"):
        made.restored(model, embedding, about)
    return made
