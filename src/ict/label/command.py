"""`ict label`: opens the source, the file of answers, the process that learns, and the page."""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from ict.base.files import check_outside
from ict.data.user.answers import labels_in
from ict.label.fit_now import FitNow
from ict.label.learning import Learning, Material
from ict.label.log import AnswerLog
from ict.label.server import serve
from ict.label.service import Service
from ict.label.session import Session
from ict.label.source import open_source

if TYPE_CHECKING:  # it imports torch
    from ict.engine.device import Device


def run(
    path: Path,
    labels: Path,
    classes: Sequence[str],
    *,
    target: float | None,
    port: int,
    browser: bool,
    label_column: str | None,
    text_column: str | None,
    backbone: str,
    seed: int,
    device: "Device",
    say: Callable[[str], None],
) -> None:
    check_outside(labels, path, "--labels")
    known = {*(" ".join(name.split()) for name in classes), *labels_in(labels)}
    source = open_source(path, label_column, text_column, known)
    words = [str(path), "--labels", str(labels)]
    options = {"--label-column": label_column, "--text-column": text_column}
    words += [word for name, value in options.items() if value is not None for word in (name, value)]
    words += ["--backbone", backbone] if backbone != "auto" else []
    material = Material(path, label_column, text_column, backbone, device, seed)
    with AnswerLog(labels) as log:
        session = Session(
            source.names, log, given=source.given, classes=classes, seed=seed, target=target, digest=source.digest
        )
        with closing(FitNow(words)) as fit, closing(Learning(material)) as learning:
            service = Service(source, session, learning, fit)
            serve(service, learning, port, say, browser)
        say(service.summary())
