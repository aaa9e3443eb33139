"""Scaling and ZCA. Fitted once on training images without augmentation in float64, applied to batches on any device."""

from copy import deepcopy
from typing import Literal

import torch
from torch import Tensor, nn

Scale = Literal["none", "centered", "half", "channels", "image", "gcn"]
Zca = Literal["none", "authors", "ridge"]

_ALONE = ("image", "gcn")  # scales that depend on each image alone
_NORM = 55.0  # of an image under "gcn", as in Mean Teacher's preprocessing
_CHUNK = 4096  # images at a time while fitting: a float64 copy of CIFAR-10 would take 1.2 GB


class Whiten(nn.Module):
    """Converts pixels (uint8, any shape [B, ...]) or features (float) to network inputs.

    scale "channels": zero mean and unit deviation per channel (or feature); "half": pixels / 127.5 - 1, which the ICT
    authors use for SVHN; "centered": pixels / 255 - 0.5; "none": pixels / 255, features unchanged. "image": each image
    minus its mean, divided by its deviation, both over all its pixels and channels; "gcn": each image minus its mean,
    scaled to a Euclidean norm of 55. "image" and "gcn" use nothing from other images.
    zca "authors": U (S^-1/2 + epsilon) U', which hardly regularizes; "ridge": U (S + epsilon)^-1/2 U'.
    """

    mean: Tensor
    std: Tensor
    center: Tensor
    matrix: Tensor

    def __init__(self, shape: tuple[int, ...], *, scale: Scale, zca: bool = False) -> None:
        super().__init__()
        self.scale = scale
        channels = (shape[0], *(1 for _ in shape[1:]))
        size = torch.Size(shape).numel() if zca else 0
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("std", torch.ones(channels))
        self.register_buffer("center", torch.zeros(size))
        self.register_buffer("matrix", torch.zeros(size, size))

    def forward(self, x: Tensor) -> Tensor:
        x = self.scaled(x, self.mean.dtype)
        if len(self.center):
            x = ((x.flatten(1) - self.center) @ self.matrix).reshape(x.shape)
        return x

    def scaled(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """The input of ZCA, the same in training and in fitting."""
        x = _unit(x, dtype)
        if self.scale in _ALONE:
            return _each_alone(x, self.scale)
        return (x - self.mean.to(dtype)) / self.std.to(dtype)


def fit(
    x: Tensor,
    *,
    scale: Scale = "channels",
    zca: Zca = "none",
    epsilon: float = 1e-6,
    device: torch.device | None = None,
) -> Whiten:
    """Fit the transform to the training inputs x [N, ...]. ZCA is computed on `device`, by default x's."""
    whiten = Whiten(tuple(x.shape[1:]), scale=scale, zca=zca != "none")
    if scale in ("half", "centered"):
        whiten.mean.fill_(0.5)
    if scale == "half":
        whiten.std.fill_(0.5)
    if scale == "channels":
        mean, std = _channel_moments(x)
        whiten.mean.copy_(mean)
        whiten.std.copy_(std)
    if zca != "none":
        center, covariance = _pixel_moments(x, deepcopy(whiten).to(device or x.device))
        variances, directions = torch.linalg.eigh(covariance)
        variances.clamp_min_(torch.finfo(torch.float64).eps * variances[-1])  # rounding can make them negative
        gains = variances.rsqrt() + epsilon if zca == "authors" else (variances + epsilon).rsqrt()
        whiten.center.copy_(center)
        matrix = (directions * gains) @ directions.T
        if scale in _ALONE:
            matrix -= matrix.mean(0)  # these images sum to zero, so a gain along the sum would amplify rounding errors
        whiten.matrix.copy_(matrix)
    return whiten


def _channel_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    others = [d for d in range(x.dim()) if d != 1]
    count = x.numel() // x.shape[1]
    shape = (x.shape[1], *(1 for _ in x.shape[2:]))
    total, squares = (torch.zeros(x.shape[1], dtype=torch.float64) for _ in range(2))
    for chunk in x.split(_CHUNK):
        total += _unit(chunk, torch.float64).sum(others)
    mean = total / count
    for chunk in x.split(_CHUNK):
        squares += (_unit(chunk, torch.float64) - mean.reshape(shape)).square().sum(others)
    std = (squares / count).sqrt()
    std[std == 0] = 1  # a constant channel stays at zero
    return mean.reshape(shape), std.reshape(shape)


def _pixel_moments(x: Tensor, whiten: Whiten) -> tuple[Tensor, Tensor]:
    size, device = x[0].numel(), whiten.mean.device
    center = torch.zeros(size, dtype=torch.float64, device=device)
    covariance = torch.zeros(size, size, dtype=torch.float64, device=device)
    for chunk in x.split(_CHUNK):
        center += whiten.scaled(chunk.to(device), torch.float64).flatten(1).sum(0) / len(x)
    for chunk in x.split(_CHUNK):
        flat = whiten.scaled(chunk.to(device), torch.float64).flatten(1) - center
        covariance += flat.T @ flat / len(x)
    return center, covariance


def _each_alone(x: Tensor, scale: Scale) -> Tensor:
    """Each example minus its own mean, divided by its own deviation or, for "gcn", scaled to a fixed norm."""
    flat = x.flatten(1)
    flat = flat - flat[:, :1]  # so that a constant image becomes exactly zero, without the rounding of the mean
    flat = flat - flat.mean(1, keepdim=True)
    size = flat.norm(dim=1, keepdim=True) / _NORM if scale == "gcn" else flat.square().mean(1, keepdim=True).sqrt()
    return (flat / torch.where(size > 0, size, 1)).reshape(x.shape)


def _unit(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.to(dtype) / 255 if x.dtype == torch.uint8 else x.to(dtype)
