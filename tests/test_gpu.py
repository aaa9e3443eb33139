"""What needs a GPU: the captured step is the eager one bit for bit, fast mode stays close to it, nothing waits."""

import os
import signal
import subprocess
import sys
import time
import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ict.algorithms import ALGORITHMS
from ict.base.errors import UserError
from ict.base.rng import Rng, Use, fold
from ict.contract import Batch, Tap
from ict.data.dataset import Dataset, Examples
from ict.engine.device import untouched_globals
from ict.engine.evaluate import error
from ict.engine.fast import convolutions
from ict.engine.fast.cuda_graph import Captured
from ict.engine.fast.device_updates import QuickBatch
from ict.engine.fast.forward import FastForward, evaluator
from ict.engine.forward import Forward
from ict.engine.step import update
from ict.experiment.prepare import Job, load_data, prepare
from ict.experiment.run import train
from ict.experiment.run_folder import Folder
from ict.networks import NETWORKS
from ict.networks.batch_norm import BatchNorm1d, joined
from ict.networks.staged import Staged
from ict.recipes.recipe import Recipe, change
from tests.tiny import crash_at, same_bits, tiny

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # torch's compiler uses what torch deprecates
]
CUDA = torch.device("cuda", 0)
every_algorithm = pytest.mark.parametrize("name", list(ALGORITHMS))


def job(recipe: Recipe, **how: Any) -> Job:
    return prepare(recipe, 3, load_data(recipe, 3), None, CUDA, **how)


