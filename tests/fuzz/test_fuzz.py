"""A few damaged files of every format, and those that failed once."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.mutation import mutated

CORPUS = Path(__file__).parent / "corpus"


def fuzz(*arguments: str) -> Any:
    command = [sys.executable, "-m", "tests.fuzz.run", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_damaged_files_load_or_end_in_a_sentence() -> None:
    pytest.importorskip("pandas")
    done = fuzz("--cases", "50")
    assert done.returncode == 0, done.stderr


def test_inputs_that_failed_once() -> None:
    assert any(CORPUS.iterdir())
    done = fuzz("--replay", str(CORPUS))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": refused") + done.stdout.count(": read") == len(list(CORPUS.iterdir()))


def test_a_reader_with_a_bug_is_noticed() -> None:
    """The oracle of the runner: an exception, a crash, a hang and a memory bomb each count as failures."""
    planted = (
        "import os, sys, time\n"
        "from tests.fuzz import formats, run\n"
        "run.SECONDS = 1\n"
        "def bad(bug):\n"
        "    return lambda folder: None if folder.name == 'whole' else bug()\n"
        "bugs = [lambda: {}['x'], lambda: os.kill(os.getpid(), 11), lambda: time.sleep(99), lambda: bytes(1 << 40)]\n"
        "make = lambda folder: (folder / 'a').write_bytes(b'x' * 9) and None\n"
        "for i, bug in enumerate(bugs):\n"
        "    formats.FORMATS[f'bad{i}'] = formats.Format(make, bad(bug))\n"
        "sys.argv[1:] = ['--formats', 'bad0,bad1,bad2,bad3', '--cases', '2']\n"
        "sys.exit(run.main())\n"
    )
    done = subprocess.run([sys.executable, "-c", planted], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.count("'failed': 2") == 4, done.stdout + done.stderr


def test_damage_is_a_function_of_its_seed_and_changes_something() -> None:
    raw = json.dumps({"a": [1, 2.5], "b": {"c": "x"}}).encode() * 3
    one, same = ([mutated(raw, random.Random(i)) for i in range(200)] for _ in range(2))
    assert one == same
    assert sum(changed != raw for changed in one) > 180
    assert len(set(one)) > 150
