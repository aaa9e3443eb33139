"""The file of labels that the labeling page writes: a line an answer, of which the last one of an example counts.

    example,label,time,kind,digest
    cats/17.jpg,cat,2026-03-01T18:04:09.120Z,suggested,5f0c...

`example` is a name as in `UserData.names`, without line breaks, so that a line is an answer. `digest` is that of its
content. A kind is `suggested` (an example to learn from), `random` (a check, which is never learned from), `skip`,
`flag` (something is wrong with the example) or `undo`; the last three have no label.
"""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from ict.base.errors import UserError
from ict.base.reading import check_file, reading
from ict.data.labels import is_unlabeled_text
from ict.data.user.folder_files import labels_by_folder
from ict.data.user.label_file import about_other_folders
from ict.data.user.records import UserData
from ict.data.user.remarks import counted, listed, word
from ict.data.user.text_files import LARGEST

AnswerKind = Literal["suggested", "random", "skip", "flag", "undo"]
COLUMNS = ("example", "label", "time", "kind", "digest")
KINDS: tuple[AnswerKind, ...] = get_args(AnswerKind)
LABELED = ("suggested", "random")  # the kinds with a label
HEADER = (",".join(COLUMNS) + "\n").encode()


@dataclass(frozen=True)
class Answer:
    """A line of the file."""

    example: str
    label: str
    time: str  # UTC, ISO 8601
    kind: AnswerKind
    digest: str


def as_lines(answers: Iterable[Answer]) -> bytes:
    """The lines of some answers, whose examples have no line break. A file's name need not be UTF-8."""
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerows([one.example, one.label, one.time, one.kind, one.digest] for one in answers)
    return text.getvalue().encode("utf-8", "surrogateescape")


def is_answer_file(path: Path) -> bool:
    """Whether a file has the first line of the page's files, or an unfinished one."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        first = file.readline(len(HEADER) + 2)
    return first.replace(b"\r\n", b"\n") == HEADER


def read_answers(path: Path) -> tuple[list[Answer], int]:
    """All answers in order, and the number of bytes that they take with the header.

    The file may be longer by a line that a crash cut off.
    """
    check_file(path, LARGEST)
    if not is_answer_file(path):
        raise UserError(
            f"{path} is not a file of the labeling page: its first line must be {','.join(COLUMNS)}; "
            "name another file with --labels."
        )
    raw = path.read_bytes()
    end = raw.rfind(b"\n") + 1
    lines = raw[:end].decode("utf-8", "surrogateescape").split("\n")
    return [_answer(path, number, line) for number, line in enumerate(lines[1:], 2) if line.strip()], end


def last_answers(answers: Iterable[Answer]) -> dict[str, Answer]:
    """By example the answer that counts, in the order of their times."""
    last: dict[str, Answer] = {}
    for one in answers:
        last.pop(one.example, None)
        last[one.example] = one
    return last


def labels_in(path: Path) -> set[str]:
    """The labels that count, of a file that need not be there."""
    answers = read_answers(path)[0] if is_answer_file(path) else []
    return {one.label for one in last_answers(answers).values() if one.kind in LABELED}


def with_answers(data: UserData, path: Path, source: Path, skip_bad: bool) -> UserData:
    """The data of `source` with the labels of a page's file; its random checks become the rows of a test."""
    answers, size = read_answers(path)
    row_of = {name: row for row, name in enumerate(data.names)}
    counting = {name: one for name, one in last_answers(answers).items() if one.kind in LABELED}
    missing = [name for name in counting if name not in row_of]
    changed = [name for name, one in counting.items() if name in row_of and data.digests[row_of[name]] != one.digest]
    y, checks, remarks = data.y.copy(), set(data.checks), list(data.remarks)
    others = about_other_folders(data.names, {one.label for one in counting.values()}, str(path))
    if source.is_dir() and others:
        for name, folder in labels_by_folder(data.names).items():
            if y[row_of[name]] == folder:  # not the label of another file
                y[row_of[name]] = None
        remarks.append(others)
    for bad, problem in ((missing, "which the data does not have"), (changed, "which changed since they were labeled")):
        if bad and not skip_bad:
            raise UserError(
                f"{path} labels {listed(bad)}, {problem}: put them back, label again, or add --skip-bad to leave such "
                "lines out."
            )
        if bad:
            labels = counted(len(bad), "label", "labels")
            remarks.append(f"{labels} of {path} left out, for {word(data.items)} {problem}: {listed(bad)}")
    for name in counting.keys() - {*missing, *changed}:
        y[row_of[name]] = counting[name].label
        if counting[name].kind == "random":
            checks.add(row_of[name])
    if size < path.stat().st_size:
        remarks.append(f"the last line of {path} is incomplete and was left out")
    return replace(data, y=y, remarks=tuple(remarks), checks=tuple(sorted(checks)))


def _answer(path: Path, number: int, line: str) -> Answer:
    with reading(path, f"CSV in line {number}"):
        cells = next(csv.reader([line.removesuffix("\r")], strict=True))
    if len(cells) != len(COLUMNS):
        raise UserError(f"{path} has {len(cells)} cells in line {number} instead of {len(COLUMNS)}: repair the line.")
    example, label, time, kind, digest = cells
    found = next((name for name in KINDS if name == kind), None)
    if found is None:
        raise UserError(f"{path} has the kind {kind[:40]!r} in line {number}: it must be one of {', '.join(KINDS)}.")
    label = label.strip()
    if found in LABELED and is_unlabeled_text(label):
        raise UserError(f"{path} has no label in line {number} of the kind {kind}: fill it in or remove the line.")
    return Answer(example, label if found in LABELED else "", time, found, digest)
