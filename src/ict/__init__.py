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
    from ict.base.errors import Diverged as Diverged
    from ict.base.errors import UserError as UserError
    from ict.data import DATASETS as DATASETS
    from ict.data.arrays import from_arrays as from_arrays
    from ict.data.dataset import Dataset as Dataset
    from ict.estimators.classifier import ICTClassifier as ICTClassifier
    from ict.estimators.classifier import SemiSupervisedClassifier as SemiSupervisedClassifier
    from ict.estimators.loading import load as load
    from ict.experiment.run import Run as Run
    from ict.experiment.run import evaluate as evaluate
    from ict.experiment.run import train as train
    from ict.experts.folds import LabeledKFold as LabeledKFold
    from ict.networks import NETWORKS as NETWORKS
    from ict.recipes import RECIPES as RECIPES
    from ict.recipes.recipe import Recipe as Recipe

# The module of each name. It is imported on first use, so that `import ict` and `ict --help` do not wait for torch.
_HOMES = {
    "ALGORITHMS": "ict.algorithms",
    "DATASETS": "ict.data",
    "LabeledKFold": "ict.experts.folds",
    "NETWORKS": "ict.networks",
    "RECIPES": "ict.recipes",
    "Dataset": "ict.data.dataset",
    "Diverged": "ict.base.errors",
    "ICTClassifier": "ict.estimators.classifier",
    "Recipe": "ict.recipes.recipe",
    "Run": "ict.experiment.run",
    "SemiSupervisedClassifier": "ict.estimators.classifier",
    "UserError": "ict.base.errors",
    "evaluate": "ict.experiment.run",
    "from_arrays": "ict.data.arrays",
    "load": "ict.estimators.loading",
    "train": "ict.experiment.run",
}
__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ict' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
