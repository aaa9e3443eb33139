"""Networks in fast mode on a GPU: in bfloat16, fused or compiled, several batches in one forward.

All code for compilation is in this file.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ict.contract import Batch
from ict.engine.fast.fused_layers import Fused, does_as
from ict.engine.forward import Forward
from ict.engine.state import State
from ict.networks.batch_norm import can_join, joined
from ict.networks.staged import Staged


class FastForward(Forward):
    """A network in bfloat16 and channels last. Parts go through it in one forward, each normalized separately.

    Networks made of stages run fused. Others are compiled if `compile`.
    """

    def __init__(
        self, module: nn.Module, gradient: bool = True, *, compile: bool = False, beside: bool = False
    ) -> None:
        """`beside`: the first forward of a batch's own tensors may run in parallel to work queued after the batch."""
        super().__init__(module, gradient)
        self.stream = torch.cuda.Stream() if beside else None
        self.received_at = torch.cuda.Event() if beside else None
        self.given: frozenset[int] = frozenset()  # addresses of the batch's tensors
        for parameter in module.parameters():
            if parameter.dim() == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
        self.fused = Fused(module) if isinstance(module, Staged) and _is_a_chain(module) else None
        self.compile, self.can_join = compile, can_join(module)
        self.precise_weights: dict[str, Tensor] | None = None  # while forwards are in float32
        self._compiled: dict[str, Any] = {}

    @contextmanager
    def in_line(self) -> Iterator[None]:
        """Use one stream inside: libraries time their kernels then, to choose among them."""
        stream, self.stream = self.stream, None
        asides = [self.fused.aside] if self.fused else []
        for aside in asides:
            aside.off = True
        try:
            yield
        finally:
            self.stream = stream
            for aside in asides:
                aside.off = False

    def received(self, batch: Batch) -> None:
        """Record that the batch is ready from here on."""
        self.given = frozenset(x.untyped_storage().data_ptr() for x in (batch.x, *batch.u))
        if self.received_at is not None:
            self.received_at.record()

    def each(self, *parts: Tensor) -> tuple[Tensor, ...]:
        return self._together(self, parts)

    def features(self, *parts: Tensor) -> tuple[Tensor, ...]:
        return self._together(lambda x: super(FastForward, self).features(x)[0], parts)

    @contextmanager
    def same_masks(self) -> Iterator[None]:
        compile, self.compile = self.compile, self.compile and not self._dropouts()  # compiled code ignores the masks
        try:
            with super().same_masks():
                yield
        finally:
            self.compile = compile

    def beside(self, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if self._masked or not self._frozen or not self.can_join:
            return super().beside(x, v)
        with self._usual():
            z_x, z_v = self._joined(self, (x, v), still=1)
        return z_x, z_v

    @contextmanager
    def precise(self) -> Iterator[None]:
        """Float32 forwards use contiguous copies of the weights: the library's convolutions are faster with them."""
        self.precise_weights = {name: p.contiguous() for name, p in self.module.named_parameters() if p.dim() == 4}
        try:
            with _full_products():
                yield
        finally:
            self.precise_weights = None

    def along(self, x: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        """Half precision if the norms are fused and on a GPU, else float32, which torch's batch norm needs for this."""
        if self.fused is not None and self.fused.norms_are_fused and x.is_cuda:
            return super().along(x, d)
        with self.precise():
            return super().along(x, d)

    def back(self, z: Tensor, x: Tensor, v: Tensor) -> Tensor:
        if self.fused is None:
            return super().back(z, x, v)
        with self.fused.aside.idle():
            return super().back(z, x, v)

    def _together(self, function: Callable[[Tensor], Tensor], parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if len(parts) < 2 or not self.can_join:
            return tuple(function(part) for part in parts)
        return self._joined(function, parts)

    def _joined(
        self, function: Callable[[Tensor], Tensor], parts: tuple[Tensor, ...], still: int = 0
    ) -> tuple[Tensor, ...]:
        sizes = tuple(len(part) for part in parts)
        with joined(self.module, sizes, still):
            together: Any = function(torch.cat(parts))
            return tuple(together.split(sizes))

    def _run(self, function: Callable[..., Tensor], x: Tensor, **options: Any) -> Tensor:
        if self.precise_weights is not None:
            return super()._run(self._contiguous if function is self.module else function, x, **options)
        given, self.given = self.given, frozenset()  # a second forward would race with the first for statistics
        if self.stream is None or self.received_at is None or x.untyped_storage().data_ptr() not in given:
            return self._run_half(function, x, **options)
        self.stream.wait_event(self.received_at)
        with torch.cuda.stream(self.stream):
            out = self._run_half(function, x, **options)
        torch.cuda.current_stream().wait_stream(self.stream)
        return out

    def _contiguous(self, x: Tensor, **options: Any) -> Tensor:
        out: Tensor = functional_call(self.module, self.precise_weights or {}, (x,), options)
        return out

    def _run_half(self, function: Callable[..., Tensor], x: Tensor, **options: Any) -> Tensor:
        if x.dim() == 4 and self.fused is None:
            x = x.contiguous(memory_format=torch.channels_last)
        with torch.autocast("cuda", torch.bfloat16, enabled=x.is_cuda):
            return super()._run(self._quick(function), x, **options).float()

    def _quick(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        name = getattr(function, "__name__", "forward")
        quick: Callable[..., Tensor] = function
        if self.fused is not None:
            quick = getattr(self.fused, name)
        elif self.compile:
            if name not in self._compiled:
                self._compiled[name] = torch.compile(function, dynamic=False)
            quick = self._compiled[name]
        return quick


def _is_a_chain(network: Staged) -> bool:
    """Whether the network only runs its stages."""
    return does_as(network, Staged) and all(
        getattr(type(network), name) is getattr(Staged, name) for name in ("features", "head")
    )


@contextmanager
def _full_products() -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def networks(state: State, compile: bool) -> tuple[FastForward, FastForward]:
    """Student and teacher for the fast step."""
    student = FastForward(state.student, compile=compile)
    beside = state.ema is not None and state.first_bad.is_cuda  # without an average both write the same statistics
    return student, FastForward(state.evaluated, gradient=False, compile=compile, beside=beside)


def evaluator(network: nn.Module) -> Callable[[Tensor], Tensor]:
    """A function that predicts like the network, in half precision."""
    return FastForward(network, gradient=False)
