"""Bugs planted one at a time into a copy of the package: the named tests must notice each of them.

A line that a mutant replaces must stand in its file exactly once, so that the list cannot rot unseen.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import ict

ROOT = Path(__file__).parent.parent
SOURCE = Path(ict.__file__).parent

LOSSES, CONTRACT = "tests/test_algorithms.py", "tests/test_contract.py"
VIEWS, ADVERSARIAL = "tests/test_consistency.py", "tests/test_adversarial.py"
ANCHORED = "tests/test_anchored.py"
LAYOUTS = "tests/test_layouts.py"
STEPS = "tests/test_from_scratch.py::test_fifty_steps_are_the_same_bits"
RUN = "tests/test_run.py::test_"


class Mutant(NamedTuple):
    file: str
    line: str
    instead: str
    tests: str


MUTANTS = {
    "no gradient to the student": Mutant(
        "algorithms/ict.py",
        "z_x, z_m = student.each(x_m, u_m)",
        "z_x, z_m = student(x_m), teacher(u_m)",
        CONTRACT,
    ),
    "labels are not rolled with their images": Mutant(
        "algorithms/ict.py",
        "mix(lam_s, y, batch.partner(y))",
        "mix(lam_s, y, y)",
        LOSSES,
    ),
    "lambda swapped between the target's two parts": Mutant(
        "algorithms/ict.py",
        "return mix(lam, probabilities(z_j",
        "return mix(1 - lam, probabilities(z_j",
        LOSSES,
    ),
    "the teacher is the student": Mutant(
        "engine/step.py",
        "forward(state.evaluated, gradient=False)",
        "forward(state.student, gradient=False)",
        STEPS,
    ),
    "gradient through the teacher": Mutant(
        "engine/forward.py",
        "with torch.set_grad_enabled(self.gradient and torch.is_grad_enabled()):",
        "with torch.enable_grad():",
        CONTRACT,
    ),
    "soft targets cast to integers": Mutant(
        "ops.py",
        "return F.cross_entropy(_full(logits), targets)",
        "return F.cross_entropy(_full(logits), targets.long().to(targets.dtype))",
        LOSSES,
    ),
    "consistency summed over classes": Mutant(
        "ops.py",
        "return F.mse_loss(probs, targets)",
        "return F.mse_loss(probs, targets) * probs.shape[1]",
        LOSSES,
    ),
    "the consistency loss is dropped": Mutant(
        "algorithms/ict.py",
        "Loss(l_s + w * l_us,",
        "Loss(l_s + 0 * w * l_us,",
        CONTRACT,
    ),
    "each example is its own partner": Mutant(
        "contract.py",
        "groups.roll(1, dims=1)",
        "groups.roll(0, dims=1)",
        CONTRACT,
    ),
    "a tensor is read by the host inside the loss": Mutant(
        "algorithms/ict.py",
        "l_us = self._consistency(z_m, y_m)",
        "l_us = self._consistency(z_m, y_m) * (1 if w.item() < 1e9 else 0)",
        CONTRACT,
    ),
    "the average never moves": Mutant(
        "engine/averages.py",
        "torch._foreach_lerp_(averages, values, 1 - decay)",
        "pass",
        "tests/test_limits.py",
    ),
    "the average is updated on the wrong side of the step": Mutant(
        "engine/step.py",
        "if state.ema and program.average_before:",
        "if state.ema and not program.average_before:",
        RUN + "teacher_follows_the_explicit_formula",
    ),
    "a key without its use": Mutant(
        "engine/step.py",
        "rng.reseed(fold(program.seed, Use.DRAWS, step))",
        "rng.reseed(fold(program.seed, step))",
        STEPS,
    ),
    "the optimizer's state is not restored": Mutant(
        "engine/state.py",
        'self.optimizer.load_state_dict(saved["optimizer"])',
        "pass",
        "tests/test_resume.py::test_resume_is_bitwise_for_every_algorithm",
    ),
    "dropout draws on instead of being keyed": Mutant(
        "engine/step.py",
        "default_generator(program.rng.device).manual_seed(key)",
        "pass",
        "tests/test_resume.py::test_resume_is_bitwise_for_every_algorithm",
    ),
    "hidden labels reach training": Mutant(
        "experiment/prepare.py",
        "    known[labeled] = data.train.y[labeled]",
        "    known = data.train.y\n    labeled = unlabeled",
        RUN + "labels_outside_the_labeled_rows_cannot_reach_training",
    ),
    "evaluation in training mode": Mutant(
        "engine/evaluate.py",
        "network.eval()",
        "network.train()",
        RUN + "the_saved_error_is_the_networks_error",
    ),
    "the test set chooses the best model": Mutant(
        "experiment/training.py",
        "valid = job.valid",
        "valid = job.data.test",
        RUN + "the_test_set_is_read_only_after_the_last_update",
    ),
    "padding after standardisation": Mutant(
        "engine/input_transform.py",
        "x = self.whiten(self._moved(x, rng, flip))",
        "x = self._moved(self.whiten(x), rng, flip)",
        STEPS,
    ),
    "joined parts share their statistics": Mutant(
        "networks/batch_norm.py",
        "norm.parts, norm.still = sizes, still",
        "norm.parts, norm.still = (), still",
        "tests/test_fast_networks.py",
    ),
    "parts that should leave the statistics alone move them": Mutant(
        "networks/batch_norm.py",
        "moving = len(self.parts) - self.still",
        "moving = len(self.parts)",
        "tests/test_fast_networks.py",
    ),
    "the labeled forward beside VAT's leaves the statistics alone": Mutant(
        "engine/forward.py",
        "with self._usual():\n            z = self(x)",
        "if True:\n            z = self(x)",
        ADVERSARIAL,
    ),
    "the average holds on to memory that was replaced": Mutant(
        "engine/averages.py",
        "(_tensors(network, self.average_buffers) for network in (self.module, self.student))",
        "vars(self).setdefault('kept', [[t.data for t in _tensors(n, False)] for n in (self.module, self.student)])",
        "tests/test_fast_networks.py::test_an_average_follows_parameters_whose_memory_was_replaced",
    ),
    "manifold mixup mixes at every depth": Mutant(
        "algorithms/hidden_mixing.py",
        "torch.where(drawn == stages, lam, 1.0)",
        "lam.expand(depth + 1)",
        LOSSES,
    ),
    "no gradient through the Pi-model's second view": Mutant(
        "algorithms/pi.py",
        "Target(probabilities(z[1]))",
        "Target(probabilities(z[1]).detach())",
        VIEWS,
    ),
    "the mean teacher sees the student's view": Mutant(
        "algorithms/mean_teacher.py",
        "teacher(batch.u[1])",
        "teacher(batch.u[0])",
        VIEWS,
    ),
    "the ensemble is not corrected for its start": Mutant(
        "algorithms/temporal_ensembling.py",
        "torch.where(total > 0, total, 1.0)",
        "torch.where(total > 0, 1.0, 1.0)",
        VIEWS,
    ),
    "the memory is never written": Mutant(
        "engine/step.py",
        "state.memory[program.ranks.gathered(picked.unlabeled)] = program.ranks.gathered(loss.memory)",
        "pass",
        VIEWS + "::test_temporal_ensembling_is_the_explicit_epoch_formula",
    ),
    "the memory is not restored": Mutant(
        "engine/state.py",
        'self.memory.copy_(saved["memory"])',
        "pass",
        "tests/test_resume.py::test_resume_keeps_what_the_algorithm_remembers",
    ),
    "neighbors are pushed apart": Mutant(
        "algorithms/sntg.py",
        "torch.where(y_a == y_b,",
        "torch.where(y_a != y_b,",
        VIEWS,
    ),
    "labels of the pool are used in a joined batch": Mutant(
        "engine/batches.py",
        'if self.layout == "joined":  # only',
        "if False:  # whose",
        LAYOUTS,
    ),
    "a gradient through VAT's clean predictions": Mutant(
        "algorithms/vat.py",
        "l_us = self._divergence(z.detach(), z_r)",
        "l_us = self._divergence(z, z_r)",
        ADVERSARIAL,
    ),
    "VAT's forwards drop different units": Mutant(
        "algorithms/vat.py",
        "with student.frozen_stats(), student.same_masks():",
        "with student.frozen_stats():",
        ADVERSARIAL,
    ),
    "VAT's forwards move the statistics": Mutant(
        "algorithms/vat.py",
        "with student.frozen_stats(), student.same_masks():",
        "with student.same_masks():",
        ADVERSARIAL,
    ),
    "VAT looks for its direction where float32 sees none": Mutant(
        "algorithms/vat.py",
        "xi: float = 0.1",
        "xi: float = 1e-6",
        ADVERSARIAL + "::test_the_default_xi_finds_the_direction_in_float32",
    ),
    "VAdD drops the units that help": Mutant(
        "algorithms/vadd.py",
        "gain = -(h * gradient).detach()",
        "gain = (h * gradient).detach()",
        ADVERSARIAL,
    ),
    "the prior is not floored": Mutant(
        "algorithms/anchored_ict.py",
        "batch.prior.clamp(min=self.floor).log()",
        "batch.prior.clamp(min=1e-9).log()",
        ANCHORED,
    ),
    "the anchor weighs the teacher": Mutant(
        "algorithms/anchored_ict.py",
        "batch.share * anchor + (1 - batch.share) * teacher(u)",
        "(1 - batch.share) * anchor + batch.share * teacher(u)",
        ANCHORED,
    ),
    "targets are mixed before they are sharpened": Mutant(
        "algorithms/anchored_ict.py",
        "t = probabilities(batch.share * anchor + (1 - batch.share) * teacher(u), self.temperature)",
        "t = probabilities(batch.mixed(lam, batch.share * anchor + (1 - batch.share) * teacher(u)), self.temperature)",
        ANCHORED,
    ),
    "examples meet the prior of other rows": Mutant(
        "engine/batches.py",
        "None if kept is None else kept[rows] for kept in",
        "None if kept is None else kept[: len(rows)] for kept in",
        ANCHORED,
    ),
    "experts learn from hidden labels": Mutant(
        "experiment/prepare.py",
        "fitted_prior(recipe.anchor, seed, data, known,",
        "fitted_prior(recipe.anchor, seed, data, data.train.y,",
        ANCHORED,
    ),
    "experts see the labels that a fold holds out": Mutant(
        "experts/folds.py",
        "hidden[held_out] = UNLABELED",
        "hidden[held_out[:0]] = UNLABELED",
        "tests/test_experts.py",
    ),
    "the weights of experts ignore the labels": Mutant(
        "experts/mixture.py",
        "shares = weights * likelihoods",
        "shares = weights * np.ones_like(likelihoods)",
        "tests/test_experts.py",
    ),
    "the captured share of the prior is that of the first update": Mutant(
        "engine/fast/cuda_graph.py",
        "moved, plan.share], device",
        "moved, plan.share[:1] * len(plan)], device",
        "tests/test_fast.py",
    ),
    "the prior of the next batch is not taken over": Mutant(
        "engine/fast/prefetch.py",
        "(batch.u_y, batch.prior)",
        "(batch.u_y,)",
        "tests/test_fast.py",
    ),
    "the plain mean is a moving average": Mutant(
        "engine/schedule.py",
        "(done - first) // gap / ((done - first) // gap + 1)",
        "0.5",
        "tests/test_swa.py::test_the_mean_is_that_of_the_stored_weights[supervised]",
    ),
    "every shard is read from the start of the data": Mutant(
        "data/shards.py",
        "wanted[here] - self.starts[shard]",
        "wanted[here] % len(self.arrays[shard])",
        "tests/test_shards.py::test_what_was_written_is_what_is_read",
    ),
    "the mean keeps the statistics of the first weights": Mutant(
        "engine/loop.py",
        "update_bn(inputs, network)",
        "_ = update_bn, inputs",
        "tests/test_swa.py",
    ),
}


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    """Forks a child for each mutant, so that only the first one waits for the imports."""
    command = [sys.executable, "-m", "tests.mutant_server"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        yield running


@pytest.mark.parametrize("bug", list(MUTANTS))
def test_the_suite_notices(bug: str, tmp_path: Path, server: subprocess.Popen[str]) -> None:
    mutant = MUTANTS[bug]
    copy = tmp_path / "ict"
    shutil.copytree(SOURCE, copy)  # compiled files too, which keep their times
    source = (copy / mutant.file).read_text()
    assert source.count(mutant.line) == 1, f"{mutant.line!r} is not in {mutant.file} exactly once any more"
    (copy / mutant.file).write_text(source.replace(mutant.line, mutant.instead))
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(json.dumps([str(tmp_path), mutant.tests, str(tmp_path / "output")]) + "\n")
    server.stdin.flush()
    code, output = server.stdout.readline().strip(), (tmp_path / "output").read_text()
    assert code == "1" and "1 failed" in output, f"exit code {code}:\n{output[-4000:]}"
    assert "SyntaxError" not in output and "NameError" not in output, "the planted bug must be a bug that runs"
