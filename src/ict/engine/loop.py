"""The training loop: when to log, validate, save and stop. The host reads from the device only then."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from torch import Tensor, nn
from torch.optim.swa_utils import update_bn

from ict.base.errors import Diverged
from ict.base.rng import Rng, Use, default_generator, fold
from ict.data.dataset import Examples
from ict.engine.checkpoint import Saver
from ict.engine.evaluate import confidence, error
from ict.engine.input_transform import InputTransform
from ict.engine.settings import Eval, Swa
from ict.engine.state import Best, State
from ict.engine.step import Program, update

_UPDATES_UNASKED = 8  # updates on GPUs, of milliseconds each, between the messages in which ranks agree to stop

Record = dict[str, Any]


@dataclass(frozen=True)
class Watch:
    """The data for metrics during training: the validation set and unlabeled examples, never the test set."""

    valid: Examples
    transform: InputTransform
    settings: Eval
    evaluator: Callable[[nn.Module], Callable[[Tensor], Tensor]] | None = None  # a faster way to run a network
    unlabeled: Tensor | None = None  # stored inputs on which the evaluated network's confidence is logged


def train(
    program: Program,
    state: State,
    watch: Watch,
    log: Callable[[Record], None],
    saver: Saver | None = None,
    update: Callable[[Program, State], None] = update,
) -> None:
    """Run all remaining updates. Ctrl-C or SIGTERM saves after the current update and raises KeyboardInterrupt.

    Of several ranks only the first validates and logs. All ranks stop at the same step.
    """
    ranks = program.ranks
    asked_every = _UPDATES_UNASKED if ranks.launched and program.rng.device.type == "cuda" else 1
    began = time.monotonic() - state.seconds
    n_steps, every, log_every = len(program.plan), watch.settings.every, watch.settings.log_every
    last_record: Record = {}
    with _stop_requests(insistent=ranks.launched) as stop_requested:
        while state.step < n_steps:
            update(program, state)
            last = state.step == n_steps
            evaluate = last or state.step % every == 0
            if evaluate or state.step % log_every == 0:
                _check_finite(state, last_record)
                last_record = _read_metrics(program, state)
                if evaluate and len(watch.valid):
                    last_record |= _validate(program, state, watch)
                if evaluate and watch.unlabeled is not None:
                    mean = confidence(state.evaluated, watch.unlabeled, watch.transform, watch.settings.batch)
                    last_record |= {"confidence": mean}
                state.seconds = time.monotonic() - began
                if ranks.first:
                    log(last_record | {"seconds": round(state.seconds, 3)})
            stopping = state.step % asked_every == 0 and ranks.any(stop_requested() > 0)
            if saver is not None and (last or stopping or saver.due()):
                _check_finite(state, last_record)
                state.seconds = time.monotonic() - began
                saver.save(state.step, state.to_dict())
            if stopping:
                with ranks.together():
                    pass  # a launcher kills all ranks once one has ended, so none may leave before the save
                raise KeyboardInterrupt(*filter(None, [stop_requested()]))


def _check_finite(state: State, last_record: Record) -> None:
    bad = int(state.first_bad)
    if bad < 0:
        return
    metrics = ", ".join(f"{k} {v:.4g}" for k, v in last_record.items()) or "none"
    raise Diverged(
        f"the loss was not finite at step {bad} (last metrics: {metrics}); "
        "try a smaller optimizer.lr or train.weight, or a longer train.rampup."
    )


def _read_metrics(program: Program, state: State) -> Record:
    means = {name: float(value) / state.n_summed for name, value in state.sums.items()}
    state.sums, state.n_summed = {}, 0
    step = state.step - 1
    return {"step": state.step, "lr": program.plan.lr[step], "w": program.plan.w[step], **means}


def _validate(program: Program, state: State, watch: Watch) -> Record:
    def valid_error(network: Any) -> float:
        # if validation is augmented, student and teacher get the same crops
        augmented = watch.settings.augmented_valid
        rng = Rng(program.rng.device, fold(program.seed, Use.VALID, state.step)) if augmented else None
        run = watch.evaluator and watch.evaluator(network)
        return program.ranks.by_first(
            lambda: error(network, watch.valid, watch.transform, watch.settings.batch, rng, run)
        )

    record = {"valid_error_student": valid_error(state.student)}
    if state.ema:
        record["valid_error_teacher"] = valid_error(state.ema.module)
    current = record["valid_error_teacher" if state.ema else "valid_error_student"]
    if state.best is None or current < state.best.error:
        weights = {k: v.detach().clone() for k, v in state.evaluated.state_dict().items()}
        state.best = Best(current, state.step, weights)
    return record


@contextmanager
def _stop_requests(insistent: bool = False) -> Iterator[Callable[[], int]]:
    """Turn the first SIGINT, SIGTERM or SIGHUP into a request: no update is cut in two. The second acts at once.

    Yields a function that returns the signal's number, 0 before there was one.

    `insistent`: no signal acts at once, since a launcher repeats signals that the process already got.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: 0
        return
    received: list[int] = []  # not threading.Event: a signal that arrives inside its set() would deadlock
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    if before[signal.SIGHUP] is signal.SIG_IGN:  # under nohup
        del before[signal.SIGHUP]

    def request(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        received.append(number)
        if not insistent:
            signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, request)
    try:
        yield lambda: received[0] if received else 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def final_network(program: Program, state: State, settings: Swa) -> nn.Module:
    """The network that a run ends with: the mean of the weights under SWA, else the evaluated network.

    No forward pass ever ran with the mean's weights, so its batch-norm statistics are computed here from training
    batches.
    """
    if state.swa is None:
        return state.evaluated
    network, rng = state.swa.module, program.rng
    default_generator(rng.device).manual_seed(fold(program.seed, Use.SWA, *program.ranks.key))
    rng.reseed(fold(program.seed, Use.SWA, 1))
    batches = (program.batches.at(i, rng) for i in range(settings.batches))
    inputs = (batch.u[0] if batch.u else batch.x for batch in batches)
    update_bn(inputs, network)
    program.ranks.average_(b for b in network.buffers() if b.is_floating_point())
    return network
