"""Optimizer, EMA and mixup of a fast update as single GPU operations, with their scalars on the device."""

import torch
from torch import Tensor, nn

from ict.contract import Batch
from ict.engine.averages import WeightAverage
from ict.engine.optimizers.muon import Muon
from ict.engine.optimizers.torch_optimizers import SGD, Adam

_ALIGNED = 64  # in a shared piece of memory, each tensor begins at a multiple of this many numbers


class QuickOptimizer:
    """An optimizer's step as one operation with the learning rate on the device. Shares the optimizer's state."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        (group,) = optimizer.param_groups
        parameters: list[nn.Parameter] = group["params"]
        lr = torch.zeros((), device=parameters[0].device)  # replaced in each step
        adam = isinstance(optimizer, torch.optim.Adam)
        of_adam = ("betas", "eps", "weight_decay", "decoupled_weight_decay")
        names = of_adam if adam else ("momentum", "nesterov", "weight_decay")
        options = {name: group[name] for name in names}
        self.quick: torch.optim.Optimizer
        if adam:
            self.quick = Adam(parameters, lr, fused=True, capturable=True, **options)
        elif isinstance(optimizer, Muon):
            self.quick = Muon(parameters, lr, ratio=optimizer.ratio, fused=True, **options)
        else:
            self.quick = SGD(parameters, lr, fused=True, **options)
        for p in parameters:
            state = optimizer.state[p]
            for name, value in state.items():
                if isinstance(value, Tensor):  # a checkpoint's layout and device may be those of the other mode
                    state[name] = torch.empty_like(p).copy_(value) if value.shape == p.shape else value.to(p.device)
            if not adam and group["momentum"]:  # without a buffer torch starts from the gradient, at every replay
                state.setdefault("momentum_buffer", torch.zeros_like(p))
        self.quick.state = optimizer.state

    def step(self, lr: Tensor) -> None:
        (group,) = self.quick.param_groups
        group["lr"] = lr
        self.quick.step()


class QuickBatch(Batch):
    """A batch that mixes its examples in one operation if there is one lambda for all, without a gradient."""

    def mixed(self, lam: Tensor, x: Tensor) -> Tensor:
        if not x.is_cuda or lam.dim() or lam.requires_grad:
            return super().mixed(lam, x)
        from ict.engine.fast.kernels.mixup import mixed

        return mixed(x, lam, self.pair_groups)


class QuickAverage:
    """The update of an average as one operation. It moves the average's and the student's tensors into one memory each.

    Several operations over a hundred small tensors take longer than one over all of their numbers.
    """

    def __init__(self, average: WeightAverage) -> None:
        averages, values = average.tensors
        kinds = {tensor.dtype for tensor in values}
        self.pieces = [
            tuple(
                _in_one_piece([tensor for tensor in tensors if tensor.dtype == kind]) for tensors in (averages, values)
            )
            for kind in kinds
        ]

    @torch.no_grad()
    def update(self, share: Tensor) -> None:
        """`share`: the weight of the student in the new average, 0-d."""
        for average, student in self.pieces:
            average.lerp_(student, share.to(average.dtype))


def _in_one_piece(tensors: list[Tensor]) -> Tensor:
    """Move tensors into one new piece of memory; each keeps its layout."""
    sizes = [tensor.numel() + -tensor.numel() % _ALIGNED for tensor in tensors]
    piece = tensors[0].new_zeros(sum(sizes))
    for tensor, part in zip(tensors, piece.split(sizes), strict=True):
        dense = torch.empty_like(tensor, device="meta")
        tensor.data = part.as_strided(dense.size(), dense.stride()).copy_(tensor.data)
    return piece
