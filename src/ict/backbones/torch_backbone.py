"""A backbone that runs in torch: the scaling of the input and the network as one module."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ict.backbones.backbone import Features, embed_in_batches
from ict.backbones.conversion import convert
from ict.backbones.preparation import Pixels, Preparation, PreparedItems
from ict.base.array_types import Array
from ict.base.errors import UserError, is_out_of_memory
from ict.base.reading import cause

_BATCH = {"cpu": 32, "cuda": 256}


class Prepared(nn.Module):
    """Prepared items to features: the scaling of pixels is inside."""

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, preparation: Preparation) -> None:
        super().__init__()
        self.network = network
        self.pixels = preparation if isinstance(preparation, Pixels) else None
        if self.pixels:
            self.register_buffer("mean", torch.tensor(self.pixels.mean) * self.pixels.scale)
            self.register_buffer("std", torch.tensor(self.pixels.std) * self.pixels.scale)

    def forward(self, rows: Tensor) -> Tensor:
        if self.pixels:
            rows = (rows.float() - self.mean) / self.std
            if not self.pixels.channels_last:
                rows = rows.permute(0, 3, 1, 2)
        features: Tensor = self.network(rows)
        return features


@dataclass
class TorchBackbone:
    """A network of torch, on a CPU or a GPU."""

    name: str
    digest: str
    licence: str
    preparation: Preparation
    network: nn.Module
    device: torch.device
    _prepared: Prepared = field(init=False)

    def __post_init__(self) -> None:
        self._prepared = Prepared(self.network, self.preparation).eval().to(self.device)

    def prepare(self, item: Any) -> Array:
        return self.preparation.prepare(item)

    def embed(self, rows: PreparedItems) -> Features:
        return embed_in_batches(self._run, rows, self.preparation, _BATCH[self.device.type], self.name)

    def onnx(self) -> bytes:
        try:
            return convert(self._prepared.cpu(), self.preparation, self.licence)
        finally:
            self._prepared.to(self.device)

    def _run(self, batch: Array) -> Array:
        try:
            with torch.inference_mode():
                features: Array = self._prepared(torch.from_numpy(batch).to(self.device)).float().cpu().numpy()
        except Exception as problem:  # a network of others may raise anything
            if is_out_of_memory(problem):
                raise
            raise UserError(
                f"backbone {self.name} cannot be run ({cause(problem)}): check that it takes items of the shape "
                f"{' x '.join(map(str, batch.shape[1:]))}."
            ) from problem
        return features


def state_digest(network: nn.Module) -> str:
    """A hash of a network's weights."""
    total = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        raw = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode() + raw)
    return total.hexdigest()