def losses(recipe: Recipe, n: int, kind: str, **how: Any) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The loss of each of n updates, and the student they end with."""
    with untouched_globals(CUDA, exact=kind != "fast"):
        run = job(recipe, **how)
        step: Any = update if kind == "eager" else Captured(run.program, run.state, fast=kind == "fast", compile=True)
        seen = []
        for _ in range(n):
            step(run.program, run.state)
            seen.append(run.state.sums["loss"].item())
            run.state.sums = {}
        return seen, {k: v.clone() for k, v in run.state.student.state_dict().items()}


@every_algorithm
def test_captured_is_eager_bit_for_bit(name: str) -> None:
    recipe = change(tiny(name), [])
    eager, eager_weights = losses(recipe, 20, "eager")
    captured, captured_weights = losses(recipe, 20, "captured")
    assert eager == captured and all(torch.equal(eager_weights[k], captured_weights[k]) for k in eager_weights)


@pytest.mark.parametrize(
    "settings",
    [
        ["train.labeled_order=repeated"],
        ["algorithm.logging_forwards=true", "algorithm.targets=logits", "optimizer.nesterov=false"],
        ["algorithm=mean-teacher", "train.layout=joined", "inputs.noise=0.1"],
        ["average.when=before", "optimizer.name=adam"],
        ["optimizer.name=muon", "optimizer.turn=0.03"],
        ["algorithm.depth=1"],
        ["algorithm=vat", "algorithm.xi=0", "algorithm.entropy=1", "average.decay=none"],
    ],
)
def test_captured_is_eager_for_other_machinery(settings: list[str]) -> None:
    recipe = change(tiny(), settings)
    assert losses(recipe, 12, "eager")[0] == losses(recipe, 12, "captured")[0]


def test_fast_stays_close_to_exact_with_muon() -> None:
    """Whose step runs on several streams inside the graph."""
    recipe = change(tiny(), ["train.steps=50", "network.dropout=0", "network.width=16", "optimizer.name=muon"])
    exact, student = losses(recipe, 50, "captured")
    fast, quick = losses(recipe, 50, "fast")
    assert exact == pytest.approx(fast, rel=0.05)
    for name, weight in student.items():
        if weight.dim() == 4:
            assert (weight - quick[name]).norm() < 0.2 * weight.norm(), name


@every_algorithm
def test_fast_stays_close_to_exact_over_50_steps(name: str) -> None:
    recipe = change(tiny(name), ["train.steps=50", "network.dropout=0", "optimizer.lr=0.01", "network.width=16"])
    exact, _ = losses(recipe, 50, "captured")
    fast, _ = losses(recipe, 50, "fast")
    # SNTG pairs examples by their predicted classes, and a class can change by rounding
    assert exact == pytest.approx(fast, rel=0.25 if name == "sntg" else 0.05)
    assert sum(exact) == pytest.approx(sum(fast), rel=0.02)


@pytest.mark.parametrize(("tapped", "still"), [(False, 0), (False, 1), (True, 0)])
@pytest.mark.parametrize("network", ["cnn13", "wrn-28-2", "convnet", "mlp-wide"])
def test_a_fused_network_is_the_plain_one_in_float64(
    network: str, tapped: bool, still: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convolutions, "HALF", torch.float32)
    shape, size = ((3, 16, 16), (12, 8)) if network != "mlp-wide" else ((20,), (12, 8))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        quick = NETWORKS[network](shape, 5).to(CUDA)
        x = torch.randn(sum(size), *shape, device=CUDA)
        gradient = torch.randn(sum(size), 5, device=CUDA)

    def tap(kind: type[Batch]) -> Tap | None:
        mixed = kind(x, x, pair_groups=2).mixed
        lams = torch.tensor([0.7, 1.0, 0.4, 1.0, 0.9], device=CUDA)
        return (lambda stage, h: mixed(lams[stage], h)) if tapped else None

    plain = deepcopy(quick).double()
    forward = FastForward(quick)
    assert forward.fused is not None
    with torch.backends.cudnn.flags(allow_tf32=False), joined(plain, size, still), joined(quick, size, still):
        expected, got = plain(x.double(), tap(Batch)), forward.fused.forward(x, tap(QuickBatch))
        expected.backward(gradient.double())
        got.backward(gradient)
    torch.testing.assert_close(got.double(), expected, rtol=1e-3, atol=1e-4)
    for a, b in zip(quick.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(a.to(b.dtype), b, rtol=1e-3, atol=1e-4)
    whole = max(p.grad.norm() for p in plain.parameters() if p.grad is not None)
    for (name, a), b in zip(quick.named_parameters(), plain.parameters(), strict=True):
        assert b.grad is not None
        if a.grad is None:  # a bias that a batch norm takes away again
            assert b.grad.norm() < 1e-9 * whole, name
        else:  # at a kink of LeakyReLU rounding decides between two slopes
            assert (a.grad.double() - b.grad).norm() < 0.02 * b.grad.norm() + 1e-5 * whole, name
    quick.eval(), plain.eval()
    with torch.no_grad():
        torch.testing.assert_close(forward.fused.forward(x).double(), plain(x.double()), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "own"), [("vat", ["algorithm.xi=0"]), ("ict", ["average.decay=none", "train.rampup=0"])]
)
def test_fast_stays_close_to_exact_for_other_machinery(name: str, own: list[str]) -> None:
    """VAT by the derivative; ICT whose student is its own teacher."""
    settings = [*own, "train.steps=50", "network.dropout=0", "optimizer.lr=0.01", "network.width=16"]
    recipe = change(tiny(name), settings)
    exact, _ = losses(recipe, 50, "captured")
    fast, _ = losses(recipe, 50, "fast")
    assert exact == pytest.approx(fast, rel=0.05) and sum(exact) == pytest.approx(sum(fast), rel=0.02)


@pytest.mark.parametrize(("half", "least"), [(torch.float32, 0.99), (torch.bfloat16, 0.75)])
@pytest.mark.parametrize("network", ["cnn13", "wrn-28-2", "convnet"])
def test_a_fused_networks_derivative_is_that_of_the_plain_one_in_float64(
    network: str, half: torch.dtype, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Along a direction and back: cosines. In half precision rounding decides at a kink or where pixels are pooled."""
    monkeypatch.setattr(convolutions, "HALF", half)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        quick = NETWORKS[network]((3, 16, 16), 5).to(CUDA)
        x, d = (torch.randn(12, 3, 16, 16, device=CUDA) for _ in range(2))
        v = torch.randn(12, 5, device=CUDA)
    found, student = [], FastForward(quick)
    assert student.fused is not None
    autocast = torch.autocast("cuda", torch.bfloat16, enabled=half == torch.bfloat16)  # inside the step's own
    monkeypatch.setattr(student.fused, "forward", autocast(student.fused.forward))
    for forward, kind in ((student, torch.float32), (Forward(deepcopy(quick).double()), torch.float64)):
        at = x.to(kind).requires_grad_()
        with torch.backends.cudnn.flags(allow_tf32=False), forward.frozen_stats():
            z, dz = forward.along(at, d.to(kind))
            found.append((dz.double(), forward.back(z, at, v.to(kind)).double()))
    assert not student.fused.aside.held, "on the way back to the input no gradient of a weight is made"
    for a, b in zip(*found, strict=True):
        assert torch.cosine_similarity(a.flatten(1), b.flatten(1)).mean() > least


@pytest.mark.parametrize("layout", [[], ["algorithm=mean-teacher", "train.layout=joined"]])
def test_the_batch_made_ahead_is_the_batch_of_its_step(layout: list[str]) -> None:
    with untouched_globals(CUDA, exact=False):
        run = job(change(tiny(), layout))
        step = Captured(run.program, run.state, fast=True)
        for n in range(6):
            step(run.program, run.state)
            assert step.ahead is not None
            made = [tensor.clone() for tensor in step.ahead.tensors]
            rng = Rng(CUDA, fold(run.program.seed, Use.DRAWS, n + 1))
            batch = run.program.batches.at(n + 1, rng)
            for a, b in zip(made, [batch.x, batch.y, *batch.u, batch.u_y], strict=True):
                torch.testing.assert_close(a, b)


