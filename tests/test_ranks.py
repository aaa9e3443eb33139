"""K ranks on a batch compute what one computes on it; what one of them does not survive, the run does."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ict.engine.dist import Ranks
from ict.run import train
from tests.ranks import CUT, STOPPED_AT, cases, launch, trained
from tests.tiny import crash_at

ONE = Ranks()
Outcome = dict[str, dict[str, Tensor]]


def finished(n: int, *arguments: str) -> None:
    for process in launch(n, ["tests.ranks", *arguments]):
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors


@pytest.fixture(autouse=True)
def in_double_precision() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that two ranks did."""
    folder = tmp_path_factory.mktemp("two")
    torch.set_default_dtype(torch.float64)
    arguments = {k: v for k, v in CUT.items() if k not in ("recipe", "checkpoint_seconds")}
    crash_at(12, folder / "of one", CUT["recipe"], **arguments)
    finished(2, str(folder))
    return folder


def close(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", list(cases()))
def test_two_ranks_are_one(name: str, two: Path) -> None:
    close(torch.load(two / "out.pt", weights_only=True)[name], trained(name, ONE))


def test_four_ranks_are_one(tmp_path: Path) -> None:
    names = ["ict", "sntg", "labels joined"]
    finished(4, str(tmp_path), *names)
    found = torch.load(tmp_path / "out.pt", weights_only=True)
    for name in names:
        close(found[name], trained(name, ONE))


@pytest.mark.parametrize("cut", ["of two", "of one"])
def test_a_run_goes_on_with_another_number_of_ranks(cut: str, two: Path) -> None:
    resumed = train(out=two / cut, resume=True, **CUT)
    whole = train(**CUT)
    close(resumed.network.state_dict(), whole.network.state_dict())
    assert resumed.result["test_error"] == whole.result["test_error"]
    assert resumed.result["ranks"] == {"of two": 1, "of one": 2}[cut]
    assert resumed.result["resumed_from"] == [{"of two": STOPPED_AT, "of one": 11}[cut]]
