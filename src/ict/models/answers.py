"""From examples to probabilities: what a saved model and an estimator answer."""

from collections.abc import Callable

import numpy as np

from ict.base.array_types import Array
from ict.data.array_inputs import ArrayInputs, check_finite
from ict.experts.temperature import tempered


def answers(predict: Callable[[Array], Array], inputs: ArrayInputs, temperature: float, x: Array) -> Array:
    """Probabilities [n, classes] for raw examples; a BadExample for one so large that the model overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        probs = tempered(predict(inputs(x)), temperature)
    check_finite(probs)
    return probs
