"""Studies on SQLite and on a PostgreSQL server of our own: every trial once, whoever dies, and no password shown."""

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState

from ict.base.errors import UserError
from ict.experiment.run import train
from ict.studies.storage import Storage, StorageError
from ict.studies.study import Claim, Lost, Slot, Study
from ict.studies.trial import TrialSnapshot
from tests.postgres import Server, find_binaries, server
from tests.study_killer import SPACE, killed_plan
from tests.test_cli import ict, imported_by

pytestmark = pytest.mark.xdist_group("study")  # they share one server
Join = Callable[[], Study]
X = {"x": FloatDistribution(0.0, 1.0)}


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server is installed: initdb and postgres are missing")
    with server(binaries) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'study.db'}"
    running: Server = request.getfixturevalue("postgres")
    return running.address


@pytest.fixture
def join(address: str, request: pytest.FixtureRequest) -> Iterator[Join]:
    """Join the test's own study, each time as another worker would."""
    joined = []

    def made() -> Study:
        study = Study(Storage(address), request.node.name, grace=30.0)
        joined.append(study)
        study.open({"what": 1})
        return study

    yield made
    for study in joined:
        study.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that workers read, to be moved by hand."""
    now = [1000.0]
    monkeypatch.setattr("ict.studies.study.time.monotonic", lambda: now[0])
    return now


def random(number: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.RandomSampler(number)


def claim(study: Study) -> Claim:
    made = study.claim(X, random, {})
    assert made is not None
    return made


def outcomes(study: Study) -> dict[str, int]:
    return dict(Counter(trial.outcome for trial in study.snapshots()))


def at_once(n: int, work: Callable[[], None]) -> None:
    """Run `work` in threads that start together; locks and connections do not know threads from processes."""
    barrier, problems = threading.Barrier(n), []

    def run() -> None:
        barrier.wait()
        try:
            work()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems


def test_workers_that_come_at_once_make_each_trial_once_and_claim_each_once(join: Join) -> None:
    slots = [Slot({"x": i / 10}, {"cell": i}) for i in range(8)]
    claimed: list[TrialSnapshot] = []

    def work() -> None:
        study = join()
        study.fill(slots)
        while (made := study.claim(X, random, {})) is not None:
            claimed.append(made.snapshot)
            study.finish(made, "complete", made.snapshot.params["x"])

    at_once(4, work)
    assert sorted(seen.number for seen in claimed) == list(range(8))
    trials = join().snapshots()
    assert [trial.params["x"] for trial in trials] == [trial.value for trial in trials] == [i / 10 for i in range(8)]
    assert [trial.notes["cell"] for trial in trials] == list(range(8)) and outcomes(join()) == {"complete": 8}


def test_a_larger_study_takes_up_where_a_smaller_one_ended(join: Join) -> None:
    study = join()
    study.fill([Slot()] * 3)
    study.fill([Slot()] * 2)
    assert outcomes(study) == {"waiting": 3}
    study.fill([Slot()] * 5)
    assert outcomes(study) == {"waiting": 5}


def test_the_trial_of_a_silent_worker_is_run_again_and_counted_once(join: Join, clock: list[float]) -> None:
    first, second = join(), join()
    first.fill([Slot()])
    mine = claim(first)
    first.beat(mine, {"step": 7})
    assert second.claim(X, random, {}) is None
    clock[0] += 29
    assert second.claim(X, random, {}) is None, "silent, but not for long enough"
    clock[0] += 2
    theirs = claim(second)
    assert theirs.snapshot.number == mine.snapshot.number == 0 and theirs.snapshot.params == mine.snapshot.params
    for too_late in (
        lambda: first.beat(mine, {}),
        lambda: first.report(mine, 1, 0.5, None),
        lambda: first.finish(mine, "complete", 0.9),
        lambda: first.release(mine),
    ):
        with pytest.raises(Lost):
            too_late()
    second.finish(theirs, "complete", 0.1, result={"seed": 3})
    (trial,) = first.snapshots()
    assert trial.outcome == "complete" and trial.value == 0.1 and trial.notes["result"] == {"seed": 3}
    with pytest.raises(Lost):
        first.finish(mine, "failed", None)


def test_a_worker_that_beats_keeps_its_trial_however_long_it_takes(join: Join, clock: list[float]) -> None:
    first, second = join(), join()
    first.fill([Slot()])
    mine = claim(first)
    for _ in range(5):
        assert second.claim(X, random, {}) is None
        clock[0] += 29
        first.beat(mine, {"step": 1})  # no progress is no reason
    assert second.claim(X, random, {}) is None
    first.finish(mine, "complete", 0.5)
    assert outcomes(second) == {"complete": 1}


def test_a_worker_that_died_before_it_left_its_name_is_noticed_too(
    join: Join, address: str, clock: list[float], request: pytest.FixtureRequest
) -> None:
    study = join()
    study.fill([Slot()])
    storage = Storage(address)
    raw = storage.connect()
    assert optuna.load_study(study_name=request.node.name, storage=raw).ask().number == 0
    raw.engine.dispose()
    storage.close()
    assert study.claim(X, random, {}) is None
    clock[0] += 31
    assert claim(study).snapshot.number == 0 and outcomes(study) == {"running": 1}


def test_a_released_trial_goes_on_at_once_and_reports_no_step_twice(join: Join) -> None:
    first, second = join(), join()
    first.fill([Slot()])
    mine = claim(first)
    first.report(mine, 10, 0.5, None)
    first.release(mine)
    theirs = claim(second)
    second.report(theirs, 10, 0.4, None)  # a warning of Optuna's would be an error here
    second.report(theirs, 20, 0.3, None)
    assert second.snapshots()[0].curve == {10: 0.5, 20: 0.3}


def test_failed_cells_get_another_trial_and_others_do_not(join: Join) -> None:
    study = join()
    slots = [Slot(notes={"seed": seed}) for seed in range(4)]
    study.add_missing(slots)
    study.finish(claim(study), "complete", 0.1)
    study.finish(claim(study), "failed", None, error="why")
    claim(study)
    study.add_missing(slots)
    assert [(trial.notes["seed"], trial.outcome) for trial in study.snapshots()] == [
        (0, "complete"), (1, "failed"), (2, "running"), (3, "waiting"), (1, "waiting"),
    ]  # fmt: skip


def test_a_study_made_for_something_else_is_not_joined(
    join: Join, address: str, request: pytest.FixtureRequest
) -> None:
    join()
    with (
        Study(Storage(address), request.node.name, grace=30.0) as other,
        pytest.raises(UserError, match="was created for another what: choose another name with --study"),
    ):
        other.open({"what": 2})


def test_killed_workers_lose_no_trial_and_finish_none_twice(postgres: Server, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.study_killer", tmp_path],
        input=postgres.address,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    kills, finishes = json.loads(done.stdout)
    plan = killed_plan(postgres.address, tmp_path)
    with plan.study() as study:
        trials = study.snapshots()
    assert kills == len(trials) == 4
    assert finishes and len(finishes) == len(set(finishes)), "two workers handed in the same trial"
    assert all(trial.outcome == "complete" for trial in trials)
    assert sorted(str(trial.params) for trial in trials) == sorted(str(cell) for cell in SPACE.cells())
    assert any(trial.notes["result"]["resumed_from"] for trial in trials)
    for trial in trials:
        cell = plan.trial_run(trial)
        undisturbed = train(cell.recipe, seed=cell.seed, device="cpu", test=False).result
        assert trial.value == undisturbed["valid_error"]
        assert list(trial.curve) == [10, 20, 30, 40]


@pytest.mark.parametrize("address", ["postgres"], indirect=True)
def test_a_server_that_is_away_for_a_moment_is_waited_for(postgres: Server, join: Join) -> None:
    study = join()
    study.fill([Slot()])
    mine = claim(study)
    postgres.stop()
    try:
        with pytest.raises(StorageError, match="cannot be used"):
            study.beat(mine, {})
    finally:
        postgres.start()
    study.beat(mine, {"step": 3})
    study.finish(mine, "complete", 0.25)
    assert [(t.outcome, t.value, t.notes["progress"]["step"]) for t in study.snapshots()] == [("complete", 0.25, 3)]


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("postgresql://worker:{secret}@127.0.0.1:1/db", "postgresql://127.0.0.1:1/db cannot be used"),
        ("postgresql://worker:{secret}@/db?host=/nowhere", "postgresql:///db cannot be used"),
        ("postgresql://worker@/db?host=/nowhere&password={secret}&{secret}=1", "cannot be used"),
        ("postgresql://worker:{secret}:@host:{secret}/db", "cannot be read"),
        ("postgresql://worker:x@{secret}@host/db", "more than one @"),
        ("mysql://worker:{secret}@host/db", "neither a SQLite file nor a PostgreSQL server"),
        ("{secret}", "cannot be read"),
        ("sqlite://", "neither a SQLite file nor"),
        ("sqlite:////proc/nowhere/study.db", "/proc/nowhere/study.db cannot be used"),
    ],
)
def test_a_wrong_address_is_told_in_a_sentence_without_its_password(
    address: str,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ICT_STORAGE", address.format(secret="topsecret"))
    assert ict(monkeypatch, "search", "digits-100/ict") == 2
    said = capsys.readouterr()
    assert says in said.err and "topsecret" not in said.err + caplog.text and said.out == ""
    assert said.err.count("\n") == 1 and not list(tmp_path.iterdir())


def test_a_wrong_password_is_not_shown(
    postgres: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = postgres.address.replace("s3cret", "topsecret")
    assert ict(monkeypatch, "trials", "digits-100/ict", "--storage", wrong) == 2
    said = capsys.readouterr()
    assert "password authentication failed" in said.err and "topsecret" not in said.err and said.out == ""


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database" * 100)
    with pytest.raises(StorageError, match=r"notes\.txt cannot be used: file is not a database"):
        Study(Storage(f"sqlite:///{tmp_path / 'notes.txt'}"), "x", 1.0)


@pytest.mark.parametrize("words", [["search", "digits-100/ict"], ["trials", "digits-100/ict"]])
def test_without_optuna_the_extra_is_named(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert ict(monkeypatch, *words) == 2
    assert "pip install 'ict-ssl[search]'" in capsys.readouterr().err


def test_a_comparison_needs_no_optuna() -> None:
    loaded = imported_by("import ict.paper.compare, ict.experiment.tensorboard, ict.studies.report")
    assert not loaded & {"optuna", "tensorboard"}


def test_states_are_those_of_optuna() -> None:
    """A state that we do not know would be lost in a table."""
    from ict.studies.study import _OUTCOMES

    assert set(_OUTCOMES) == set(TrialState)
