"""How well VAT finds its direction, by a difference or by the derivative, in float32 and in half precision.

    python research/direction.py --out results/direction.json

Networks as they are born, images of noise. The direction is compared with that of the derivative in float64: by the
cosine between them, and by the divergence that a step of length epsilon along it brings about, as a share of what the
other brings about. Half precision is autocast's on the CPU, with batch norm in float32 inside, as fast mode has it.
"""

import argparse
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ict.algorithms.vat import VAT
from ict.engine.forward import Forward, standing_in
from ict.experiment.provenance import provenance
from ict.networks import NETWORKS
from ict.ops import kl, probabilities

SHAPE, N_IMAGES, EPSILON = (3, 32, 32), 32, 1.0
WAYS = {
    "difference, xi = 1e-6": (1e-6, torch.float32),
    "difference, xi = 0.1": (0.1, torch.float32),
    "derivative": (0.0, torch.float32),
    "difference, xi = 0.1, in half precision": (0.1, torch.bfloat16),
    "derivative, in half precision": (0.0, torch.bfloat16),
}


class Half(Forward):
    """Under autocast; what comes out is float32, as in fast mode."""

    def _run(self, function: Callable[..., Tensor], x: Tensor, **options: Any) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return super()._run(function, x, **options).float()


class Same:
    """Draws that are the same each time."""

    def normal_like(self, x: Tensor) -> Tensor:
        return torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(x.dtype)


def norms_in_float32(network: nn.Module) -> AbstractContextManager[None]:
    """torch's own would give half precision a derivative in float32."""
    norms = [m for m in network.modules() if isinstance(m, _BatchNorm)]
    return standing_in({norm: partial(in_float32, norm) for norm in norms})


def in_float32(norm: _BatchNorm, x: Tensor) -> Tensor:
    out: Tensor = type(norm).forward(norm, x.float())
    return out.to(x.dtype)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/direction.json"))
    parser.add_argument("--networks", default="cnn13,wrn-28-2,convnet")
    arguments = parser.parse_args()
    rows = [row for name in arguments.networks.split(",") for row in measured(name)]
    for row in rows:
        print(json.dumps(row))
    content = {"images": N_IMAGES, "epsilon": EPSILON, "rows": rows, **provenance(torch.device("cpu"))}
    arguments.out.write_text(json.dumps(content, indent=2) + "\n")


def measured(name: str) -> list[dict[str, Any]]:
    torch.manual_seed(0)
    network = NETWORKS[name](SHAPE, 10)
    images = torch.randn(N_IMAGES, *SHAPE, dtype=torch.float64)
    exact = direction(network, images, 0.0, torch.float64)
    most = divergence(network, images, exact)
    rows = []
    for way, (xi, kind) in WAYS.items():
        found = direction(network, images, xi, kind)
        cosines = torch.cosine_similarity(found.flatten(1), exact.flatten(1))
        share = (divergence(network, images, found) / most).item()
        row = {"network": name, "way": way, "cosine": cosines.mean().item(), "least": cosines.min().item()}
        rows.append(row | {"divergence": share})
    return rows


def direction(network: nn.Module, images: Tensor, xi: float, kind: torch.dtype) -> Tensor:
    half = kind == torch.bfloat16
    u = images.to(torch.float32 if half else kind)
    student = (Half if half else Forward)(network.to(u.dtype))
    vat, draws = VAT(epsilon=1.0, xi=xi), Same()
    with student.frozen_stats(), norms_in_float32(network) if half else nullcontext():
        if xi:
            return vat.perturbation(student, u, student(u).detach(), draws).double()  # type: ignore[arg-type]
        return vat.steepest(student, u, draws)[1].double()  # type: ignore[arg-type]


@torch.no_grad()
def divergence(network: nn.Module, images: Tensor, d: Tensor) -> Tensor:
    student = Forward(network.double())
    with student.frozen_stats():
        return kl(probabilities(student(images)), student(images + EPSILON * d))


if __name__ == "__main__":
    main()
