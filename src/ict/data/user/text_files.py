"""Small text files that are read whole, such as lists of labels."""

import csv
import io
from pathlib import Path

from ict.base.reading import check_file, reading

LARGEST = 1_000_000_000  # bytes


def text_of(path: Path) -> str:
    """A text file's contents, with or without the mark that spreadsheets put first."""
    check_file(path, LARGEST)
    with reading(path, "text", "save it as UTF-8"):
        return path.read_text(encoding="utf-8-sig")


def csv_rows(path: Path, text: str) -> list[list[str]]:
    """The cells of each line, none for a blank one."""
    with reading(path, "a CSV file"):
        return list(csv.reader(io.StringIO(text, newline=""), strict=True))
