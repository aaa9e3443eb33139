"""The step on a GPU, captured once as a CUDA graph and replayed. In fast mode it is also fused and in half precision.

All code for graphs is in this file. It captures `step.differentiate` itself, so in exact mode a replay gives the same
bits as the eager step. In fast mode the networks are `FastForward`, and the graph also contains the optimizer and the
averages.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn

from ict.contract import Loss
from ict.engine.fast.device_updates import QuickAverage, QuickOptimizer
from ict.engine.fast.forward import FastForward, networks
from ict.engine.fast.prefetch import Ahead, copy
from ict.engine.forward import Forward
from ict.engine.schedule import Plan
from ict.engine.state import State
from ict.engine.step import Program, apply, begin, differentiate

_WARM_UPS = 3  # in their first calls libraries choose kernels and allocate workspaces, which a graph cannot capture
_WORTH_COMPILING = 12_000  # remaining updates: compiling takes about 35 s and saves up to 3 ms each (CNN-13, H200)


class Captured:
    """An update as a CUDA graph. In exact mode the host applies the gradients as in `step.update`: the same bits."""

    def __init__(self, program: Program, state: State, *, fast: bool, compile: bool | None = None) -> None:
        """`compile` None: compile networks that cannot run fused if the run is long enough to gain from it."""
        self.program, self.state, device = program, state, program.rng.device
        self.picked = begin(program, state.step).clone()  # the rows that the graph reads
        self.step = torch.tensor(state.step, device=device)
        self.plan = _table(program.plan, device)
        self.student: Forward = Forward(state.student)
        self.teacher: Forward = Forward(state.evaluated, gradient=False)
        self.optimizer: QuickOptimizer | None = None
        self.average: QuickAverage | None = None
        self.ahead: Ahead | None = None
        self.applied = self.picked.unlabeled  # the rows whose memory is written by `apply` on the host
        self.silent: dict[Tensor, Tensor] = {}
        if fast:
            self.applied = self.applied.clone()  # `picked` holds the rows of the next update by then
            compile = len(program.plan) - state.step >= _WORTH_COMPILING if compile is None else compile
            self.student, self.teacher = networks(state, compile)
            self.silent = {p: torch.zeros_like(p) for p in _biases(state.student)}
            self.ahead = Ahead(program, self.picked)
            # a graph would keep the first momentum, and cannot contain messages between ranks
            if len(set(program.plan.momentum)) == 1 and not program.ranks.launched:
                self.optimizer = QuickOptimizer(state.optimizer)
                self.average = QuickAverage(state.ema) if state.ema else None
        self.sums: dict[str, Tensor] = {}  # the graph adds metrics up here
        self.graph = torch.cuda.CUDAGraph()
        for rng in (program.rng, program.batches.repeated):
            if rng is not None:
                self.graph.register_generator_state(rng.generator)
        with _restored([self.step], state):
            self._warm_up()
            # the watchdog thread of the process group may query its events meanwhile
            errors = "thread_local" if program.ranks.launched else "global"
            with torch.cuda.graph(self.graph, capture_error_mode=errors):
                self.loss = self._captured()
        if self.ahead is not None:
            self.ahead.first(state.step)
        for name, total in self.sums.items():
            total.copy_(state.sums.get(name, torch.zeros_like(total)))
        state.sums = dict(self.sums) if state.sums and self.optimizer else state.sums

    def __call__(self, program: Program, state: State) -> None:
        step = state.step
        if self.ahead is None:
            copy(self.picked.tensors, begin(program, step).tensors)
        else:
            self.ahead.begin(step)
        if self.optimizer is not None and not state.sums:
            torch._foreach_zero_(list(self.sums.values()))
            state.sums = dict(self.sums)
        self.graph.replay()
        if self.optimizer is None:
            apply(program, state, self.picked._replace(unlabeled=self.applied), self.loss)
            return
        if state.swa and (kept := program.plan.swa[step]) is not None:
            state.swa.update(kept)
        state.n_summed += 1
        state.step += 1

    def _captured(self) -> Loss:
        program, state, ahead = self.program, self.state, self.ahead
        w, lr, moved, share = self.plan.index_select(0, self.step[None])[0].unbind()
        if ahead is None:
            batch = program.batches.make(self.picked, program.rng, state.memory)
        else:
            batch = ahead.current
            ahead.start()
            if state.memory is not None:
                batch = replace(batch, memory=state.memory[self.picked.unlabeled])
        if batch.prior is not None:
            batch = replace(batch, share=share)
        if isinstance(self.teacher, FastForward):
            self.teacher.received(batch)
        draws = program.rng if ahead is None else ahead.draws
        loss = differentiate(program, state, batch, w, self.student, self.teacher, draws)
        for bias, zeros in self.silent.items():
            if bias.grad is None:  # the next batch norm cancels this bias; torch may write to gradients, so copy
                bias.grad = zeros if self.optimizer else torch.zeros_like(bias)
        if self.optimizer is not None:
            self._apply(loss, lr, moved)
        elif ahead is not None:
            self.applied.copy_(self.picked.unlabeled)
        if ahead is not None:
            ahead.finish()
        self.step.add_(1)
        return loss

    def _apply(self, loss: Loss, lr: Tensor, moved: Tensor) -> None:
        """`step.apply` with its scalars on the device."""
        state, before = self.state, self.program.average_before
        assert self.optimizer is not None and self.ahead is not None
        with self.ahead.beside():
            self._note(loss)
        if self.average and before:
            self.average.update(moved)
        self.optimizer.step(lr)
        if self.average and not before:
            self.average.update(moved)
        if state.memory is not None and loss.memory is not None:
            state.memory[self.picked.unlabeled] = loss.memory

    def _note(self, loss: Loss) -> None:
        state, metrics = self.state, {"loss": loss.total.detach(), **loss.metrics}
        bad = (state.first_bad < 0) & ~metrics["loss"].isfinite()
        state.first_bad.copy_(torch.where(bad, self.step, state.first_bad))
        if not self.sums:
            self.sums = {name: torch.zeros_like(value) for name, value in metrics.items()}
        torch._foreach_add_([self.sums[name] for name in metrics], list(metrics.values()))

    def _warm_up(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            with self.student.in_line(), self.teacher.in_line():
                self._captured()
            for _ in range(_WARM_UPS - 1):
                self._captured()
        torch.cuda.current_stream().wait_stream(side)
        self.state.optimizer.zero_grad()  # so that the graph's backward creates gradients and does not add to old ones


def _table(plan: Plan, device: torch.device) -> Tensor:
    """The plan on the device, a row per step: consistency weight, learning rate, 1 - decay, prior's share."""
    moved = [1 - kept for kept in plan.decay] or plan.w
    return torch.tensor([plan.w, plan.lr, moved, plan.share], device=device).T.contiguous()


def _biases(network: nn.Module) -> list[Tensor]:
    return [m.bias for m in network.modules() if isinstance(m, nn.Conv2d) and m.bias is not None]


@contextmanager
def _restored(others: list[Tensor], state: State) -> Iterator[None]:
    """Undo all updates made inside."""
    modules = [state.student, *([state.ema.module] if state.ema else [])]
    tensors = [*others, state.first_bad, *([] if state.memory is None else [state.memory])]
    tensors += [tensor.detach() for module in modules for tensor in (*module.parameters(), *module.buffers())]
    of_optimizer = _tensors(state.optimizer)
    before = [tensor.clone() for tensor in (*tensors, *of_optimizer)]
    yield
    copy([*tensors, *of_optimizer], before)
    for tensor in _tensors(state.optimizer)[len(of_optimizer) :]:
        tensor.zero_()  # created inside


def _tensors(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]
