"""K ranks on a batch compute what one computes on it; what one of them does not survive, the run does."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ict import cli
from ict.base.errors import RankLost, UserError
from ict.engine import device, distributed
from ict.engine.distributed import Ranks
from ict.engine.step import begin
from ict.experiment import run
from ict.experiment.prepare import load_data, prepare
from ict.experiment.run import train
from ict.experiment.run_folder import Folder
from ict.recipes.recipe import change
from tests.ranks import CUT, FOR_FOUR, LOST, STOPPED_AT, cases, trained
from tests.tiny import crash_at, tiny

pytestmark = pytest.mark.xdist_group("ranks")  # they share what the ranks did
ONE = Ranks()
Outcome = dict[str, dict[str, Tensor]]


@pytest.fixture(autouse=True)
def in_double_precision() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that two and four ranks did."""
    folder = tmp_path_factory.mktemp("ranks")
    torch.set_default_dtype(torch.float64)
    arguments = {k: v for k, v in CUT.items() if k not in ("recipe", "checkpoint_seconds")}
    crash_at(12, folder / "of one", CUT["recipe"], **arguments)
    ranks = subprocess.run([sys.executable, "-m", "tests.ranks", folder], capture_output=True, text=True)
    codes = json.loads((folder / "codes.json").read_text())
    assert codes["two"] == [0, 0] and codes["four"] == [0] * 4, ranks.stderr
    assert codes["killed"] == [LOST, -signal.SIGKILL], "the other one does not wait for ever"
    assert codes["refused"] == [2, 2]
    return folder


def test_those_that_share_what_the_ranks_did_are_in_one_group(request: pytest.FixtureRequest) -> None:
    """Or two workers would each have the ranks do it; releases of pytest and pytest-xdist must agree for that."""
    if not request.config.getoption("loadgroup", default=False):
        pytest.skip("not run by workers that take groups")
    assert request.node.nodeid.endswith("@ranks")


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", list(cases()))
def test_two_ranks_are_one(name: str, done: Path) -> None:
    assert_equal(torch.load(done / "2.pt", weights_only=True)[name], trained(name, ONE))


@pytest.mark.parametrize("name", FOR_FOUR)
def test_four_ranks_are_one(name: str, done: Path) -> None:
    assert_equal(torch.load(done / "4.pt", weights_only=True)[name], trained(name, ONE))


@pytest.mark.parametrize(("cut", "at"), [("of two", STOPPED_AT), ("killed", STOPPED_AT), ("of one", 11)])
def test_a_run_goes_on_with_another_number_of_ranks(cut: str, at: int, done: Path) -> None:
    resumed = train(out=done / cut, resume=True, **CUT)
    whole = train(**CUT)
    assert_equal(resumed.network.state_dict(), whole.network.state_dict())
    assert resumed.result["test_error"] == whole.result["test_error"]
    assert resumed.result["ranks"] == (2 if cut == "of one" else 1)
    assert resumed.result["resumed_from"] == [at]
    metrics, expected = (Folder(done / each).read_metrics() for each in (cut, "of one"))
    assert [record["step"] for record in metrics] == [record["step"] for record in expected]


def test_a_mistake_is_told_once_and_leaves_nothing(done: Path) -> None:
    said = (done / "said by 0").read_text()
    assert said == "error: train.labeled_batch is 25: 2 ranks share it, so their number must divide it.\n"
    assert (done / "said by 1").read_text() == "" and not (done / "refused").exists()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["train.unlabeled_batch=9"], "train.unlabeled_batch is 9: 2 ranks share it"),
        ([], "train.pair_groups is 1: 2 ranks share a batch.*set train.pair_groups to 2"),
    ],
)
def test_what_ranks_cannot_share_is_one_sentence(
    settings: list[str], says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(distributed, "joined", lambda: Ranks(0, 2))
    with pytest.raises(UserError, match=says):
        train(tiny(), settings=settings, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"RANK": "0"}, "RANK is set but WORLD_SIZE is not"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is set but RANK is not"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "RANK is set but MASTER_ADDR is not"),
        ({"RANK": "two", "WORLD_SIZE": "2", "MASTER_ADDR": "here", "MASTER_PORT": "1"}, "RANK is 'two'"),
        ({"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "here", "MASTER_PORT": "1"}, "RANK is 2 and WORLD_SIZE 2"),
    ],
)
def test_a_wrong_environment_is_one_sentence(
    variables: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=says):
        distributed.joined()


def test_other_commands_and_options_say_that_they_are_for_one_process_or_for_several(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError, match="--sync-bn is for several ranks"):
        train(tiny(), sync_bn=True)
    with pytest.raises(UserError, match="mode fast normalizes each rank's part"):
        run._check_sync(True, True, Ranks(0, 2, launched=True))
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(sys, "argv", ["ict", "list"])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    assert "cannot run under torchrun: only ict train can." in capsys.readouterr().err


def test_a_lost_rank_is_one_sentence_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lose(*_: object, **__: object) -> None:
        raise RankLost("the ranks lost each other.")

    monkeypatch.setattr(run, "train", lose)
    monkeypatch.setattr(sys, "argv", ["ict", "train", "digits-100/ict"])
    with pytest.raises(SystemExit, match="1"):
        cli.main()
    error = capsys.readouterr().err
    assert error.startswith("error: the ranks lost each other.") and "--resume" in error and error.count("\n") == 1


def test_dropout_differs_by_rank_and_the_first_is_as_if_alone() -> None:
    recipe = change(tiny(), ["train.pair_groups=2"])
    drawn = []
    with device.untouched_globals(torch.device("cpu")):
        for ranks in (Ranks(), Ranks(0, 2), Ranks(1, 2)):
            job = prepare(recipe, 3, load_data(recipe, 3), None, torch.device("cpu"), ranks=ranks)
            begin(job.program, 5)
            drawn.append((torch.rand(4).tolist(), job.program.rng.beta(1.0).item()))
    (alone, lam), (first, lam_0), (second, lam_1) = drawn
    assert alone == first != second and lam == lam_0 == lam_1


def test_messages_are_few_and_of_one_kind_of_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "_BUCKET", 10)
    sizes = [(4, torch.float32), (5, torch.float64), (6, torch.float32), (1, torch.float32), (30, torch.float32)]
    tensors = [torch.zeros(n, dtype=dtype) for n, dtype in sizes]
    found = [[(len(t), t.dtype) for t in bucket] for bucket in distributed._buckets(tensors)]
    assert found == [[sizes[0], sizes[2]], [sizes[1]], [sizes[3]], [sizes[4]]]
