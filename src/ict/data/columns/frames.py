"""Tables of other libraries as pandas data frames."""

import importlib
from typing import Any

import numpy as np

from ict.base.errors import UserError


def pandas_for(what: object) -> Any:
    try:
        return importlib.import_module("pandas")
    except ImportError:
        raise UserError(f"reading {what} needs pandas: install it with `pip install pandas`.") from None


def is_table(x: object) -> bool:
    """Whether an object has named columns: a frame of pandas or polars, an Arrow table or NumPy records."""
    if isinstance(x, np.ndarray):
        return x.dtype.names is not None and x.ndim == 1
    if hasattr(x, "collect_schema"):  # polars, whose lazy frames warn where they are asked for their columns
        return True
    return hasattr(x, "columns") and (hasattr(x, "iloc") or hasattr(x, "to_pandas"))


def as_frame(x: Any, what: str = "X") -> Any:
    """A table as a data frame whose columns have different strings as names."""
    pandas = pandas_for(f"the table {what}")
    if isinstance(x, np.ndarray):
        if arrays := [name for name in x.dtype.names or () if x.dtype[name].shape]:
            raise UserError(f"{what} has an array in each cell of the column '{arrays[0]}': give its numbers columns.")
        x = pandas.DataFrame({name: x[name] for name in x.dtype.names or ()})
    elif not hasattr(x, "iloc") and not hasattr(x, "to_pandas"):
        raise UserError(f"{what} is a lazy frame, which has no rows yet: give what its collect() returns.")
    elif not hasattr(x, "iloc"):
        try:
            x = x.to_pandas()
        except ImportError as problem:
            raise UserError(
                f"{what} cannot become a data frame of pandas ({problem}): install what it names."
            ) from None
    frame = x.set_axis([str(name) for name in x.columns], axis=1)
    check_names([*frame.columns], what)
    return frame


def check_names(names: list[str], what: object) -> None:
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise UserError(f"{what} has two columns named '{twice}': rename one of them.")
