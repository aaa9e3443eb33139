"""The cells of a data frame's column as numbers, words or times, and which of them are something else."""

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
ISO = "ISO8601"
# A day and a month in figures can be exchanged, so a format is right only if it fits every cell.
_DAYS = (
    *("%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y"),
    *("%d %b %Y", "%d-%b-%Y", "%m/%d/%y", "%d/%m/%y"),
)
_CLOCKS = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p")
_MOMENTS = tuple(f"{day} {clock}" for day in _DAYS for clock in _CLOCKS)
DATE_FORMATS = (ISO, *_DAYS, *_MOMENTS)
GAPS = (
    "",
    "?",
    "-",
    "NA",
    "na",
    "N/A",
    "n/a",
    "#N/A",
    "<NA>",
    "NaN",
    "nan",
    "-nan",
    "NaT",
    "NULL",
    "Null",
    "null",
    "None",
    "none",
)
_GAPS = frozenset(text.casefold() for text in GAPS)  # among numbers, truth values and times
_TRUTH = {"true": 1.0, "yes": 1.0, "1": 1.0, "false": 0.0, "no": 0.0, "0": 0.0}


def word(cell: Any) -> str:
    """A cell as a category: the same for 3, 3.0 and "3". The empty string is a gap."""
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, bytes):
        cell = cell.decode("utf-8", "replace")
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        cell = int(cell)
    return str(cell).strip()


def is_gap(text: str) -> bool:
    """Whether a word stands for a missing value in a column of numbers, truth values or times."""
    return text.strip().casefold() in _GAPS


def is_numeric(column: Any) -> bool:
    """Whether a column has a type of real numbers, which a truth value is too."""
    types = _pandas().api.types
    return bool(types.is_numeric_dtype(column) and not types.is_complex_dtype(column))


def words(column: Any) -> tuple[NDArray[np.intp], list[str]]:
    """The different words of a column, and which of them each cell is; -1 for a missing cell."""
    if column.dtype == object:
        column = column.to_numpy()  # an index of its words would cost more than finding them
    try:
        codes, different = _pandas().factorize(column)
    except TypeError:  # such as lists, which cannot be compared
        codes, different = _pandas().factorize(_series(column).map(str, na_action="ignore"))
    return codes, [word(cell) for cell in np.asarray(different, dtype=object)]


def numbers(column: Any) -> tuple[NDArray[np.float32], Mask]:
    """Numbers, NaN for gaps, and a mask of cells that are neither."""
    if is_numeric(column):
        with np.errstate(over="ignore"):  # too large for float32 is infinite, like a cell that says so
            found = column.to_numpy(np.float64, na_value=np.nan).astype(np.float32)
        return found, np.isinf(found)
    codes, different = words(column)
    parsed = _pandas().to_numeric(_series(different), errors="coerce").to_numpy(np.float64)
    with np.errstate(over="ignore"):
        parsed = parsed.astype(np.float32)
    return _picked(codes, parsed, different, np.float32(np.nan), ~np.isfinite(parsed))


def truths(column: Any) -> tuple[NDArray[np.float32], Mask]:
    """1 for true, 0 for false and NaN for gaps, and a mask of the other cells."""
    codes, different = words(column)
    parsed = np.array([_TRUTH.get(text.casefold(), np.nan) for text in different], np.float32)
    return _picked(codes, parsed, different, np.float32(np.nan), np.isnan(parsed))


def times(column: Any, form: str) -> tuple[NDArray[np.datetime64], Mask]:
    """Seconds of the calendar in UTC, NaT for gaps, and a mask of cells that are neither."""
    pandas = _pandas()
    if pandas.api.types.is_datetime64_any_dtype(column):
        return _seconds(pandas.to_datetime(column, utc=True)), np.zeros(len(column), np.bool_)
    codes, different = words(column)
    parsed = _seconds(pandas.to_datetime(_series(different), format=form, errors="coerce", utc=True))
    return _picked(codes, parsed, different, np.datetime64("NaT", "s"), np.isnat(parsed))


def date_format(different: list[str]) -> str | None:
    """The first format in which all of these words are dates."""
    present = [text for text in different if not is_gap(text)]
    if not present or not all(text[:1].isdigit() and len(text) >= 7 and not text.isdigit() for text in present[:50]):
        return None
    for form in (ISO, *(_MOMENTS if ":" in present[0] else _DAYS)):
        for some in (present[:50], present):  # most columns are no dates, which the first cells show
            read = _pandas().to_datetime(_series(some), format=form, errors="coerce", utc=True)
            if read.isna().any():
                break
        else:
            return form
    return None


def share_of_numbers(different: list[str]) -> float:
    """The share of numbers among the words that are not gaps."""
    present = [text for text in different if not is_gap(text)]
    if not present:
        return 0.0
    return float(_pandas().to_numeric(_series(present), errors="coerce").notna().mean())


def _picked(codes: NDArray[np.intp], parsed: Any, different: list[str], gap: Any, failed: Mask) -> tuple[Any, Mask]:
    """From the different words to the cells; a missing cell has the code -1, the last place."""
    failed[[i for i in np.flatnonzero(failed) if is_gap(different[i])]] = False
    return np.append(parsed, gap)[codes], np.append(failed, False)[codes]


def _seconds(column: Any) -> NDArray[np.datetime64]:
    found: NDArray[np.datetime64] = column.dt.tz_localize(None).to_numpy().astype("datetime64[s]")
    return found


def _series(texts: Any) -> Any:
    return _pandas().Series(texts, dtype=object)


def _pandas() -> Any:
    return importlib.import_module("pandas")