@every_algorithm
def test_examples_fetched_from_the_host_give_the_same_bits(name: str) -> None:
    assert losses(tiny(name), 8, "captured", resident=True)[0] == losses(tiny(name), 8, "captured", resident=False)[0]


def test_fetched_examples_are_held_once_and_fast_mode_takes_them() -> None:
    recipe = change(tiny(), ["network.dropout=0"])
    data = load_data(recipe, 3)
    run = prepare(recipe, 3, data, None, CUDA, resident=False)
    assert run.program.batches.examples.x.data_ptr() == data.train.x.data_ptr()
    here, fetched = (losses(recipe, 8, "fast", resident=resident)[0] for resident in (True, False))
    assert here == pytest.approx(fetched, rel=0.02)


def test_what_would_fill_the_memory_is_fetched_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1000, 10**9))
    with pytest.warns(UserWarning, match="copied batch by batch"):
        run = job(tiny())
    assert run.program.batches.examples.x.device.type == "cpu"


def test_nothing_is_compiled_after_the_second_step(monkeypatch: pytest.MonkeyPatch) -> None:
    import triton

    with untouched_globals(CUDA, exact=False):
        run = job(tiny())
        step = Captured(run.program, run.state, fast=True)
        step(run.program, run.state)
        step(run.program, run.state)
        monkeypatch.setattr(triton, "compile", None)
        monkeypatch.setattr(triton.runtime.jit.JITFunction, "run", None)
        for _ in range(5):
            step(run.program, run.state)
        assert run.state.sums["loss"].isfinite()


def test_a_network_of_the_user_is_compiled_once() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))
    recipe = tiny()
    with untouched_globals(CUDA, exact=False):
        run = prepare(recipe, 3, load_data(recipe, 3), network, CUDA)
        step = Captured(run.program, run.state, fast=True, compile=True)
        step(run.program, run.state)
        counted = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        assert counted > 0
        for _ in range(5):
            step(run.program, run.state)
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == counted


def test_evaluation_in_half_precision_agrees() -> None:
    recipe = change(tiny(), ["train.steps=300", "network.width=16"])
    run = train(recipe, device="cuda", mode="fast")
    data = load_data(recipe, 0)
    examples = Examples(data.test.x, data.test.y)
    exact = error(run.network, examples, run.transform, 500)
    assert error(run.network, examples, run.transform, 500, None, evaluator(run.network)) == pytest.approx(
        exact, abs=0.01
    )
    assert exact < 0.5, "it has learned something"


def test_too_little_memory_is_one_sentence() -> None:
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.001)
    try:
        with pytest.raises(UserError, match="memory are not enough"):
            train(change(tiny(), ["network.width=512", "train.labeled_batch=2000", "train.unlabeled_batch=2000"]))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def test_a_fast_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    recipe = change(tiny(), ["train.steps=60"])
    crash_at(20, tmp_path / "cut", recipe, device="cuda", mode="fast")
    resumed = train(recipe, out=tmp_path / "cut", resume=True, device="cuda", mode="fast")
    whole = train(recipe, device="cuda", mode="fast")
    assert resumed.result["resumed_from"] and resumed.result["steps"] == 60
    weights = zip(resumed.network.parameters(), whole.network.parameters(), strict=True)
    assert all(torch.allclose(a, b, rtol=0.2, atol=0.05) for a, b in weights)


def test_the_teacher_follows_the_student_in_fast_mode() -> None:
    recipe = change(tiny(), ["average.warmup=false", "average.decay=0.5"])
    with untouched_globals(CUDA, exact=False):
        run = job(recipe)
        step = Captured(run.program, run.state, fast=True)
        assert run.state.ema is not None
        expected = [p.clone() for p in run.state.ema.module.parameters()]
        for _ in range(5):
            step(run.program, run.state)
            expected = [0.5 * t + 0.5 * s for t, s in zip(expected, run.state.student.parameters(), strict=True)]
        for t, e in zip(run.state.ema.module.parameters(), expected, strict=True):
            torch.testing.assert_close(t, e)


