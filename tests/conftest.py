"""One thread for every test: small tensors gain nothing from more, and parallel test processes would fight."""

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A test neither finds what others decoded nor leaves anything in the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("ICT_CACHE", str(folder))
    return folder


@pytest.fixture
def no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ICT_DATA", raising=False)
