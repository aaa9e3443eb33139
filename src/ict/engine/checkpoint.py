"""Checkpoints: written atomically, verified by a hash; the two newest stay.

A file is a magic line, the SHA-256 of the rest, and `torch.save` bytes that are read with weights_only=True. Its
"owner" identifies the run to which it belongs.
"""

import hashlib
import io
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ict.base.errors import UserError
from ict.base.files import write_atomic
from ict.base.reading import check_file, reading

_MAGIC = b"ict checkpoint 1\n"
_KEPT = 2


def save(folder: Path, step: int, content: dict[str, Any]) -> None:
    """Write the checkpoint of a step and delete all but the newest two."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    payload = buffer.getvalue()
    write_atomic(folder / f"checkpoint-{step:09d}.pt", _MAGIC + hashlib.sha256(payload).digest() + payload)
    for old in _newest_first(folder)[_KEPT:]:
        old.unlink()


def load_latest(folder: Path, device: torch.device) -> dict[str, Any] | None:
    """The newest intact checkpoint. Damaged files and files of other programs are skipped with a warning."""
    for path in _newest_first(folder):
        try:
            return _read(path, device)
        except UserError as problem:
            warnings.warn(f"skipping {problem}", stacklevel=2)
    return None


def exists(folder: Path) -> bool:
    """Whether there is a checkpoint, whole or not."""
    return any(_newest_first(folder))


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint-*.pt"), reverse=True)


def _read(path: Path, device: torch.device) -> dict[str, Any]:
    check_file(path)
    with reading(path, "a checkpoint", "delete it"):
        content = path.read_bytes()
        start = len(_MAGIC) + hashlib.sha256().digest_size
        if not content.startswith(_MAGIC):
            raise ValueError("it is not one of this program")
        if hashlib.sha256(content[start:]).digest() != content[len(_MAGIC) : start]:
            raise ValueError("it is truncated or damaged")
        saved = torch.load(io.BytesIO(content[start:]), map_location=device, weights_only=True)
        if not isinstance(saved, dict):
            raise ValueError("it holds something else")
        return saved


class Saver:
    """Saves every `seconds`, less often if saving would take more than 2 % of the time. 0: after every update."""

    def __init__(self, folder: Path, seconds: float, owner: Mapping[str, Any] | None = None) -> None:
        """`owner`: identifies the run, and is written into each checkpoint."""
        self.folder, self.seconds, self.owner = folder, seconds, owner
        self._wait, self._last = seconds, time.monotonic()

    def due(self) -> bool:
        return time.monotonic() - self._last >= self._wait

    def save(self, step: int, content: dict[str, Any]) -> None:
        """Save a checkpoint. If that fails, as on a full disk, warn and go on: the earlier checkpoints stay."""
        began = time.monotonic()
        try:
            save(self.folder, step, content | ({"owner": dict(self.owner)} if self.owner else {}))
        except OSError as problem:
            kept = ", ".join(p.name for p in _newest_first(self.folder)) or "none so far"
            warnings.warn(
                f"no checkpoint written at step {step} in {self.folder} ({problem.strerror or problem}); "
                f"still intact: {kept}",
                stacklevel=2,
            )
        self._last = time.monotonic()
        self._wait = max(self.seconds, 50 * (self._last - began)) if self.seconds else 0
