"""The file of answers while a page writes to it: every line is on disk before the next example is shown."""

import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from ict.base.errors import CannotWrite, UserError
from ict.base.files import check_place, sync_folder
from ict.base.folder_lock import locked
from ict.base.reading import check_file
from ict.data.user.answers import COLUMNS, HEADER, Answer, as_lines, read_answers


class AnswerLog:
    """The file, which belongs to this process until `close`. `answers` are those that it has at the start.

    A line that a crash cut off is removed: its answer was never confirmed. A new or empty file gets its header.
    """

    def __init__(self, path: Path) -> None:
        check_place(path)
        if path.exists():
            check_file(path)
        self.path = path
        self._open = ExitStack()
        try:
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
            self._open.callback(os.close, self._file)
            busy = f"another page writes to {path}: use that one, or name another file with --labels."
            self._open.enter_context(locked(path, busy=busy))
            self.answers, self._size = self._begin()
        except BaseException:
            self._open.close()
            raise

    def _begin(self) -> tuple[list[Answer], int]:
        start = os.pread(self._file, len(HEADER) + 2, 0)
        if HEADER.startswith(start) and start != HEADER:  # new, empty, or its first line was cut off
            os.ftruncate(self._file, 0)
            self._write(HEADER)
            sync_folder(self.path.resolve().parent)
            return [], len(HEADER)
        answers, end = read_answers(self.path)
        if end < os.fstat(self._file).st_size:
            os.ftruncate(self._file, end)
        return answers, end

    def append(self, answers: Sequence[Answer]) -> None:
        """Write lines, all or none of them. A CannotWrite says why they could not be written."""
        lines = as_lines(answers)
        if lines.count(b"\n") != len(answers) or b"\r" in lines:
            raise UserError(f"a cell of {self.path} has a line break: its columns are {', '.join(COLUMNS)}.")
        self._check_unchanged()
        try:
            self._write(lines)
        except OSError as problem:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)  # of the lines that were cut off
            raise CannotWrite(
                f"{self.path} cannot be written ({problem.strerror}): make room there, then answer again."
            ) from None
        self._size += len(lines)

    def _write(self, lines: bytes) -> None:
        rest = memoryview(lines)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except OSError as problem:
            problem.filename = str(self.path)  # a failed write names no file
            raise

    def _check_unchanged(self) -> None:
        """An editor that replaced the file would leave this process writing to one without a name."""
        ours = os.fstat(self._file)
        try:
            named = self.path.stat()
        except OSError:
            named = None
        if named is None or (named.st_dev, named.st_ino) != (ours.st_dev, ours.st_ino) or ours.st_size != self._size:
            raise CannotWrite(f"another program changed {self.path}: start the page again, which reads it anew.")

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
