"""Reads small text files, such as lists of labels."""

import csv
import io
from pathlib import Path

from ict.base.reading import check_file, reading

LARGEST = 1_000_000_000  # bytes


def text_of(path: Path) -> str:
    """The content of a text file, without a byte order mark."""
    check_file(path, LARGEST)
    with reading(path, "text", "save it as UTF-8"):
        return path.read_text(encoding="utf-8-sig")


def csv_rows(path: Path, text: str, separator: str = ",") -> list[list[str]]:
    """The cells of each line; a blank line has none."""
    with reading(path, "a CSV file"):
        return list(csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=separator))
