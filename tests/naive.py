"""Losses written down naively in NumPy, a batch to try them on, and the comparison with the real ones."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from ict.contract import Algorithm, Batch, Draws, Loss
from ict.engine.forward import Forward
from tests.scripted import Array, finite_differences, softmax, tanh_network, weights

N_CLASSES, W = 3, 7.5
_values = np.random.default_rng(0)
X, U, V = _values.normal(size=(6, 4)), _values.normal(size=(8, 4)), _values.normal(size=(8, 4))
Y = np.array([0, 2, 1, 1, 0, 2])
U_Y = np.array([-1, 2, 1, -1, 0, -1, 1, 1])  # which of the unlabeled examples have a label after all
NO_LABELS = np.full(8, -1)
Labels = NDArray[np.int64]
Reference = Callable[[list[Array], list[Array]], float]


def batch_of(*views: Array, u_y: Labels = NO_LABELS, memory: Array | None = None, groups: int = 1) -> Batch:
    """The labeled batch, and an unlabeled one of these views."""
    u = tuple(torch.from_numpy(view) for view in views)
    stored = None if memory is None else torch.from_numpy(memory)
    return Batch(torch.from_numpy(X), torch.from_numpy(Y), u, torch.from_numpy(u_y), stored, groups)


def within(*views: Array, u_y: Labels = U_Y, memory: Array | None = None) -> Batch:
    """An unlabeled batch alone, some of whose examples have labels."""
    u = tuple(torch.from_numpy(view) for view in views)
    stored = None if memory is None else torch.from_numpy(memory)
    return Batch(torch.from_numpy(X[:0]), torch.from_numpy(Y[:0]), u, torch.from_numpy(u_y), stored)


def assert_same(algorithm: Algorithm, batch: Batch, draws: Draws, reference: Reference) -> Loss:
    """The loss is the reference's to 1e-9, its gradient that of finite differences; student and teacher differ."""
    student, teacher = tanh_network(1), tanh_network(2)
    w = torch.tensor(W, dtype=torch.float64)
    loss = algorithm.loss(Forward(student), Forward(teacher, gradient=False), batch, w, draws)
    loss.total.backward()
    teacher_weights = weights(teacher)
    np.testing.assert_allclose(loss.total.item(), reference(weights(student), teacher_weights), rtol=0, atol=1e-9)
    expected = finite_differences(lambda s: reference(s, teacher_weights), weights(student))
    for parameter, gradient in zip(student.parameters(), expected, strict=True):
        assert parameter.grad is not None
        np.testing.assert_allclose(parameter.grad, gradient, rtol=1e-6, atol=1e-7)
    return loss


def cross_entropy(z: Array, targets: Array) -> float:
    """Mean over rows of -sum t log p; a row of zeros counts as 0."""
    rows = zip(targets, softmax(z), strict=True)
    return float(np.mean([-sum(t * np.log(p) for t, p in zip(ts, ps, strict=True)) for ts, ps in rows]))


def known_cross_entropy(z: Array, labels: Labels) -> float:
    """The cross-entropy of the rows whose label is not -1, divided by the number of all rows."""
    p = softmax(z)
    return float(sum(-np.log(p[i, label]) for i, label in enumerate(labels) if label >= 0) / len(labels))


def kl(p: Array, q: Array) -> float:
    return float(
        np.mean([sum(a * np.log(a / b) for a, b in zip(ps, qs, strict=True)) for ps, qs in zip(p, q, strict=True)])
    )


def entropy(p: Array) -> float:
    return float(np.mean([-sum(a * np.log(a) for a in row) for row in p]))


def mse(p: Array, q: Array) -> float:
    return float(((p - q) ** 2).sum() / p.size)


def rolled(a: Array, groups: int = 1) -> Array:
    """Row i of a group gets row i - 1 of it, the first one the last."""
    out = np.empty_like(a)
    size = len(a) // groups
    for g in range(groups):
        for i in range(size):
            out[g * size + i] = a[g * size + (i - 1) % size]
    return out
