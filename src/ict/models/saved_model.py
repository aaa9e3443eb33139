"""A trained model as a folder that other programs can read: weights, settings, class names and a model card.

Loading unpickles nothing, and imports code named in the folder only if the caller allows that name.
"""

import hashlib
import json
import warnings
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load
from torch import Tensor

from ict import __version__
from ict.base import fields
from ict.base.errors import UserError
from ict.base.files import check_folder, read_json, write_atomic, write_json
from ict.base.reading import check_file, reading
from ict.base.registry import is_outside
from ict.data.array_inputs import ArrayInputs
from ict.data.columns.table_inputs import TableInputs
from ict.engine.memory_format import lay_out
from ict.experiment.run_folder import serialized
from ict.experts.graph import GRAPH, GraphPropagation
from ict.models.answers import answers
from ict.models.model_card import model_card
from ict.models.own_network import make_own
from ict.models.trained_network import TrainedNetwork
from ict.models.used_backbone import UsedBackbone
from ict.networks import NETWORKS

CONFIG = "config.json"
FORMAT = 2
_READ = (1, FORMAT)  # the first had no digests
_CLASS_TYPES = ("str", "bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)))
_CLASS_TYPES += ("float16", "float32", "float64")


@dataclass(frozen=True)
class SavedModel:
    """A model that predicts: from raw examples to probabilities of named classes."""

    network: TrainedNetwork | GraphPropagation
    inputs: ArrayInputs
    classes: tuple[str, ...]
    columns: tuple[str, ...] = ()  # the names of the features, if it was fitted to a table
    temperature: float = 1.0  # of the probabilities
    calibration: str = "Probabilities are the model's own and not calibrated."
    backbone: UsedBackbone | None = None  # whose features the examples are
    table: TableInputs | None = None  # how the columns of a table became the features; none in older models
    class_type: str = "str"  # NumPy's name of the type that the classes had as labels
    pixels: bool = True  # images are pixels from 0 to 255, as files hold them

    @property
    def labels(self) -> NDArray[Any]:
        """The classes as labels of their own type."""
        if self.class_type == "bool":
            return np.array([name == "True" for name in self.classes])
        return np.array(self.classes, None if self.class_type == "str" else self.class_type)

    @property
    def unfinished(self) -> str:
        """What training lacks, in words; "" if nothing."""
        if isinstance(self.network, TrainedNetwork) and self.network.interrupted:
            return f"training was interrupted after {self.network.n_updates} updates"
        return ""

    def predict_proba(self, x: NDArray[Any]) -> NDArray[Any]:
        return answers(self.network.predict_proba, self.inputs, self.temperature, x)


def save_model(folder: Path, model: SavedModel, about: dict[str, Any], unfinished: str = "") -> None:
    """Write the folder. `about`: more for the model card, such as how it was trained and its accuracy.

    `unfinished` says what is missing, such as updates. `ict fit` does not overwrite a finished model.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "format": FORMAT,
        "ict": __version__,
        "network": _options(model.network),
        "inputs": asdict(model.inputs),
        "columns": list(model.columns),
        "class_type": model.class_type,
        "pixels": model.pixels,
        "temperature": model.temperature,
        "calibration": model.calibration,
    }
    if model.backbone is not None:
        config["backbone"] = model.backbone.to_config()
    if model.table is not None:
        config["table"] = model.table.to_config()
    if isinstance(model.network, TrainedNetwork):
        config |= {"updates": model.network.n_updates, "recipe": model.network.recipe}
        tensors = model.network.module.state_dict()
    else:
        tensors = {name: torch.from_numpy(array) for name, array in model.network.arrays().items()}
    weights = serialized(tensors)
    config["sha256"] = {"tensors": hashlib.sha256(weights).hexdigest(), "classes": _digest(model.classes)}
    write_atomic(folder / "model.safetensors", weights)
    write_json(folder / "labels.json", {"classes": list(model.classes)})
    _describe(folder, model, config, about, unfinished)


def describe_model(folder: Path, model: SavedModel, about: dict[str, Any], unfinished: str = "") -> None:
    """Replace the description that `save_model` wrote, once more is known."""
    _describe(folder, model, read_json(folder / CONFIG), about, unfinished)


def class_type(labels: NDArray[Any]) -> str:
    """NumPy's name of the type of labels; a UserError if a folder cannot hold it."""
    name = "str" if labels.dtype.kind == "U" else labels.dtype.name
    if name not in _CLASS_TYPES:
        raise UserError(f"labels of the type {name} cannot be saved: fit to strings or numbers.")
    return name


def check_free(folder: Path, option: str = "") -> None:
    """A UserError if a folder cannot take a model. `option`: what the user names it by, if any."""
    check_folder(folder, option)
    if unfinished(folder) == "":
        raise UserError(f"{folder} already holds a model: name another folder{option and f' with {option}'}.")


def about_model(folder: Path) -> dict[str, Any]:
    """What the folder of a model says about it, as `save_model` was given it."""
    if not (folder / CONFIG).exists():
        raise UserError(f"{folder} holds no model: there is no {CONFIG} in it; 'ict fit' writes one.")
    config = read_json(folder / CONFIG)
    about = config.get("about", {}) if isinstance(config, dict) else None
    if not isinstance(about, dict):
        raise UserError(f"{folder / CONFIG} does not describe a model: fit it again.")
    return about


def unfinished(folder: Path) -> str | None:
    """What is missing of the model in a folder: "" if nothing, None if there is no model."""
    return str(read_json(folder / CONFIG).get("unfinished", "")) if (folder / CONFIG).exists() else None


def _describe(folder: Path, model: SavedModel, config: dict[str, Any], about: dict[str, Any], missing: str) -> None:
    config = {key: value for key, value in config.items() if key != "unfinished"} | {"about": about}
    write_atomic(folder / "README.md", _card(model, about).encode())
    # last: a folder without it is not a model
    write_json(folder / CONFIG, config | ({"unfinished": missing} if missing else {}))


def load_model(folder: Path, allow_code: Collection[str] = ()) -> SavedModel:
    """The model in a folder. `allow_code`: names such as "mine:Net" that its config.json may import."""
    about_model(folder)
    config, labels = read_json(folder / CONFIG), read_json(folder / "labels.json")
    if config.get("format") not in _READ:
        raise UserError(f"{folder}/config.json has format {config.get('format')}: this version reads 1 and {FORMAT}.")
    with reading(folder, "a complete model", "fit it again"):
        try:
            model = _restored(folder, config, tuple(labels["classes"]), allow_code)
        except UserError as problem:
            raise UserError(f"{folder}/config.json: {problem}") from None
    if config.get("unfinished"):
        warnings.warn(f"the model in {folder} is unfinished: {config['unfinished']}.", stacklevel=2)
    return model


def _restored(
    folder: Path, config: dict[str, Any], classes: tuple[str, ...], allow_code: Collection[str]
) -> SavedModel:
    tuples = {key: tuple(config["inputs"].get(key, ())) for key in ("shape", "blocks")}
    inputs = ArrayInputs(**{**config["inputs"], **tuples})
    backbone = UsedBackbone.from_config(config["backbone"], folder) if "backbone" in config else None
    table = TableInputs.from_config(config["table"]) if "table" in config else None
    if table is not None and (len(table.features),) != inputs.shape:
        raise ValueError(f"its table has {len(table.features)} features, but its inputs have the shape {inputs.shape}")
    temperature = float(config.get("temperature", 1.0))
    if not 0.001 <= temperature <= 1000:
        raise ValueError(f"the temperature {temperature} is not between 0.001 and 1000")
    check_file(folder / "model.safetensors")
    weights = (folder / "model.safetensors").read_bytes()
    digests = {"tensors": hashlib.sha256(weights).hexdigest(), "classes": _digest(classes)}
    if config["format"] != 1 and config["sha256"] != digests:
        changed = [name for name, digest in digests.items() if config["sha256"].get(name) != digest]
        raise ValueError(f"its {' and '.join(changed)} do not match the hashes in config.json")
    network = _network(config, inputs, len(classes), _finite(load(weights)), allow_code)
    columns = tuple(config.get("columns", ()))
    calibration = str(config.get("calibration", SavedModel.calibration))
    type_of = config.get("class_type", SavedModel.class_type)
    if type_of not in _CLASS_TYPES or not all(isinstance(name, str) for name in classes):
        raise ValueError(f"its classes are not strings that stand for labels of a type, but of {type_of}")
    pixels = bool(config.get("pixels", True))
    model = SavedModel(network, inputs, classes, columns, temperature, calibration, backbone, table, type_of, pixels)
    if len(np.unique(model.labels)) < len(classes):
        raise ValueError("two of its classes are the same label")
    return model


def _digest(classes: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(list(classes)).encode()).hexdigest()


def _finite(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ValueError(f"a number in {name} is not finite")
    return tensors


def _options(network: TrainedNetwork | GraphPropagation) -> dict[str, Any]:
    if isinstance(network, TrainedNetwork):
        options: dict[str, Any] = network.recipe["network"]
        return options
    return {"name": GRAPH, **network.settings()}


def _network(
    config: dict[str, Any], inputs: ArrayInputs, n_classes: int, tensors: dict[str, Tensor], allow_code: Collection[str]
) -> TrainedNetwork | GraphPropagation:
    options = dict(config["network"])
    name, arguments = options.pop("name"), options.pop("arguments", None)
    if name == GRAPH:
        if tensors["probs"].shape[1:] != (n_classes,):
            raise ValueError(f"its answers are not for {n_classes} classes")
        return GraphPropagation(**options).restored({name: t.numpy() for name, t in tensors.items()})
    probe = inputs(np.zeros((1, *inputs.shape)))
    make = NETWORKS.from_file(name, allow_code)
    hints = {key: option.hint for key, option in fields.options(make).items()}
    options = {key: fields.check(value, hints[key], f"network.{key}") for key, value in options.items()}
    shape = tuple(probe.shape[1:])
    if not is_outside(name):
        with torch.device("meta"):  # takes no memory, whatever width and depth the file claims
            claimed = make(shape, n_classes, **options).state_dict()
        if {key: value.shape for key, value in claimed.items()} != {key: t.shape for key, t in tensors.items()}:
            raise ValueError("its tensors are not those of its network")
    module = make(shape, n_classes, **options) if arguments is None else make_own(name, make)
    module.load_state_dict(tensors)
    return TrainedNetwork(lay_out(module).eval(), config.get("updates", 0), config.get("recipe", {}), False)


def _card(model: SavedModel, about: dict[str, Any]) -> str:
    network = model.network
    if isinstance(network, TrainedNetwork):
        made = f"A network {network.recipe['network']['name']}"
    else:
        rows = len(network.arrays()["nodes"])
        made = f"Label spreading over a graph of {rows} training examples, which `model.safetensors` holds"
    return model_card(
        made=made,
        n_classes=len(model.classes),
        shape=model.inputs.shape,
        backbone=None if model.backbone is None else (model.backbone.name, model.backbone.licence),
        calibration=model.calibration,
        about=about,
    )
