"""What ranks do in a test of several processes, in float64; the same functions serve one process by itself.

python -m tests.ranks FOLDER: two ranks run all cases, and runs that are stopped, resumed, killed and refused; four
run some cases. What came of the cases is in FOLDER/2.pt and FOLDER/4.pt, the ranks' exit codes in FOLDER/codes.json.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pytest import MonkeyPatch
from torch import Tensor, nn

from ict import cli
from ict.algorithms import ALGORITHMS
from ict.base.errors import RankLost
from ict.data.dataset import Dataset, Examples
from ict.engine import device, distributed
from ict.engine.distributed import Ranks
from ict.engine.loop import final_network
from ict.engine.state import State
from ict.engine.step import Program, update
from ict.engine.sync_batch_norm import shared_norms
from ict.experiment import run, training
from ict.experiment.prepare import load_data, prepare
from ict.networks.batch_norm import MeanOnlyBatchNorm
from ict.networks.staged import Staged
from ict.recipes.recipe import Recipe, change
from tests.tiny import tiny

FOR_FOUR = ["ict", "sntg", "labels joined"]
CPU = torch.device("cpu")
N_UPDATES = 4
STOPPED_AT, LOST = 7, 7
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
    "own network's derivative": ("vat", ["algorithm.xi=0"]),
    "averaged statistics": ("mean-teacher", ["average.batchnorm=averaged", "average.when=before"]),
    "repeated labels": ("ict", ["train.labeled_order=repeated", "inputs.flip=true"]),
    "Muon": ("ict", ["optimizer.name=muon"]),
    "Adam and a plain mean": ("ict", ["optimizer.name=adam", "swa.start=0.2", "swa.every=0.1", "swa.batches=3"]),
}


def cases() -> dict[str, Recipe]:
    found = {name: change(tiny(name), PLAIN) for name in ALGORITHMS}
    found |= {name: change(tiny(algorithm), [*PLAIN, *settings]) for name, (algorithm, settings) in OTHERS.items()}
    short = [f"train.steps={N_UPDATES}", "split.labeled=none", "split.valid=0"]
    return {name: change(recipe, short) for name, recipe in found.items()}


def few() -> Dataset:
    """So few examples that a rank soon meets those that another one has seen, with labels for some and a prior."""
    data = load_data(tiny().resolved(), 0)
    rows = torch.arange(24)
    prior = torch.rand(24, 10, generator=torch.Generator().manual_seed(0)).softmax(1)
    few = Examples(data.train.x[:24], data.train.y[:24])
    return Dataset(few, data.test, data.classes, rows[:16], prior=prior)


def own_network(seed: int = 0) -> nn.Module:
    """With a batch norm of torch's own, one that divides by nothing, and one without weights."""
    torch.default_generator.manual_seed(seed)
    return Staged(
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Tanh()),
        nn.Sequential(nn.Linear(144, 9), MeanOnlyBatchNorm(9), nn.Tanh()),
        nn.Sequential(nn.Linear(9, 6), nn.BatchNorm1d(6, affine=False, momentum=None), nn.Tanh()),
        nn.Linear(6, 10),
    )


def trained(name: str, ranks: Ranks) -> dict[str, Tensor]:
    """All that changes in a run of a few updates."""
    recipe, data = cases()[name], few()
    with device.untouched_globals(CPU):
        network = own_network() if name.startswith("own network") else None
        job = prepare(recipe, 3, data, network, CPU, ranks=ranks)
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

    with MonkeyPatch.context() as patch:
        patch.setattr(training, "updater", lambda *_: update_and_stop)
        try:
            run.train(out=folder, **CUT)
        except KeyboardInterrupt:
            return
    raise AssertionError("nobody stopped")


def killed(folder: Path) -> None:
    """A run whose last rank is killed in the middle."""

    def update_and_die(program: Program, state: State) -> None:
        if state.step == STOPPED_AT and program.ranks.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        update(program, state)

    MonkeyPatch().setattr(training, "updater", lambda *_: update_and_die)  # for good: the process ends here
    try:
        run.train(out=folder / "killed", **CUT)
    except RankLost:
        os._exit(LOST)


def refused(folder: Path) -> None:
    """The command with a batch that two ranks cannot share, its words to a file."""
    said = os.open(folder / f"said by {os.environ['RANK']}", os.O_WRONLY | os.O_CREAT)
    os.dup2(said, 1)
    os.dup2(said, 2)
    sys.argv = ["ict", "train", "digits-100/ict", "--out", str(folder / "refused"), "--set", "train.labeled_batch=25"]
    try:
        cli.main()
    except SystemExit as end:
        sys.stderr.flush()
        os._exit(int(str(end.code)))


def as_rank(folder: Path, names: list[str]) -> None:
    ranks = distributed.joined()
    out = {name: trained(name, ranks) for name in names}
    same = {name: all(_equal_on_all(ranks, t) for t in tensors.values()) for name, tensors in out.items()}
    assert all(same.values()), same
    if ranks.first:
        torch.save(out, folder / f"{ranks.size}.pt")
    if ranks.size == 2:
        stopped(folder / "of two")
        run.train(out=folder / "of one", resume=True, **CUT)
        how: dict[str, Any] = {"data": few(), "settings": ["train.pair_groups=2"], "seed": 3}
        drawn_apart = run.train(tiny(), network=own_network(seed=ranks.rank), **how)
        normalised_apart = run.train(tiny(), sync_bn=False, **how)
        for each in (drawn_apart, normalised_apart):
            assert all(_equal_on_all(ranks, t) for t in each.network.state_dict().values())


def main(folder: Path) -> None:
    """Forks the ranks, since importing torch takes longer than all that they do."""
    from tests.forking import fork  # not above: it changes the process, and tests import this file

    torch.set_default_dtype(torch.float64)
    jobs: list[tuple[str, int, Callable[[], None]]] = [
        ("two", 2, lambda: as_rank(folder, list(cases()))),
        ("four", 4, lambda: as_rank(folder, FOR_FOUR)),
        ("killed", 2, lambda: killed(folder)),
        ("refused", 2, lambda: refused(folder)),
    ]
    codes = {}
    for name, n, job in jobs:
        children = []
        for place in places(n):
            children.append(fork())
            if children[-1] == 0:
                os.environ.update(place)
                job()
                os._exit(0)
        codes[name] = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    (folder / "codes.json").write_text(json.dumps(codes))


def _equal_on_all(ranks: Ranks, x: Tensor) -> bool:
    return torch.equal(ranks.gathered(x[None]), x.expand(ranks.size, *x.shape))


def places(n: int) -> list[dict[str, str]]:
    """What a launcher would put into the environment of each of n ranks on this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [{**common, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(n)]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
