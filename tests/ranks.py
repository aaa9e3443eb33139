"""What ranks do in a test of several processes, in float64; the same functions serve one process by itself.

python -m tests.ranks FOLDER [CASE ...]: the cases as one of the ranks that the environment speaks of. The first one
writes what came of each to FOLDER/out.pt. With no case named, all are run and then runs that are cut and resumed.
"""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ict import run
from ict.algorithms import ALGORITHMS
from ict.data.dataset import Dataset, Examples
from ict.engine import dist
from ict.engine.dist import Ranks
from ict.engine.finish import final_network
from ict.engine.shared_norm import shared_norms
from ict.engine.state import State
from ict.engine.step import Program, update
from ict.networks.mean_only import MeanOnlyBatchNorm
from ict.networks.staged import Staged
from ict.recipe import Recipe, change
from tests.tiny import tiny

CPU = torch.device("cpu")
N_UPDATES = 6
STOPPED_AT = 7
PLAIN = ["network.dropout=0", "train.pair_groups=4", "inputs.noise=0.1"]
OTHERS: dict[str, tuple[str, list[str]]] = {
    "labels joined": ("mean-teacher", ["train.layout=joined"]),
    "labels within": ("pi", ["train.layout=within", "algorithm.consistency_on=unlabeled"]),
    "neighbours in a joined batch": (
        "sntg",
        ["algorithm.base=temporal-ensembling", "train.layout=joined", "average.decay=none"],
    ),
    "halves": ("ict", ["algorithm.pairs=halves", "train.unlabeled_batch=16"]),
    "hidden states": ("ict", ["algorithm.depth=2"]),
    "own network": ("vat", ["algorithm.entropy=0.5"]),
    "averaged statistics": ("mean-teacher", ["average.batchnorm=averaged", "average.when=before"]),
    "repeated labels": ("ict", ["train.labeled_order=repeated", "inputs.flip=true"]),
    "Adam and a plain mean": ("ict", ["optimizer.name=adam", "swa.start=0.2", "swa.every=0.1", "swa.batches=3"]),
}


def cases() -> dict[str, Recipe]:
    found = {name: change(tiny(name), PLAIN) for name in ALGORITHMS}
    found |= {name: change(tiny(algorithm), [*PLAIN, *settings]) for name, (algorithm, settings) in OTHERS.items()}
    short = [f"train.steps={N_UPDATES}", "split.labeled=none", "split.valid=0"]
    return {name: change(recipe, short) for name, recipe in found.items()}


def few() -> Dataset:
    """So few examples that a rank soon meets those that another one has seen, with labels for some."""
    data = run.load_data(tiny().resolved(), 0)
    rows = torch.arange(24)
    return Dataset(Examples(data.train.x[:24], data.train.y[:24]), data.test, data.classes, rows[:16])


def own_network() -> nn.Module:
    """With a batch norm of torch's own, one that divides by nothing, and one without weights."""
    torch.default_generator.manual_seed(0)
    return Staged(
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Tanh()),
        nn.Sequential(nn.Linear(144, 9), MeanOnlyBatchNorm(9), nn.Tanh()),
        nn.Sequential(nn.Linear(9, 6), nn.BatchNorm1d(6, affine=False, momentum=None), nn.Tanh()),
        nn.Linear(6, 10),
    )


def trained(name: str, ranks: Ranks) -> dict[str, Tensor]:
    """All that changes in a run of a few updates."""
    recipe, data = cases()[name], few()
    with run.untouched_globals(CPU):
        network = own_network() if name == "own network" else None
        job = run.prepare(recipe, 3, data, network, CPU, ranks=ranks)
        state = job.state
        with shared_norms(ranks, state.networks if ranks.size > 1 else ()):
            for _ in range(N_UPDATES):
                update(job.program, state)
            final = final_network(job.program, state, recipe.swa)
    tensors = {f"final {k}": v for k, v in final.state_dict().items()}
    tensors |= {f"student {k}": v for k, v in state.student.state_dict().items()}
    tensors |= {f"metric {k}": v for k, v in state.sums.items()}
    return tensors | ({} if state.memory is None else {"memory": state.memory})


CUT: dict[str, Any] = {"recipe": tiny("temporal-ensembling"), "settings": PLAIN, "seed": 3, "checkpoint_seconds": 0}


def stopped(folder: Path) -> None:
    """A run that is asked to stop on its last rank alone; every rank saves or waits, at the same step."""

    def update_and_stop(program: Program, state: State) -> None:
        update(program, state)
        if state.step == STOPPED_AT and program.ranks.rank == program.ranks.size - 1:
            os.kill(os.getpid(), signal.SIGTERM)

    updater, run.updater = run.updater, lambda *_: update_and_stop
    try:
        run.train(out=folder, **CUT)
    except KeyboardInterrupt:
        return
    finally:
        run.updater = updater
    raise AssertionError("nobody stopped")


def main(folder: Path, names: list[str]) -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    ranks = dist.joined()
    out = {name: trained(name, ranks) for name in names or cases()}
    same = {name: all(_equal_on_all(ranks, t) for t in tensors.values()) for name, tensors in out.items()}
    assert all(same.values()), same
    if ranks.first:
        torch.save(out, folder / "out.pt")
    if not names:
        stopped(folder / "of two")
        run.train(out=folder / "of one", resume=True, **CUT)


def _equal_on_all(ranks: Ranks, x: Tensor) -> bool:
    return torch.equal(ranks.gathered(x[None]), x.expand(ranks.size, *x.shape))


def launch(n: int, command: list[str], **environment: str) -> list[subprocess.Popen[str]]:
    """A command as n ranks of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **environment}
    return [
        subprocess.Popen(
            [sys.executable, "-m", *command],
            env={**os.environ, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(n)
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
