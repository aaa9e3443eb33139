"""The origin of a result: machine, versions, commit and time."""

import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from ict import __version__


def provenance(device: torch.device) -> dict[str, Any]:
    return {
        "device": device.type,
        "machine": torch.cuda.get_device_name(device) if device.type == "cuda" else processor(),
        "threads": torch.get_num_threads(),
        "versions": {"ict": __version__, "python": platform.python_version(), "torch": torch.__version__},
        "commit": _commit(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The CPU model on Linux, otherwise its architecture. Recorded because float results differ between CPUs."""
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    names = (value.strip() for key, _, value in (line.partition(":") for line in lines) if key.strip() == "model name")
    return next(filter(None, names), platform.processor() or platform.machine())


def _commit() -> str | None:
    """The commit of this package's checkout, with a '+' if files differ from it; None if it is not a checkout."""
    source = Path(__file__).parent.parent  # the package's folder

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", source, *arguments], capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if git("ls-files", "--error-unmatch", "__init__.py") is None:  # installed inside the checkout of another project
        return None
    commit = git("rev-parse", "HEAD")
    return commit and commit + ("+" if git("status", "--porcelain", "--", ".") else "")
