"""Writes a run's metrics for TensorBoard, in addition to metrics.jsonl."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ict.base.errors import UserError


@contextmanager
def tensorboard(folder: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yields a function that writes a record of metrics into `folder` / tensorboard.

    The writer is created at the first record. In a resumed run TensorBoard then drops what the interrupted run wrote
    from that step on. Each record is flushed, since a checkpoint may follow directly, and a run resumed from it does
    not write earlier points again.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError("--tensorboard needs a package that is missing: pip install 'ict-ssl[tensorboard]'.") from None
    writer: SummaryWriter | None = None
    with ExitStack() as closing:

        def write(record: dict[str, Any]) -> None:
            nonlocal writer
            step = record["step"]
            if writer is None:
                writer = closing.enter_context(SummaryWriter(str(folder / "tensorboard"), purge_step=step))
            for name, value in record.items():
                if name != "step":
                    writer.add_scalar(name, value, step)
            writer.flush()

        yield write
