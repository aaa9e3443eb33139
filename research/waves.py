"""How much of a GPU the convolutions of a batch can fill, by counting: no GPU is needed.

    python research/waves.py --out results/waves.json

A convolution is a matrix product with a row for each pixel that comes out. The library cuts it into tiles, each
processor computes one at a time, and all wait for the last ones: of 140 tiles on 132 processors the last 8 take as long
as the first 132. The share is that of the products' arithmetic in what the processors could do meanwhile, forward
and for the gradient of the input.
"""

import argparse
import json
from math import ceil
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ict.experiment.provenance import provenance
from ict.networks import NETWORKS

PROCESSORS = 132  # of an H200
TILE = 128  # rows and columns, of the kernels that results/h200/profile.txt lists
BATCHES = (50, 100, 200)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/waves.json"))
    arguments = parser.parse_args()
    shares = {name: {n: filled(products(name, n)) for n in BATCHES} for name in ("cnn13", "wrn-28-2", "convnet")}
    content = {"tile": TILE, "processors": PROCESSORS, "share": shares, **provenance(torch.device("cpu"))}
    arguments.out.write_text(json.dumps(content, indent=2) + "\n")
    print(json.dumps(shares, indent=2))


def products(network: str, n: int) -> list[tuple[int, int, float]]:
    """Rows, columns and length of every product of a forward pass, and of those of its gradient."""
    found: list[tuple[int, int, float]] = []

    def note(layer: Any, x: tuple[torch.Tensor], out: torch.Tensor) -> None:
        taps = layer.kernel_size[0] * layer.kernel_size[1]
        before, after = x[0][0, 0].numel(), out[0, 0].numel()  # pixels
        if found:  # images need no gradient; a stride or an edge leaves out some of the taps
            found.append((n * before, layer.in_channels, layer.out_channels * taps * after / before))
        found.append((n * after, layer.out_channels, layer.in_channels * taps))

    module = NETWORKS[network]((3, 32, 32), 10).eval()
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(note)
    with torch.no_grad():
        module(torch.zeros(1, 3, 32, 32))
    return found


def filled(products: list[tuple[int, int, float]]) -> float:
    done = sum(rows * columns * length for rows, columns, length in products)
    waves = (ceil(ceil(r / TILE) * ceil(c / TILE) / PROCESSORS) * length for r, c, length in products)
    return round(done / (sum(waves) * TILE * TILE * PROCESSORS), 3)


if __name__ == "__main__":
    main()
