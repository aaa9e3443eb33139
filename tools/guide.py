"""Run the blocks of docs/own-data.md in order on made-up data, and write what they print into the page.

    python tools/guide.py [--check]

A line `$ ...` of a `console` block is a command, and the lines below are its output. A `text` block is what the
`python` block above it prints. `<!-- fill FILE -->` stands for a person who fills in the labels of a file. With --check
nothing is written, and the exit code says whether the page shows what is printed now, whatever the numbers.
"""

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import warnings
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import guide_data

from ict import cli
from ict.estimators import candidates, default_recipes

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "docs/own-data.md"
_PART = re.compile(r"<!-- fill (?P<file>\S+) -->|```(?P<kind>\w+)\n(?P<body>.*?)```", re.DOTALL)
_UPDATES = 20  # of a network, instead of 600: the page takes minutes otherwise
_PROGRESS = re.compile(r"^.*; \d+:\d\d:\d\d so far.*\n", re.MULTILINE)


def played(page: str) -> str:
    """The page with what its blocks print now, in the working folder, which has the made-up data."""
    with ExitStack() as few:
        for module in (candidates, default_recipes):
            few.enter_context(mock.patch.object(module, "ANCHORED_STEPS", _UPDATES))
        return _PART.sub(_Player(), page)


def outline(page: str) -> str:
    """The page without what differs from one machine or number of updates to the next."""
    page = re.sub(r"(Cannot tell whether the unlabeled|The unlabeled \w+ (helped|hurt)).*", "VERDICT", page)
    page = re.sub(r"^(\d+|[\w/]+\.jpg|row \d+),.*", "LINE", page, flags=re.MULTILINE)
    page = re.sub(r"\b(" + "|".join(sorted(candidates.DESCRIPTIONS, key=len, reverse=True)) + r")\b", "CANDIDATE", page)
    return re.sub(r"[+-]?\d[\d,.]*", "#", page)


class _Player:
    def __init__(self) -> None:
        self._names: dict[str, Any] = {}
        self._printed = ""

    def __call__(self, part: re.Match[str]) -> str:
        if part["file"]:
            guide_data.fill_in(Path(part["file"]))
            return part[0]
        if part["kind"] == "console":
            commands = [line for line in part["body"].splitlines() if line.startswith("$ ")]
            return "```console\n" + "".join(f"{line}\n{_printed_by(line[2:])}" for line in commands) + "```"
        if part["kind"] == "python":
            self._printed = self._run(part["body"])
            return part[0]
        if part["kind"] == "text":
            return f"```text\n{self._printed}```"
        raise ValueError(f"a block of the kind {part['kind']} is not run: write console, python or text")

    def _run(self, code: str) -> str:
        with redirect_stdout(io.StringIO()) as out, warnings.catch_warnings():
            exec(code, self._names)
        return out.getvalue()


def _printed_by(command: str) -> str:
    """What a command prints on both channels, without the lines of progress."""
    words = shlex.split(command, comments=True)
    if words[0] != "ict":
        return subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)  # a command may write bytes too
    with redirect_stdout(out), redirect_stderr(out), mock.patch.object(sys, "argv", words), warnings.catch_warnings():
        with suppress(SystemExit):
            cli.main()
        out.seek(0)
        return _PROGRESS.sub("", out.read())


def main() -> None:
    old = GUIDE.read_text()
    with tempfile.TemporaryDirectory() as folder:
        guide_data.make(Path(folder))
        os.environ["ICT_CACHE"] = f"{folder}/cache"
        os.chdir(folder)
        new = played(old)
        os.chdir(ROOT)
    if "--check" in sys.argv:
        sys.exit(outline(new) != outline(old))
    GUIDE.write_text(new)


if __name__ == "__main__":
    main()
