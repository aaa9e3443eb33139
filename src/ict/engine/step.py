"""One training step, run eagerly. It defines what is correct: other modes are tested against it.

Everything that depends on the step comes from the plan and from keys folded with the step. So a single step can be
replayed, and a resumed run equals the uninterrupted one bit for bit.
"""

from dataclasses import dataclass, field, replace
from itertools import chain

import torch
from torch import Tensor

from ict.base.rng import Rng, Use, default_generator, fold
from ict.contract import Algorithm, Batch, Draws, Loss, Network
from ict.engine.batches import Batches, Picked
from ict.engine.distributed import Ranks
from ict.engine.forward import Forward
from ict.engine.schedule import Plan
from ict.engine.state import State


@dataclass(frozen=True)
class Program:
    """Everything that stays the same during a run."""

    algorithm: Algorithm
    plan: Plan
    batches: Batches
    seed: int
    rng: Rng
    average_before: bool = False  # update the teacher before the optimizer's step
    ranks: Ranks = field(default_factory=Ranks)  # the processes that share the batches


def update(program: Program, state: State, forward: type[Forward] = Forward) -> None:
    """Update number `state.step`; `forward` is how networks run."""
    picked = begin(program, state.step)
    w = torch.full((), program.plan.w[state.step], device=program.rng.device)
    student, teacher = forward(state.student), forward(state.evaluated, gradient=False)
    batch = program.batches.make(picked, program.rng, state.memory)
    if batch.prior is not None:
        batch = replace(batch, share=torch.full((), program.plan.share[state.step], device=program.rng.device))
    apply(program, state, picked, differentiate(program, state, batch, w, student, teacher))


def begin(program: Program, step: int) -> Picked:
    """The part of a step on the host: set the keys of all random draws and pick the rows of the batch."""
    reseed_dropout(program, step)
    program.rng.reseed(fold(program.seed, Use.DRAWS, step))
    return program.batches.pick(step)


def reseed_dropout(program: Program, step: int) -> None:
    key = fold(program.seed, Use.DROPOUT, step, *program.ranks.key)
    default_generator(program.rng.device).manual_seed(key)


def differentiate(
    program: Program,
    state: State,
    batch: Batch,
    w: Tensor,
    student: Network,
    teacher: Network,
    draws: Draws | None = None,
) -> Loss:
    """From a batch to gradients, on the device only. The operations are the same at every step."""
    loss = program.algorithm.loss(student, teacher, batch, w, draws or program.rng)
    state.optimizer.zero_grad()
    loss.total.backward()
    return loss


def apply(program: Program, state: State, picked: Picked, loss: Loss) -> None:
    """From gradients to the next state."""
    step, plan = state.step, program.plan
    metrics = {"loss": loss.total.detach(), **loss.metrics}
    program.ranks.average_(chain(state.made_by_batch(), metrics.values()))
    if state.ema and program.average_before:
        state.ema.update(plan.decay[step])
    for group in state.optimizer.param_groups:
        group["lr"] = plan.lr[step]
        if "betas" in group:
            group["betas"] = (plan.momentum[step], group["betas"][1])
        else:
            group["momentum"] = plan.momentum[step]
    state.optimizer.step()
    if state.ema and not program.average_before:
        state.ema.update(plan.decay[step])
    if state.swa and (decay := plan.swa[step]) is not None:
        state.swa.update(decay)
    if state.memory is not None and loss.memory is not None:
        state.memory[program.ranks.gathered(picked.unlabeled)] = program.ranks.gathered(loss.memory)

    bad = (state.first_bad < 0) & ~metrics["loss"].isfinite()
    state.first_bad = torch.where(bad, step, state.first_bad)
    for name, value in metrics.items():
        state.sums[name] = state.sums[name] + value if name in state.sums else value.clone()
    state.n_summed += 1
    state.step += 1
