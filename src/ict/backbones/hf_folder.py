"""A folder of Hugging Face transformers: `hf:DIR` with config.json and safetensors. None of its code is run."""

import importlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ict.backbones.backbone import Backbone
from ict.backbones.preparation import Preparation, Tokens, from_values
from ict.backbones.torch_backbone import TorchBackbone, state_digest
from ict.base.errors import UserError
from ict.base.files import read_json
from ict.base.reading import cause
from ict.data.user.text_files import text_of

LENGTH = 256  # tokens, where the model takes no fewer
_CARD = 10_000  # bytes of a model card in which its licence stands


class TextMean(nn.Module):
    """Token ids to the mean of the last hidden states."""

    def __init__(self, model: nn.Module, pad: int) -> None:
        super().__init__()
        self.model, self.pad = model, pad

    def forward(self, ids: Tensor) -> Tensor:
        present = ids != self.pad
        states: Tensor = self.model(input_ids=ids, attention_mask=present.long()).last_hidden_state
        weights = present.to(states.dtype)
        return (states * weights[:, :, None]).sum(1) / weights.sum(1, keepdim=True).clamp(min=1)


class ImagePooled(nn.Module):
    """Scaled pixels to the model's pooled output, or else to the mean of its last hidden states."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        # networks of pictures and texts, such as CLIP, have a method for pictures alone
        run: Any = getattr(self.model, "get_image_features", self.model)
        found: Any = run(pixel_values=pixels)
        if isinstance(found, Tensor):
            return found
        pooled: Tensor | None = getattr(found, "pooler_output", None)
        if pooled is not None:
            return pooled.flatten(1)
        states: Tensor = found.last_hidden_state
        return states.mean(1) if states.ndim == 3 else states.mean((2, 3))


def open_folder(folder: Path, device: torch.device) -> Backbone:
    name = f"hf:{folder}"
    config = read_json(folder / "config.json")
    preparation = _preparation(folder, config)
    try:
        transformers = importlib.import_module("transformers")
    except Exception as problem:  # it breaks in many ways where its own dependencies do not fit each other
        raise UserError(f"backbone {name} needs the package transformers ({problem}): install it with pip.") from None
    try:
        model, loaded = transformers.AutoModel.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, use_safetensors=True, output_loading_info=True
        )
    except Exception as problem:
        raise UserError(
            f"backbone {name} cannot be opened ({cause(problem)}): it needs model.safetensors and the config.json of "
            "a network that transformers has."
        ) from None
    _check_weights(model, sorted(loaded["missing_keys"]), folder)
    text = isinstance(preparation, Tokens)
    network = TextMean(model, preparation.pad) if isinstance(preparation, Tokens) else ImagePooled(model)
    digest = f"{'mean of tokens' if text else 'pooled'} {state_digest(network)}"
    return TorchBackbone(name, digest, _licence(folder), preparation, network, device)


def _check_weights(model: Any, lacks: list[str], folder: Path) -> None:
    """Remove a pooler whose weights are not in the file, as of networks that were trained for something else.

    Transformers draws such weights at random.
    """
    if others := [key for key in lacks if not key.startswith("pooler.")]:
        raise UserError(f"{folder}/model.safetensors lacks {', '.join(others[:3])}: download the folder again.")
    if lacks:
        model.pooler = None


def _preparation(folder: Path, config: dict[str, Any]) -> Preparation:
    if (path := folder / "preprocessor_config.json").is_file():
        return from_values(read_json(path), str(path))
    if (path := folder / "tokenizer.json").is_file():
        longest, pad = config.get("max_position_embeddings", LENGTH), config.get("pad_token_id") or 0
        length = min(LENGTH, longest) if isinstance(longest, int) else longest
        return Tokens.from_dict({"tokenizer": text_of(path), "length": length, "pad": pad}, str(folder))
    raise UserError(f"{folder} holds neither preprocessor_config.json nor tokenizer.json: add the one of its model.")


def _licence(folder: Path) -> str:
    card, start = folder / "README.md", ""
    if card.is_file():
        with card.open("rb") as file:
            start = file.read(_CARD).decode(errors="replace")
    stated = [line.partition(":")[2].strip() for line in start.splitlines()[:50] if line.startswith("license:")]
    return stated[0] if stated else "not stated in its README.md"
