"""Writes `next.csv`: examples to label next, with an empty column for their labels, which `--labels` reads back."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ict.data.user.records import UserData
from ict.fit.predict import write_lines
from ict.report.page import printable

_TEXT = 300  # characters of a text that are shown beside its name


@dataclass(frozen=True)
class Next:
    """An example to label."""

    row: int
    cluster: int
    why: str
    guess: str = ""  # of the model, if there is one
    probability: float | None = None


def write_next(path: Path, data: UserData, chosen: Sequence[Next]) -> None:
    """Write a line per example, the most useful first. Texts stand beside their names."""
    texts = data.texts
    guessed = any(one.guess for one in chosen)
    header = ["rank", "example", "label", *(["guess", "probability"] if guessed else []), "cluster", "why"]
    lines = [[*header, *(["text"] if texts else [])]]
    for rank, one in enumerate(chosen, 1):
        guess = [one.guess, f"{one.probability:.6f}"] if guessed else []
        line = [f"{rank}", data.names[one.row], "", *guess, f"{one.cluster}", one.why]
        lines.append([*line, *([start_of(texts[one.row])] if texts else [])])
    write_lines(path, lines)


def start_of(text: str, most: int = _TEXT) -> str:
    """The start of a text in one line."""
    line = printable(" ".join(text[: 4 * most].split()))
    return line if len(line) <= most else line[: most - 1] + "…"
