"""Damaged files, absurd values and litter: each ends in one sentence, or is gone."""

import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ict.base.errors import UserError
from ict.base.fields import check, options
from ict.base.files import read_json, write_atomic, write_json
from ict.base.reading import reading
from ict.data.moons import moons
from ict.data.numpy_file import load_npy, load_npz
from ict.engine.device import pick_device
from ict.engine.settings import Train
from ict.estimators.default_recipes import default_recipe
from ict.experiment.run import train
from ict.experiment.run_folder import Folder
from ict.networks import NETWORKS
from ict.recipes import find
from ict.recipes.recipe import from_dict
from ict.studies.storage import Storage
from ict.studies.trials import read_seeds
from tests import test_cli
from tests.tiny import tiny


@pytest.mark.parametrize(
    "problem",
    [ValueError("odd\nsecond line"), KeyError("x"), RecursionError(), MemoryError(), OSError(5, "Input/output error")],
    ids=lambda problem: type(problem).__name__,
)
def test_whatever_a_parser_raises_is_one_sentence_with_the_file(problem: Exception) -> None:
    with pytest.raises(UserError) as caught, reading(Path("a.xyz"), "an xyz file"):
        raise problem
    message = str(caught.value)
    assert message.startswith("a.xyz ")
    assert message.endswith(".")
    assert "\n" not in message


def test_a_sentence_stays_as_it_is_and_ctrl_c_passes() -> None:
    with pytest.raises(UserError, match="mine"), reading(Path("a"), "a file"):
        raise UserError("mine")
    with pytest.raises(KeyboardInterrupt), reading(Path("a"), "a file"):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read as JSON"),
        (b"[]", "does not hold a JSON object"),
        (b"{" * 3, "cannot be read as JSON"),
        (b'{"a":' + b"[" * 200_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "more than 30 digits"),
        (b'{"a": "\xff"}', "cannot be read as JSON"),
        (b'{"a": "\\ud800"}', "cannot be read as JSON"),
    ],
)
def test_damaged_json(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_json(path)


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(UserError, match="is not a regular file"):
        read_json(tmp_path / "pipe.json")
    with pytest.raises(UserError, match="is not a regular file"):
        read_json(tmp_path)
    with (tmp_path / "sparse.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UserError, match=r"1,099,511,627,776 bytes, more than"):
        read_json(tmp_path / "sparse.json")


def test_arrays_as_numpy_wrote_them(tmp_path: Path) -> None:
    x = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "a.npy", x)
    np.savez_compressed(tmp_path / "a.npz", x=x, other=[1])
    np.testing.assert_array_equal(load_npy(tmp_path / "a.npy"), x)
    arrays, names = load_npz(tmp_path / "a.npz", ("x", "y"))
    np.testing.assert_array_equal(arrays["x"], x)
    assert (list(arrays), names) == (["x"], ["x", "other"])


def test_an_archive_that_unpacks_to_far_more_is_refused_from_its_index(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w", force_zip64=True) as file,
    ):
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (1_100_000_000,)})
        for _ in range(1100):
            file.write(bytes(1_000_000))
    with pytest.raises(UserError, match=r"unpacks to 1,100,000,128 bytes, more than its limit of 1,000,000,000"):
        load_npz(path, ("x",))


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_a_file_of_objects_says_why_it_is_not_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    objects: Any = np.array([{}], dtype=object)
    (np.save if suffix == "npy" else np.savez)(path, objects)
    with pytest.raises(UserError, match="can run code"):
        load_npy(path) if suffix == "npy" else load_npz(path, ("arr_0",))


# --- recipes ---


def test_a_recipe_that_is_its_own_base(tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    write_json(one, {"base": str(two)})
    write_json(two, {"base": str(one)})
    with pytest.raises(UserError, match="leads back to itself"):
        find(str(one))


@pytest.mark.parametrize("name", ["..", ".", "a\nb", "\0", "x" * 201, 5, None, ["a"]])
def test_a_recipes_name_leads_nowhere(name: Any) -> None:
    content = find("moons/ict").resolved().to_dict()
    with pytest.raises(UserError, match="printable word"):
        from_dict({**content, "name": name})


def test_a_base_that_is_no_name(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"base": 5})
    with pytest.raises(UserError, match="base must be the name"):
        find(str(tmp_path / "a.json"))


# --- values ---


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Train(steps=10**12), "train.steps"),
        (lambda: Train(labeled_batch=10**9), "train.labeled_batch"),
        (lambda: NETWORKS["mlp"]((3,), 2, depth=1_000_000), "depth"),
        (lambda: NETWORKS["mlp-wide"]((3,), 2, width=10**9), "width"),
        (lambda: NETWORKS["wrn-28-2"]((3, 32, 32), 2, depth=6 * 10**6 + 4), "depth"),
        (lambda: NETWORKS["convnet"]((3, 32, 32), 2, width=10**9), "width"),
        (lambda: moons(None, 0, n=10**12), "n"),
    ],
)
def test_an_absurd_value_is_refused_with_its_limit(make: Callable[[], Any], field: str) -> None:
    with pytest.raises(UserError, match=rf"{field} is \d+: it must be at most [\d,]+\."):
        make()


