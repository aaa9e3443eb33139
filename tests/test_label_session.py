"""Labeling without a browser: what is asked, what counts, what is on disk, and what survives."""

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import cohen_kappa_score

from ict.base.errors import CannotWrite, FolderInUse, UserError
from ict.data.user.answers import HEADER, read_answers
from ict.label.estimate import History, labels_for_a_point
from ict.label.learner import Learner
from ict.label.log import AnswerLog
from ict.label.queue import Queue
from ict.label.rounds import Found, Request, Round
from ict.label.session import Session

NAMES = [f"{i}.jpg" for i in range(200)]


def digest(row: int) -> str:
    return f"digest {row}"


def session(log: AnswerLog, names: list[str] = NAMES, found: bool = True, **options: Any) -> Session:
    made = Session(names, log, **options)
    if found:
        made.found(Found(tuple(names), tuple(map(digest, range(len(names))))))
    return made


def learned(order: list[int], guesses: list[int], n_labels: int = 9, agreement: float | None = None) -> Round:
    chances = np.full(len(guesses), 0.5)
    return Round(n_labels, np.array(order), (), ("cat", "dog"), np.array(guesses), chances, agreement)


def lines(path: Path) -> list[tuple[str, str, str]]:
    return [(one.example, one.label, one.kind) for one in read_answers(path)[0]]


def test_every_fifth_question_is_a_check_and_the_others_are_suggested(tmp_path: Path) -> None:
    with AnswerLog(tmp_path / "labels.csv") as log:
        one = session(log)
        free = [row for row in range(len(NAMES)) if one.kind(row) == "suggested"]
        order = free[::-1][:30]
        one.learned(learned(order, [0] * len(NAMES)))
        kinds, asked = [], []
        for _ in range(40):
            row = one.question()
            assert row is not None
            kinds.append(one.kind(row))
            asked += [row] if kinds[-1] == "suggested" else []
            one.answer([row], "cat")
        assert kinds == (["suggested"] * 4 + ["random"]) * 8
        assert asked[:30] == order and set(asked[30:]) < set(free)
        assert len(one.training()) == 32 and len(one.checks()) == 8


def test_checks_are_a_random_fifth_the_same_after_a_restart_and_after_files_are_added(tmp_path: Path) -> None:
    names = [f"{i}.jpg" for i in range(5000)]
    first, more = Queue(names, (), 0), Queue(sorted([*names, "new.jpg"]), (), 0)
    assert abs(len(first.checks) / 5000 - 0.2) < 4 * (0.2 * 0.8 / 5000) ** 0.5
    known = [sorted([*names, "new.jpg"])[row] for row in more.checks]
    assert [name for name in known if name != "new.jpg"] == [names[row] for row in first.checks]
    assert Queue(names, (), 1).checks != first.checks


def test_before_the_features_only_checks_are_asked_and_afterwards_suggestions_catch_up(tmp_path: Path) -> None:
    with AnswerLog(tmp_path / "labels.csv") as log:
        assert session(log, found=False).question() is None, "an answer needs a digest"
        one = session(log, found=False, digest=digest)
        for _ in range(3):
            row = one.question()
            assert row is not None and one.kind(row) == "random" and one.request() is None
            one.answer([row], "cat")
        one.found(Found(tuple(NAMES), tuple(map(digest, range(len(NAMES))))))
        assert one.request() is not None
        one.learned(Round(0, np.array([], np.int64), ()))
        kinds = []
        for _ in range(14):
            row = one.question()
            assert row is not None
            kinds.append(one.kind(row))
            one.answer([row], "dog")
        # The next two questions stay when suggestions arrive: their pictures are loaded already.
        assert Counter(kinds) == {"random": 2, "suggested": 12} and kinds[:2] == ["random", "random"]


def test_checks_are_never_learned_from_whatever_is_corrected(tmp_path: Path) -> None:
    with AnswerLog(tmp_path / "labels.csv") as log:
        one = session(log)
        check = one.queue.checks[0]
        other = next(row for row in range(len(NAMES)) if one.kind(row) == "suggested")
        for label in ("cat", "dog"):
            one.answer([check, other], label)
            assert one.checks() == {check: label} and one.training() == {other: label}
        assert one.undo() == [check, other] and one.question() in (check, other)
        assert not one.checks() and not one.training()
        one.skip(check)
        one.answer([check], "cat")
        assert one.checks() == {check: "cat"} and one.guess(check) is None
        request = one.request()
        assert request is not None and check in request.taken and other not in request.rows
        assert set(one.queue.checks) - {check} <= set(request.checks.tolist())


