"""A run's metrics as TensorBoard shows them, beside the metrics.jsonl that every run writes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ict.base.errors import UserError


@contextmanager
def tensorboard(folder: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that takes a record of metrics and writes it into `folder` / tensorboard.

    The writer is made at the first record, whose step is where a resumed run takes over: TensorBoard drops what an
    interrupted run wrote from that step on. Each record is flushed, since a checkpoint may come right after it and a
    run that goes on from there writes no earlier point again.
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
