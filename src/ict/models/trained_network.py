"""A network trained on arrays, and its predictions.

On a CPU the prediction for a row has the same bits for any other rows, any order and any number of threads: rows go
through the network in chunks of one size, the last one padded, and each chunk is computed by one thread.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ict.base.array_types import Array
from ict.engine.evaluate import eval_mode
from ict.engine.loop import Record
from ict.engine.memory_format import channels_last, takes_any_layout

_GPU_CHUNK = 1024  # examples predicted at a time
# For a CPU: enough work for a kernel, but little enough that activations stay in the cache and a single row is cheap
_CHUNK_NUMBERS, _CHUNK_ROWS = 2**13, (4, 64)


@dataclass
class TrainedNetwork:
    """A trained network on scaled inputs."""

    module: nn.Module
    n_updates: int
    recipe: dict[str, Any]
    interrupted: int  # the signal that ended training before its last update, 0 for none
    history: tuple[Record, ...] = ()  # metrics in the order of updates
    seeding: int = 0  # earlier updates, on labels guessed by a graph

    def predict_proba(self, inputs: Array) -> Array:
        return self._forward(inputs, lambda network, x: network(x).double().softmax(1))

    def features(self, inputs: Array) -> Array:
        """The input of the last layer [n, f]; if the network has no `features`, the inputs themselves."""
        if not hasattr(self.module, "features"):
            return inputs.reshape(len(inputs), -1)
        return self._forward(inputs, lambda network, x: network.features(x).flatten(1).double())

    def _forward(self, inputs: Array, function: Callable[[Any, Tensor], Tensor]) -> Array:
        network, device, rows = self.module, next(self.module.parameters()).device, torch.from_numpy(inputs)

        @torch.no_grad()
        def run(chunk: Tensor) -> Tensor:
            return function(network, chunk.to(device, torch.float32)).cpu()

        with eval_mode(network):
            if device.type == "cpu":
                order = channels_last if takes_any_layout(network) else Tensor.contiguous
                return _in_equal_chunks(lambda chunk: run(order(chunk)), rows).numpy()
            return torch.cat([run(chunk) for chunk in rows.split(_GPU_CHUNK)]).numpy()


def _in_equal_chunks(run: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """run(chunk) for all rows, with the chunks in parallel on as many threads as torch may use."""
    smallest, largest = _CHUNK_ROWS
    size = min(max(_CHUNK_NUMBERS // max(prod(rows.shape[1:]), 1), smallest), largest)

    def answers(chunk: Tensor) -> Tensor:
        missing = size - len(chunk)
        whole = F.pad(chunk, (0, 0) * (chunk.dim() - 1) + (0, missing)) if missing else chunk
        return run(whole)[: len(chunk)]

    chunks, threads = rows.split(size), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        if min(threads, len(chunks)) == 1:
            return torch.cat([answers(chunk) for chunk in chunks])
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return torch.cat(list(pool.map(answers, chunks)))
    finally:
        torch.set_num_threads(threads)