def test_the_file_has_every_answer_before_the_next_question(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    with AnswerLog(path) as log:
        one = session(log)
        rows = [row for row in range(20) if one.kind(row) == "suggested"][:5]
        one.answer([rows[0]], " cat ")
        one.skip(rows[1])
        one.flag(rows[2])
        one.answer(rows[3:5], "dog")
        assert one.undo() == rows[3:5]
        expected = [
            (NAMES[rows[0]], "cat", "suggested"),
            (NAMES[rows[1]], "", "skip"),
            (NAMES[rows[2]], "", "flag"),
            (NAMES[rows[3]], "dog", "suggested"),
            (NAMES[rows[4]], "dog", "suggested"),
            (NAMES[rows[3]], "", "undo"),
            (NAMES[rows[4]], "", "undo"),
        ]
        assert lines(path) == expected
        assert [found.digest for found in read_answers(path)[0]][:2] == [digest(rows[0]), digest(rows[1])]
        assert one.undo() == [rows[2]] and one.undo() == [rows[1]] and one.undo() == [rows[0]] and one.undo() == []


def test_a_restart_continues_with_the_answers_that_count(tmp_path: Path) -> None:
    path, time = tmp_path / "labels.csv", iter(range(100))
    with AnswerLog(path) as log:
        one = session(log, clock=lambda: f"2026-01-01T00:00:{next(time):02}Z")
        rows = [row for row in range(40) if one.kind(row) == "suggested"][:6]
        one.answer([rows[0]], "cat")
        one.answer(rows[1:4], "dog")
        one.answer([rows[0]], "dog")
        one.answer([rows[4]], "bird")
        one.undo()
        one.skip(rows[5])
    with AnswerLog(path) as log:
        again = session(log)
        assert again.training() == one.training() == dict.fromkeys(rows[:4], "dog")
        assert again.classes == ["cat", "dog", "bird"]
        assert not again.queue.is_closed(rows[4]) and again.queue.is_closed(rows[5])
        assert again.undo() == [rows[5]] and again.undo() == [rows[0]] and again.undo() == rows[1:4]


@pytest.mark.parametrize("cut", range(0, len(HEADER) + 40, 7))
def test_a_file_that_a_crash_cut_off_anywhere_is_continued(tmp_path: Path, cut: int) -> None:
    whole, path = tmp_path / "whole.csv", tmp_path / "labels.csv"
    with AnswerLog(whole) as log:
        session(log).answer([3], "cat")
    content = whole.read_bytes()
    path.write_bytes(content[:cut])
    with AnswerLog(path) as log:
        one = session(log)
        assert not one.answers
        one.answer([5], "dog")
    assert [line[:2] for line in lines(path)] == [(NAMES[5], "dog")]


def test_a_second_page_on_the_file_and_a_foreign_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    with AnswerLog(path), pytest.raises(FolderInUse, match=r"another page writes to .*labels.csv: use that one"):
        AnswerLog(path)
    AnswerLog(path).close()
    foreign = tmp_path / "table.csv"
    foreign.write_text("path,label\na.jpg,cat\n")
    with pytest.raises(UserError, match=r"table.csv is not a file of the labeling page"):
        AnswerLog(foreign)
    assert foreign.read_text() == "path,label\na.jpg,cat\n"


def test_an_editor_that_replaced_the_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    with AnswerLog(path) as log:
        one = session(log)
        one.answer([1], "cat")
        copy = tmp_path / "copy"
        copy.write_bytes(path.read_bytes())
        copy.replace(path)
        with pytest.raises(CannotWrite, match=r"another program changed .*labels.csv: start the page again"):
            one.answer([2], "cat")
        assert list(one.answers) == [1]


def test_a_full_disk_loses_nothing_and_answering_goes_on_when_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    code = """
import resource, signal, sys
from pathlib import Path
from ict.base.errors import CannotWrite
from ict.label.log import AnswerLog
from ict.label.session import Session
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
one = Session([f"{i}.jpg" for i in range(200)], AnswerLog(Path(sys.argv[1])))
one.answer([1], "cat")
size = Path(sys.argv[1]).stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, resource.RLIM_INFINITY))
try:
    one.answer([2], "dog")
except CannotWrite as problem:
    print(problem)
assert list(one.answers) == [1] and Path(sys.argv[1]).stat().st_size == size
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
one.answer([2], "dog")
"""
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, cwd=Path(__file__).parent.parent
    )
    assert done.returncode == 0, done.stderr
    assert "labels.csv cannot be written (File too large): make room there, then answer again." in done.stdout
    assert [line[0] for line in lines(path)] == [NAMES[1], NAMES[2]]


