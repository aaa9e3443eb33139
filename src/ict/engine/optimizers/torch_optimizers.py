"""torch's optimizers without the import of torch's compiler.

torch decorates some optimizer methods to exclude them from compilation, and imports the whole compiler to do so. That
is half of the time from a command to its first update. The same methods without the decorator do the same work.
"""

from inspect import unwrap
from typing import TypeVar

import torch

Optimizer = TypeVar("Optimizer", bound=type[torch.optim.Optimizer])


def _unmarked(optimizer: Optimizer) -> Optimizer:
    for name in ("add_param_group", "zero_grad", "state_dict", "load_state_dict", "step"):
        setattr(optimizer, name, unwrap(getattr(optimizer, name)))
    optimizer.step = torch.no_grad()(optimizer.step)  # type: ignore[method-assign]
    return optimizer


@_unmarked
class SGD(torch.optim.SGD):
    pass


@_unmarked
class Adam(torch.optim.Adam):
    pass
