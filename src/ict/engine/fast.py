"""The step on a GPU: captured once as a graph and replayed, and in fast mode also compiled and in half precision.

The only file that knows of graphs, compilation and autocast. The captured step is `step.differentiate` itself, so in
exact mode a replay gives the bits of the eager step; what surrounds it is `step.begin` and `step.apply`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ict.contract import Loss
from ict.engine.batches import Picked
from ict.engine.forward import Forward
from ict.engine.state import State
from ict.engine.step import Program, apply, begin, differentiate
from ict.networks.padded import pad_channels
from ict.networks.parts import can_join, joined

_WARM_UPS = 3  # libraries choose kernels and allocate workspaces in the first calls, which a capture cannot hold
_WORTH_COMPILING = 4000  # updates left; a cold compilation of CNN-13 takes 35 s and saves 3 ms an update (H200)


class FastForward(Forward):
    """A network in bfloat16, channels last, compiled if wanted; parts go through it together, each normalized alone."""

    def __init__(self, module: nn.Module, gradient: bool = True, compile: bool = True) -> None:
        super().__init__(module, gradient)
        pad_channels(module)
        for parameter in module.parameters():
            if parameter.dim() == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
        self.compile, self.can_join = compile, can_join(module)
        self.exactly = False
        self._compiled: dict[str, Any] = {}

    def each(self, *parts: Tensor) -> tuple[Tensor, ...]:
        return self._together(self, parts)

    def features(self, *parts: Tensor) -> tuple[Tensor, ...]:
        return self._together(lambda x: super(FastForward, self).features(x)[0], parts)

    @contextmanager
    def same_masks(self) -> Iterator[None]:
        compile, self.compile = self.compile, self.compile and not self._dropouts()  # it would not see the masks
        try:
            with super().same_masks():
                yield
        finally:
            self.compile = compile

    @contextmanager
    def precise(self) -> Iterator[None]:
        self.exactly = True
        try:
            yield
        finally:
            self.exactly = False

    def _together(self, function: Callable[[Tensor], Tensor], parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if len(parts) < 2 or not self.can_join:
            return tuple(function(part) for part in parts)
        sizes = tuple(len(part) for part in parts)
        with joined(self.module, sizes):
            together: Any = function(torch.cat(parts))
            return tuple(together.split(sizes))

    def _run(self, function: Callable[..., Tensor], x: Tensor, **options: Any) -> Tensor:
        if self.exactly:
            return super()._run(function, x, **options)
        if x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        with torch.autocast("cuda", torch.bfloat16, enabled=x.is_cuda):
            return super()._run(self._quick(function), x, **options).float()

    def _quick(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        if not self.compile:
            return function
        name = getattr(function, "__name__", "forward")
        if name not in self._compiled:
            self._compiled[name] = torch.compile(function, dynamic=False)
        compiled: Callable[..., Tensor] = self._compiled[name]
        return compiled


def networks(state: State, compile: bool) -> tuple[FastForward, FastForward]:
    """Student and teacher as the fast step sees them."""
    student = FastForward(state.student, compile=compile)
    return student, FastForward(state.evaluated, gradient=False, compile=compile)


class Captured:
    """The step of a run as a graph. Calling it is `step.update`, without the host in the way."""

    def __init__(self, program: Program, state: State, *, fast: bool, compile: bool | None = None) -> None:
        """`compile` none: where the run is long enough to pay for it."""
        self.program, self.state = program, state
        picked = begin(program, state.step)
        self.picked = Picked(*(rows.clone() for rows in picked))  # what the graph reads
        self.w = torch.full((), program.plan.w[state.step], device=program.rng.device)
        compile = len(program.plan) - state.step >= _WORTH_COMPILING if compile is None else compile
        self.student: Forward = Forward(state.student)
        self.teacher: Forward = Forward(state.evaluated, gradient=False)
        if fast:
            self.student, self.teacher = networks(state, compile)
        self.graph = torch.cuda.CUDAGraph()
        for rng in (program.rng, program.batches.repeated):
            if rng is not None:
                self.graph.register_generator_state(rng.generator)
        with _restored(state):
            self._warm_up()
            with torch.cuda.graph(self.graph):
                self.loss = self._differentiate()

    def __call__(self, program: Program, state: State) -> None:
        picked = begin(program, state.step)
        for rows, new in zip(self.picked, picked, strict=True):
            rows.copy_(new)
        self.w.fill_(program.plan.w[state.step])
        self.graph.replay()
        apply(program, state, self.picked, self.loss)

    def _differentiate(self) -> Loss:
        return differentiate(self.program, self.state, self.picked, self.w, self.student, self.teacher)

    def _warm_up(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                self._differentiate()
        torch.cuda.current_stream().wait_stream(side)
        self.state.optimizer.zero_grad()  # so that the graph's backward makes gradients instead of adding to them


@contextmanager
def _restored(state: State) -> Iterator[None]:
    """Forwards inside leave no trace in the networks' statistics."""
    modules = [state.student, *([state.ema.module] if state.ema else [])]
    buffers = [buffer for module in modules for buffer in module.buffers()]
    before = [buffer.clone() for buffer in buffers]
    yield
    for buffer, old in zip(buffers, before, strict=True):
        buffer.copy_(old)
