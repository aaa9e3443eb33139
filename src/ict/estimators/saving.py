"""Writes a fitted estimator as a model folder, completely or not at all."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from ict.base.errors import UserError
from ict.base.new_folder import new_folder
from ict.estimators.embedding import Embedding
from ict.models.own_network import own_network
from ict.models.saved_model import CONFIG, SavedModel, check_free, save_model
from ict.models.trained_network import TrainedNetwork
from ict.recipes.recipe import OWN


def write_folder(
    folder: Path, model: SavedModel, embedding: Embedding | None, about: dict[str, Any], network: str | None
) -> None:
    """`network`: the import path of what makes the user's own network."""
    check_free(folder)
    model = _with_import_path(model, network)
    with new_folder(folder) as new:
        if embedding is not None:
            used = embedding.used
            try:
                model = replace(model, backbone=used.carried(new.path, embedding.embed))
            except UserError as problem:
                warnings.warn(f"{folder} has no copy of {used.name}: {problem}", stacklevel=3)
        save_model(new.path, model, about, model.unfinished)
        check_free(folder)
        new.publish(CONFIG)


def _with_import_path(model: SavedModel, path: str | None) -> SavedModel:
    trained = model.network
    own = isinstance(trained, TrainedNetwork) and trained.recipe["network"]["name"] == OWN
    if not isinstance(trained, TrainedNetwork) or not own:
        if path is not None:
            raise UserError(f"network='{path}' is for a network of your own, and this model has none: leave it out.")
        return model
    recipe = {**trained.recipe, "network": own_network(trained.module, path)}
    return replace(model, network=replace(trained, recipe=recipe))