@pytest.mark.parametrize("fast", [False, True])
@every_algorithm
def test_no_host_synchronisation_in_a_step(name: str, fast: bool) -> None:
    with untouched_globals(CUDA, exact=not fast):
        run = job(change(tiny(name), []))
        step = Captured(run.program, run.state, fast=fast)
        step(run.program, run.state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says that this mode is a prototype
            torch.cuda.set_sync_debug_mode("error")
            try:
                for _ in range(10):
                    step(run.program, run.state)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        assert run.state.step == 11, "a synchronization would have raised before"


def test_the_host_writes_the_memory_of_the_batch_that_was_learned_from() -> None:
    recipe = change(tiny("temporal-ensembling"), ["optimizer.final_momentum=0.5"])  # which a graph cannot hold
    with untouched_globals(CUDA, exact=False):
        run = job(recipe)
        rows = run.program.batches.pick(0).unlabeled.sort().values
        step = Captured(run.program, run.state, fast=True)
        step(run.program, run.state)
        assert step.optimizer is None and run.state.memory is not None
        assert torch.equal(run.state.memory.sum(1).nonzero()[:, 0], rows)


@pytest.mark.parametrize("how", [[], ["--sync-bn"], ["--mode", "fast"]])
def test_one_rank_under_torchrun_talks_by_nccl(how: list[str], tmp_path: Path) -> None:
    settings = ["train.steps=40", "network.width=8", "eval.log_every=10"]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1"]
    words = ["-m", "ict", "train", "digits-100/ict", "--device", "cuda", "--out", str(tmp_path / "ranks"), *how]
    changes = [word for setting in settings for word in ("--set", setting)]
    done = subprocess.run([*launch, *words, *changes], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    plain = train("digits-100/ict", settings=settings, device="cuda", out=tmp_path / "plain")
    found, expected = ([r["loss"] for r in Folder(tmp_path / n).read_metrics()] for n in ("ranks", "plain"))
    assert found == (pytest.approx(expected, rel=0.1) if how else expected), "alone in exact mode, bit for bit"
    assert len(found) == 4 and plain.result["ranks"] == 1


def test_killed_on_the_gpu_and_resumed_is_bitwise(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _TRAIN, str(tmp_path / "cut")]
    child = subprocess.Popen(command)
    while not list(tmp_path.glob("cut/checkpoint-*.pt")) and child.poll() is None:
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    settings = ["train.steps=3000"]
    resumed = train(tiny(), settings=settings, out=tmp_path / "cut", resume=True, device="cuda")
    assert resumed.result["resumed_from"] and same_bits(train(tiny(), settings=settings, device="cuda"), resumed)


_TRAIN = """
import sys
from ict.experiment.run import train
from tests.tiny import tiny
train(tiny(), settings=["train.steps=3000"], out=sys.argv[1], device="cuda", checkpoint_seconds=0.2)
"""


def test_a_lambda_for_each_example_mixes_each_by_its_own() -> None:
    draws = torch.Generator("cuda").manual_seed(0)
    x, lam = torch.randn(6, 3, 4, 4, device=CUDA, generator=draws), torch.rand(6, device=CUDA, generator=draws)
    for share in (lam[:, None, None, None], lam[0]):
        quick, plain = (kind(x, x).mixed(share, x) for kind in (QuickBatch, Batch))
        torch.testing.assert_close(quick, plain)


def test_a_norm_of_sequences_is_torchs() -> None:
    network = Staged(BatchNorm1d(4), nn.Sequential(nn.Flatten(), nn.Linear(36, 3))).to(CUDA)
    x = torch.randn(6, 4, 9, device=CUDA, generator=torch.Generator("cuda").manual_seed(0))
    expected = Forward(deepcopy(network))(x)
    torch.testing.assert_close(FastForward(network)(x), expected, rtol=0.02, atol=0.02)


def test_biases_that_a_norm_takes_away_do_not_run_away_where_the_host_applies_the_step() -> None:
    """Torch's Nesterov adds the momentum to the gradient in place, where there is no weight decay."""
    draws = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (200, 3, 12, 12), dtype=torch.uint8, generator=draws)
    examples = Examples(x, torch.arange(200) % 10)
    data = Dataset(examples, examples, tuple(map(str, range(10))))
    settings = ["network=cnn13", "optimizer.final_momentum=0.5", "optimizer.weight_decay=0", "train.steps=40"]
    with untouched_globals(CUDA, exact=False):
        run = prepare(change(tiny("supervised"), settings), 3, data, None, CUDA)
        biases = [m.bias for m in run.state.student.modules() if isinstance(m, nn.Conv2d) and m.bias is not None]
        for bias in biases:
            run.state.optimizer.state[bias]["momentum_buffer"] = torch.full_like(bias, 1e-3)
        before = [bias.detach().clone() for bias in biases]
        step = Captured(run.program, run.state, fast=True)
        for _ in range(40):
            step(run.program, run.state)
    assert biases and all(((b - a).abs() < 0.01).all() for a, b in zip(before, biases, strict=True))
