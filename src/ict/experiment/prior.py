"""The prior of a run: experts' class probabilities for its training examples, from the labels known in the split.

The first rank computes it once. It is saved with the run, and a resumed run reads it.
"""

from hashlib import sha256

import numpy as np
import torch
from torch import Tensor

from ict.base.errors import UserError
from ict.base.rng import Use, fold
from ict.data.dataset import Dataset
from ict.engine.distributed import Ranks
from ict.engine.input_transform import InputTransform
from ict.engine.settings import Anchor
from ict.experiment.run_folder import Folder

_CHUNK = 4096  # examples transformed at a time


def fitted_prior(
    anchor: Anchor,
    seed: int,
    data: Dataset,
    known: Tensor,
    transform: InputTransform,
    device: torch.device,
    folder: Folder | None,
    ranks: Ranks,
) -> Tensor:
    """The prior [N, C] in the host's memory: the data's own, or that of a resumed run's folder, or the experts'.

    `known`: the labels, -1 where the split hides them.
    """
    shape = (len(data.train), len(data.classes))
    if data.prior is not None:
        return _checked(data.prior.float(), shape, "the data's prior")
    if folder is not None and folder.prior.exists():
        return _checked(folder.load_tensors(folder.prior).get("prior"), shape, str(folder.prior))
    prior = torch.zeros(shape, dtype=torch.float32)
    with ranks.together():
        if ranks.first:
            from ict.experts.experts import Experts  # scikit-learn's import takes time and starts threads

            inputs = [transform(x.to(device)).flatten(1).cpu().numpy() for x in data.train.x.split(_CHUNK)]
            experts = Experts(kind=anchor.experts, trees=anchor.trees)
            key = fold(seed, Use.EXPERTS)
            opinion = experts.fit(np.concatenate(inputs).astype(np.float32), known.numpy(), len(data.classes), key)
            prior = torch.from_numpy(opinion.prior)
    ranks.copy_first_([prior])
    return prior


def digest(prior: Tensor) -> str:
    """The hash that identifies a prior in a run's description."""
    return sha256(np.ascontiguousarray(prior.numpy()).tobytes()).hexdigest()


def _checked(prior: Tensor | None, shape: tuple[int, int], name: str) -> Tensor:
    if prior is None or tuple(prior.shape) != shape:
        got = "nothing" if prior is None else list(prior.shape)
        raise UserError(f"{name} is {got}: it must be {shape[1]} probabilities for each of {shape[0]} examples.")
    if not (prior >= 0).all() or not torch.allclose(prior.sum(1), torch.ones_like(prior[:, 0]), atol=1e-3):
        raise UserError(f"{name} must hold probabilities: rows of numbers of at least 0 that sum to 1.")
    return prior
