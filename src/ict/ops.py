"""The tensor functions that the formulas are written with. They have no state and no randomness.

Losses are means over the batch. Half-precision logits are converted to float32 first, so that a formula means the
same inside autocast; float64 stays float64.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def mix(lam: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """lam * a + (1 - lam) * b, the paper's Mix."""
    return lam * a + (1 - lam) * b


def one_hot(labels: Tensor, like: Tensor) -> Tensor:
    """Labels [B] as rows [B, C] in the shape and dtype of the logits `like`."""
    classes = torch.arange(like.shape[1], device=labels.device)
    return (labels[:, None] == classes).to(_full(like).dtype)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean of -sum_c targets_c log softmax(logits)_c; targets are probabilities [B, C]."""
    return F.cross_entropy(_full(logits), targets)


def probabilities(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """softmax(logits / temperature). A temperature below 1 sharpens."""
    return F.softmax(_full(logits) / temperature, dim=1)


def mse(probs: Tensor, targets: Tensor) -> Tensor:
    """Mean squared difference over batch and classes (a sum over classes would be C times larger)."""
    return F.mse_loss(probs, targets)


def kl(targets: Tensor, logits: Tensor) -> Tensor:
    """Mean KL(targets || softmax(logits))."""
    return F.kl_div(F.log_softmax(_full(logits), dim=1), targets, reduction="batchmean")


def kl_of_logits(logits: Tensor, other: Tensor) -> Tensor:
    """Mean KL(softmax(logits) || softmax(other)), with a gradient to both."""
    log_p, log_q = F.log_softmax(_full(logits), dim=1), F.log_softmax(_full(other), dim=1)
    return (log_p.exp() * (log_p - log_q)).sum(dim=1).mean()


def entropy(probs: Tensor) -> Tensor:
    """Mean of -sum_c p_c log p_c, with 0 log 0 = 0."""
    terms: Tensor = torch.special.entr(probs)
    return terms.sum(dim=1).mean()


def _full(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
