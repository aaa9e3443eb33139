"""One thread for every test: small tensors gain nothing from more, and parallel test processes would fight."""

import os
import signal
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

torch.set_num_threads(1)

# A shell starts background jobs and nohup starts its own with these ignored, which children inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A test neither finds what others decoded nor leaves anything in the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("ICT_CACHE", str(folder))
    return folder


@pytest.fixture
def no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ICT_DATA", raising=False)
