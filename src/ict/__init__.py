"""Interpolation Consistency Training and the methods it is compared with.

import ict
run = ict.train("digits-100/ict", seed=0)
run.result["test_error"]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ict.algorithms import ALGORITHMS as ALGORITHMS
    from ict.data import DATASETS as DATASETS
    from ict.data.arrays import from_arrays as from_arrays
    from ict.data.dataset import Dataset as Dataset
    from ict.errors import Diverged as Diverged
    from ict.errors import UserError as UserError
    from ict.estimator import ICTClassifier as ICTClassifier
    from ict.estimator import SemiSupervisedClassifier as SemiSupervisedClassifier
    from ict.folds import LabeledKFold as LabeledKFold
    from ict.networks import NETWORKS as NETWORKS
    from ict.recipe import Recipe as Recipe
    from ict.recipes import RECIPES as RECIPES
    from ict.run import Run as Run
    from ict.run import evaluate as evaluate
    from ict.run import train as train

# Where each name lives. It is imported on first use, so that `import ict` and `ict --help` do not wait for torch.
_HOMES = {
    "ALGORITHMS": "ict.algorithms",
    "DATASETS": "ict.data",
    "LabeledKFold": "ict.folds",
    "NETWORKS": "ict.networks",
    "RECIPES": "ict.recipes",
    "Dataset": "ict.data.dataset",
    "Diverged": "ict.errors",
    "ICTClassifier": "ict.estimator",
    "Recipe": "ict.recipe",
    "Run": "ict.run",
    "SemiSupervisedClassifier": "ict.estimator",
    "UserError": "ict.errors",
    "evaluate": "ict.run",
    "from_arrays": "ict.data.arrays",
    "train": "ict.run",
}
__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ict' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