def test_killed_between_answers_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    code = """
import sys
from pathlib import Path
from ict.label.log import AnswerLog
from ict.label.session import Session
names = [f"{i}.jpg" for i in range(200)]
one = Session(names, AnswerLog(Path(sys.argv[1])), digest=lambda row: f"digest {row}")
for row in range(200):
    one.answer([row], "cat")
    print(row, flush=True)
"""
    root = Path(__file__).parent.parent
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        confirmed = [int(process.stdout.readline()) for _ in range(40)]
        process.kill()
        confirmed += [int(line) for line in process.stdout.read().split()]
        assert process.wait() == -signal.SIGKILL
    with AnswerLog(path) as log:
        assert set(confirmed) <= set(session(log).answers)


def test_copies_are_asked_once_and_what_could_not_be_read_never(tmp_path: Path) -> None:
    names = [f"{i}.jpg" for i in range(40)]
    with AnswerLog(tmp_path / "labels.csv") as log:
        one = Session(names, log)
        digests = ["same" if i < 10 else digest(i) for i in range(39)]
        one.found(Found(tuple(names[:39]), tuple(digests)))
        one.learned(Round(0, np.arange(39), ()))
        asked = []
        while (row := one.question()) is not None:
            asked.append(row)
            one.answer([row], "cat")
        assert len([row for row in asked if row < 10]) == 1 and sorted(set(asked)) == sorted(asked)
        assert set(range(10, 39)) <= set(asked) and 39 not in asked


