"""Small text files that are read whole, such as lists of labels."""

import csv
import io
from pathlib import Path

from ict.base.errors import UserError


def text_of(path: Path) -> str:
    """A text file's contents, with or without the mark that spreadsheets put first."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{path} cannot be read as text: save it as UTF-8.") from None


def csv_rows(path: Path, text: str) -> list[list[str]]:
    """The cells of each line, none for a blank one."""
    try:
        return list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise UserError(f"{path} is not a readable CSV file ({error}): mend it or save it again.") from None
