"""The process that learns while a person answers: it reads the examples, then learns whenever it is asked to.

It has a lower priority than the page, and ends with it, however that ends.
"""

import multiprocessing
import os
import signal
import threading
import traceback
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from ict.base.errors import UserError, show_warning
from ict.label.rounds import Found, Request, Round

if TYPE_CHECKING:  # it imports torch
    from ict.engine.device import Device

_NICE = 10  # of 19: with work for one core, the page gets nine tenths of it


@dataclass(frozen=True)
class Material:
    """What to learn from, as `ict fit` reads it."""

    path: Path
    label_column: str | None = None
    text_column: str | None = None
    backbone: str = "auto"
    device: "Device" = "auto"
    seed: int = 0


@dataclass(frozen=True)
class Progress:
    """How many examples were read and embedded."""

    done: int
    total: int | None


@dataclass(frozen=True)
class Failed:
    """The process has ended. `is_mistake`: the sentence says what the user can do about it."""

    why: str
    is_mistake: bool = False


Message = Progress | Found | Round | Failed


class Learning:
    """The process, seen from the page."""

    def __init__(self, material: Material) -> None:
        context = multiprocessing.get_context("spawn")  # a forked torch can deadlock in its thread pool
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_learn, args=(theirs, material), daemon=True)
        self._process.start()
        theirs.close()  # otherwise the pipe would stay open when the process dies

    def ask(self, request: Request) -> None:
        """Ask for a round; only after `Found`, and not before the round before has come."""
        with suppress(OSError):  # its end is a message too
            self._pipe.send(request)

    def receive(self) -> Message:
        """Wait for the next message."""
        try:
            message: Message = self._pipe.recv()
        except (EOFError, OSError):
            return Failed("the process that learns was killed, perhaps for lack of memory; answers are still saved.")
        return message

    def close(self) -> None:
        self._process.kill()  # it writes nothing but the cache, whose files are whole or absent
        self._process.join()


def _learn(pipe: Connection, material: Material) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the page too, which ends this process
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(OSError):
        os.nice(_NICE)
    try:
        _read_and_learn(pipe, material)
    except UserError as problem:
        _say(pipe, Failed(str(problem), is_mistake=True))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the page has ended
    except BaseException as problem:
        traceback.print_exc()
        _say(pipe, Failed(f"learning failed ({type(problem).__name__}: {problem}); answers are still saved."))


def _read_and_learn(pipe: Connection, material: Material) -> None:
    import warnings

    from ict.data.user.read import read_data
    from ict.estimators import AUTO
    from ict.fit.chosen_backbone import choose_backbone
    from ict.label.learner import Learner

    warnings.showwarning = show_warning
    embed = choose_backbone(material.path, material.backbone, AUTO, None, material.text_column, material.device)
    data = read_data(
        material.path,
        label_column=material.label_column,
        skip_bad=True,
        progress=lambda _, done, total: pipe.send(Progress(done, total)),
        embed=embed,
        text_column=material.text_column,
        unlabeled=True,
        digests=True,
    )
    remarks = tuple(remark for remark in data.remarks if "no example has a label" not in remark)
    pipe.send(Found(data.names, data.digests, remarks))
    n_beside = prod(data.beside) if data.beside else 0
    learner = Learner(data.x, embedded=embed is not None, n_beside=n_beside, units=data.units, seed=material.seed)
    while True:
        pipe.send(learner.round(pipe.recv()))


def _say(pipe: Connection, message: Message) -> None:
    with suppress(OSError):
        pipe.send(message)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)