def test_changed_examples_are_refused_and_missing_ones_are_named(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    with AnswerLog(path) as log:
        one = session(log)
        one.answer([3, 4], "cat")
        one.skip(5)
    with AnswerLog(path) as log:
        digests = [digest(row + (row in (4, 5))) for row in range(200)]
        with pytest.raises(UserError, match=r"labels.csv labels 4.jpg, which changed since they were labeled"):
            session(log, found=False).found(Found(tuple(NAMES), tuple(digests)))
        rest = session(log, [name for name in NAMES if name != "4.jpg"])
        assert "labels 4.jpg, which are not here any more" in rest.remarks[0] and len(rest.answers) == 2
        with pytest.raises(UserError, match=r"labels 3.jpg, 4.jpg, which are not here: name another file"):
            session(log, ["a.jpg", "5.jpg"])


def test_what_cannot_be_read_any_more_can_be_skipped_but_not_labeled(tmp_path: Path) -> None:
    def gone(row: int) -> str:
        raise UserError("it is gone")

    with AnswerLog(tmp_path / "labels.csv") as log:
        one = session(log, digest=gone)
        with pytest.raises(UserError, match="it is gone"):
            one.answer([1], "cat")
        one.skip(1)
        one.flag(2)
    assert lines(tmp_path / "labels.csv") == [(NAMES[1], "", "skip"), (NAMES[2], "", "flag")]


def test_a_group_that_was_passed_comes_back_when_its_guess_changes(tmp_path: Path) -> None:
    with AnswerLog(tmp_path / "labels.csv") as log:
        one = session(log)
        groups = (np.array([1, 2, 3]), np.array([7, 8, 9]))
        for guess in (0, 1):
            chances = np.full(200, 0.5)
            one.learned(Round(9, np.arange(200), groups, ("cat", "dog"), np.full(200, guess), chances))
            assert one.group() == [1, 2, 3]
            one.pass_group([1, 2])
            assert one.group() == [7, 8, 9], "one example is no group"
            one.answer([7, 8], "dog")
            assert one.group() == []
            one.undo()


def test_given_labels_are_learned_from_and_not_asked(tmp_path: Path) -> None:
    given = {row: "cat" if row % 2 else "a  very long name " * 9 for row in range(0, 200, 3)}
    with AnswerLog(tmp_path / "labels.csv") as log:
        one = session(log, given=given, classes=["dog"])
        assert one.classes == ["dog", *sorted(set(given.values()))] and one.training() == given
        one.learned(Round(0, np.arange(200), ()))
        for _ in range(100):
            row = one.question()
            assert row is not None and row not in given
            one.answer([row], "dog")
        request = one.request()
        assert (
            request is not None
            and set(request.rows.tolist()) == set(one.training())
            and given.items() <= one.training().items()
        )
        with pytest.raises(UserError, match="example 0 cannot be answered"):
            one.answer([0], "cat")
        with pytest.raises(UserError, match="cannot be answered"):
            one.skip(200)


@pytest.mark.parametrize("name", ["", "  ", "nan", "-1", "a" * 101, "a\u202eb", "a\0b", "\ud800"])
def test_a_class_needs_a_usable_name(tmp_path: Path, name: str) -> None:
    with AnswerLog(tmp_path / "labels.csv") as log, pytest.raises(UserError, match="has no usable name"):
        session(log).answer([0], name)
    assert lines(tmp_path / "labels.csv") == []


def test_a_round_is_asked_for_after_five_new_labels_or_a_new_class(tmp_path: Path) -> None:
    with AnswerLog(tmp_path / "labels.csv") as log:
        one = session(log)
        rows = [row for row in range(200) if one.kind(row) == "suggested"]
        first = one.request()
        assert first is not None and len(first.rows) == 0 and one.request() is None
        due: list[bool] = []
        for label in ["cat", "cat", "dog", *["cat"] * 12]:
            one.answer([rows[len(due)]], label)
            due.append(one.request() is not None)
        assert due == [True, False, True, *([False] * 4 + [True]) * 2, False, False]
        one.answer([one.queue.checks[0]], "bird")
        assert one.request() is None, "checks teach nothing"


def test_the_estimate_is_that_of_checks_alone_with_wilsons_interval(tmp_path: Path) -> None:
    with AnswerLog(tmp_path / "labels.csv") as log:
        one = session(log)
        checks = one.queue.checks[:11]
        others = [row for row in range(200) if one.kind(row) == "suggested"][:5]
        assert one.estimate() is None
        one.learned(learned([], [0] * 200))
        one.answer(others, "dog")
        assert one.estimate() is None
        one.answer(checks[:9], "cat")
        one.answer(checks[9:], "dog")
        found = one.estimate()
        assert found is not None and (found.right, found.n) == (9, 11)
        assert found.interval == tuple(binomtest(9, 11).proportion_ci(method="wilson"))
        assert str(found) == "82% (52% to 95%) from 11 random checks"


def test_it_advises_to_stop_when_guesses_are_stable_and_the_interval_is_narrow_or_above_the_target() -> None:
    few, many = (dict.fromkeys(range(n), "cat") for n in (10, 100))
    history = History()
    for n, agreement in ((10, None), (20, 0.99), (30, 0.995)):
        history.add(n, many, agreement)
    assert not history.advice(many).stable
    history.add(40, many, 1.0)
    assert history.advice(many).stop and history.advice(few).stable and not history.advice(few).stop
    assert not history.advice(many, 0.97).stop and history.advice(many, 0.96).stop and history.advice(few, 0.7).stop
    history.add(50, many, 0.98)
    assert not history.advice(many).stop


def test_the_price_of_a_point_is_that_of_the_curve() -> None:
    curve = [(n, 2 * n**-0.5) for n in (20, 40, 80, 100)]
    assert labels_for_a_point(curve) == round((2 / 0.19) ** 2 - 100)  # from an error of .20 to .19
    assert labels_for_a_point([(n, 0.2) for n in (10, 20, 40, 80)]) is None
    assert labels_for_a_point([(n, 0.1 * n**0.1) for n in (10, 20, 40, 80)]) is None


def test_the_learner_starts_with_every_cluster_and_goes_on_with_what_is_uncertain() -> None:
    X, truth = make_blobs(400, centers=5, n_features=8, cluster_std=1.0, center_box=(-8, 8), random_state=3)
    learner = Learner(X.astype(np.float32))
    checks, nothing = np.arange(0, 400, 5), np.array([], np.int64)
    start = learner.round(Request(nothing, (), nothing, checks, 0))
    assert start.guesses is None and set(truth[start.order]) == set(range(5)) and not set(start.order) & set(checks)
    rows = start.order[:20]
    labels = tuple(f"class {label}" for label in truth[rows])
    later = learner.round(Request(rows, labels, np.array([1]), checks, 5))
    assert later.guesses is not None and later.chances is not None and later.agreement is None
    named = np.array(later.classes)[later.guesses]
    assert np.mean(named == [f"class {label}" for label in truth]) > 0.9
    assert not set(later.order) & ({1} | set(rows) | set(checks)) and len(set(later.order)) == len(later.order)
    for group in later.groups:
        assert len(set(later.guesses[group])) == 1 and 2 <= len(group) <= 12
        assert not set(group) & ({1} | set(rows) | set(checks)) and (np.diff(later.chances[group]) <= 0).all()
    wrong = tuple("class 0" if i % 2 else "class 1" for i in range(len(rows)))
    third = learner.round(Request(rows, wrong, nothing, checks, 5))
    rest = np.setdiff1d(np.arange(400), rows)
    assert third.guesses is not None
    expected = cohen_kappa_score(named[rest], np.array(third.classes)[third.guesses][rest])
    assert third.agreement == pytest.approx(expected)


def test_the_learner_scales_a_table_like_a_model_of_it() -> None:
    rng = np.random.default_rng(0)
    number, word = rng.normal(size=300) * 7, rng.random(300) < 0.03
    x = np.stack([number, word], axis=1).astype(np.float32)
    by_hand = np.stack([(number - number.mean()) / number.std(), word - word.mean()], axis=1).astype(np.float32)
    nothing = np.array([], np.int64)
    asked = Request(np.arange(40), tuple(np.where(number[:40] > 0, "a", "b")), nothing, nothing, 2)
    units = ((x, (0.0, 1.0)), (by_hand, (1.0, 1.0)), (x, ()))
    found, expected, without = (Learner(z, units=some).round(asked).chances for z, some in units)
    assert found is not None and expected is not None and without is not None
    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert not np.allclose(found, without, atol=1e-3)


def test_uncertain_examples_come_after_ten_labels_a_class() -> None:
    X, truth = make_blobs(400, centers=5, n_features=8, cluster_std=2.0, center_box=(-4, 4), random_state=3)
    learner, nothing = Learner(X.astype(np.float32)), np.array([], np.int64)

    def uncertain(n: int) -> float:
        """The share of the first ten questions that are among the least certain tenth."""
        rows = np.arange(n)
        one = learner.round(Request(rows, tuple(f"class {truth[row]}" for row in rows), nothing, nothing, 5))
        assert one.chances is not None
        return float(np.mean(one.chances[one.order[:10]] < np.quantile(one.chances[n:], 0.1)))

    assert uncertain(49) < 0.5 < uncertain(50)


def test_a_simulated_person_teaches_digits_in_75_answers(tmp_path: Path) -> None:
    X, truth = load_digits(return_X_y=True)
    X, truth = X[:300].astype(np.float32), truth[:300]
    names, learner = [f"row {i + 1}" for i in range(300)], Learner(X)
    with AnswerLog(tmp_path / "labels.csv") as log:
        one = session(log, names)
        for _ in range(75):
            if (request := one.request()) is not None:
                one.learned(learner.round(request))
            row = one.question()
            assert row is not None
            one.answer([row], str(truth[row]))
        assert len(one.training()) == 60 and len(one.checks()) == 15
        assert one.round is not None and one.round.guesses is not None
        accuracy = np.mean(np.array(one.round.classes)[one.round.guesses] == truth.astype(str))
        found = one.estimate()
        assert accuracy > 0.8 and found is not None and found.interval[0] < accuracy < found.interval[1]