@pytest.mark.parametrize("text", ["0-99999999999", "0-9999,10000", "1" * 5000, "5-", "-1"])
def test_absurd_seeds(text: str) -> None:
    with pytest.raises(UserError, match="--seeds"):
        read_seeds(text)


@pytest.mark.parametrize(
    "words", [("demo", "--seeds"), ("figure", "moons", "--seeds"), ("compare", "digits-100", "--tune")]
)
def test_absurd_numbers_of_seeds(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ict.paper.demo.demo", lambda *_, **__: "")
    monkeypatch.setattr("ict.paper.figure.moons", lambda *_, **__: "")
    monkeypatch.setattr("ict.paper.compare.compare", lambda *_, **__: "")
    assert test_cli.ict(monkeypatch, *words, "999999999999", "--out", tmp_path / "o") == 2


def test_a_huge_whole_number_is_no_float() -> None:
    with pytest.raises(UserError, match=r"lr is 1000.*it must be a number"):
        check(10**400, float, "lr")
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(UserError, match="it must be a whole number"):
        check(nested, int, "steps")


def test_options_that_cannot_be_listed() -> None:
    def untyped(*, a=1):  # type: ignore[no-untyped-def]
        return a

    for target in (untyped, dict):
        with pytest.raises(UserError, match="cannot be read"):
            options(target)


# --- litter ---


def test_what_a_killed_process_left_is_removed_at_the_next_write(tmp_path: Path) -> None:
    killed = (
        "import os, sys, pathlib\n"
        "from ict.base.files import replacing\n"
        "with replacing(pathlib.Path(sys.argv[1])) as file:\n"
        "    file.write(b'half'); file.flush(); os.kill(os.getpid(), 9)\n"
    )
    path = tmp_path / "a.txt"
    subprocess.run([sys.executable, "-c", killed, str(path)], check=False)
    (litter,) = tmp_path.iterdir()
    assert litter.name.startswith(".a.txt.")
    mine = tmp_path / f".b.txt.{os.getpid()}-0.tmp"  # of a process that lives
    mine.write_text("")
    write_atomic(tmp_path / "other.txt", b"whole")
    assert {file.name for file in tmp_path.iterdir()} == {"other.txt", mine.name}


# --- interruptions and full disks ---


def test_a_closed_terminal_saves_a_checkpoint(tmp_path: Path) -> None:
    def hang_up(record: dict[str, Any]) -> None:
        if record["step"] == 4:
            os.kill(os.getpid(), signal.SIGHUP)

    with pytest.raises(KeyboardInterrupt) as caught:
        train(tiny(), out=tmp_path, log=hang_up)
    assert caught.value.args == (signal.SIGHUP,)
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-000000004.pt"]


def test_a_full_disk_under_the_metrics_names_the_file(tmp_path: Path) -> None:
    full = Folder(tmp_path)
    full.metrics = Path("/dev/full")
    with pytest.raises(UserError, match=r"/dev/full cannot be written \(No space left on device\).*--resume"):
        full.add_metrics({"step": 1})


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not limit the size of files")
def test_a_failed_write_names_its_file_and_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    code = (
        "import resource, signal, sys, pathlib\n"
        "from ict.base.files import write_atomic\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    write_atomic(pathlib.Path(sys.argv[1]), bytes(100_000))\n"
        "except OSError as problem:\n"
        "    print(problem.filename, problem.strerror)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == f"{path} File too large\n"
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("device", ["tpu", "", None])
def test_an_unknown_device_is_named_so(device: Any) -> None:
    with pytest.raises(UserError, match="unknown device"):
        pick_device(device)


@pytest.mark.parametrize("steps", [0, -5])
def test_no_steps_are_not_the_default(steps: int) -> None:
    with pytest.raises(UserError, match=f"steps is {steps}: it must be above 0"):
        default_recipe("ict", (3,), 100, steps)


def test_a_storage_that_is_something_else_stays_alone(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    path = tmp_path / "notes.txt"
    path.write_text("my notes")
    with pytest.raises(UserError, match="not a database"):
        Storage(f"sqlite:///{path}").connect()
    assert list(tmp_path.iterdir()) == [path]


def test_a_worker_stops_when_its_parent_is_killed(tmp_path: Path) -> None:
    """Although it says nothing for an hour."""
    code = (
        "import os, sys, time, pathlib\n"
        "from ict.experiment.pool import crew\n"
        "def slow(pipe, path):\n"
        "    pathlib.Path(path).write_text(str(os.getpid()))\n"
        "    time.sleep(3600)\n"
        "if __name__ == '__main__':\n"
        "    with crew(1, slow) as pipes:\n"
        "        pipes[0].send(sys.argv[1])\n"
        "        time.sleep(3600)\n"
    )
    (tmp_path / "parent.py").write_text(code)
    noted = tmp_path / "worker"
    parent = subprocess.Popen([sys.executable, tmp_path / "parent.py", noted])
    try:
        _until(lambda: noted.exists() and noted.read_text() != "")
    finally:
        parent.kill()
        parent.wait()
    _until(lambda: not Path(f"/proc/{noted.read_text()}").exists())


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
