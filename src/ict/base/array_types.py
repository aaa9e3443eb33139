"""Short names for the types of NumPy arrays that most folders pass on."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Labels = NDArray[np.int64]
"""The class of each example as an index into the classes, -1 where it is unknown."""
Rows = NDArray[np.int64]
"""The indices of some rows."""
