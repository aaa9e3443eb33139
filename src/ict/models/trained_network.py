"""A network that was trained on arrays, and how it predicts."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ict.base.array_types import Array
from ict.engine.loop import Record

_CHUNK = 1024  # examples predicted at a time


@dataclass
class TrainedNetwork:
    """A trained network on scaled inputs."""

    module: nn.Module
    n_updates: int
    recipe: dict[str, Any]
    interrupted: bool  # by Ctrl-C, before its last update
    history: tuple[Record, ...] = ()  # metrics in the order of updates
    seeding: int = 0  # updates before those, on labels that a graph guessed

    def predict_proba(self, inputs: Array) -> Array:
        return self._forward(inputs, lambda network, x: network(x).softmax(1))

    def features(self, inputs: Array) -> Array:
        """What the last layer gets [n, f]; the inputs themselves where the network does not tell."""
        if not hasattr(self.module, "features"):
            return inputs.reshape(len(inputs), -1)
        return self._forward(inputs, lambda network, x: network.features(x).flatten(1))

    @torch.no_grad()
    def _forward(self, inputs: Array, function: Callable[[Any, Tensor], Tensor]) -> Array:
        device = next(self.module.parameters()).device
        # float64 on a CPU, so that a row's answer does not depend on which others are asked with it
        dtype = torch.float64 if device.type == "cpu" else torch.float32
        network = deepcopy(self.module).to(dtype).eval()
        chunks = torch.from_numpy(inputs).split(_CHUNK)
        found: Array = torch.cat([function(network, c.to(device, dtype)).double().cpu() for c in chunks]).numpy()
        return found
