"""Virtual adversarial training (Miyato et al., 2018), with entropy minimization if `entropy` is above 0.

    L = CE(f(x), y) + w * KL(f(u) || f(u + r)) + entropy * H(f(u)),   r = epsilon g / |g|

g is the gradient of the same KL at u + xi d, with d a random unit vector per example: the direction in which f(u)
changes most. f(u) in the KL carries no gradient. All forwards of u share their dropout masks and do not update the
running statistics.
Ours: xi is 0.1; with the source's 1e-6, rounding in float32 hides the direction. With xi = 0, g is the limit that
small xi approximate: the KL's second derivative times d, from f's derivative along d and a backward pass. It contains
no difference of nearly equal numbers, so half precision is enough, and fast mode uses it.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ict.base.errors import UserError
from ict.base.fields import at_least_zero, at_most, check_fields, positive
from ict.contract import Batch, Draws, Loss, Needs, Network
from ict.ops import cross_entropy, entropy, kl, kl_of_logits, one_hot, probabilities


@dataclass(frozen=True, kw_only=True)
class VAT:
    epsilon: float = 8.0  # length of the perturbation of the network's input
    xi: float = 0.1  # distance of the point where the gradient is taken; 0: the exact derivative
    iterations: int = 1  # iterations of the power method
    direction: Literal["clean-perturbed", "perturbed-clean"] = "clean-perturbed"  # order in the KL; Oliver: the second
    entropy: float = 0.0  # weight of the entropy of the predictions; w does not scale it
    entropy_of: Literal["clean", "perturbed"] = "clean"  # the predictions with that entropy; Oliver et al.: perturbed

    needs: ClassVar[Needs] = Needs()

    def __post_init__(self) -> None:
        check_fields(self)
        positive(epsilon=self.epsilon, iterations=self.iterations)
        at_most(1_000, iterations=self.iterations)
        at_least_zero(xi=self.xi, entropy=self.entropy)

    def loss(self, student: Network, teacher: Network, batch: Batch, w: Tensor, rng: Draws) -> Loss:  # noqa: ARG002
        (u,) = batch.u
        with student.frozen_stats(), student.same_masks():
            if self.xi:
                with student.precise():  # in half precision the gradient would contain only rounding noise of z
                    z = student(u)
                    r = self.perturbation(student, u, z.detach(), rng)
            else:
                z, r = self.steepest(student, u, rng)
            z_x, z_r = student.beside(batch.x, u + r)

        l_s = cross_entropy(z_x, one_hot(batch.y, like=z_x))
        l_us = self._divergence(z.detach(), z_r)
        h = entropy(probabilities(z if self.entropy_of == "clean" else z_r))
        metrics = {"supervised": l_s.detach(), "consistency": l_us.detach(), "entropy": h.detach()}
        total = l_s + w * l_us
        return Loss(total + self.entropy * h if self.entropy else total, metrics)  # 0 * h would cost a backward pass

    def perturbation(self, student: Network, u: Tensor, z: Tensor, rng: Draws) -> Tensor:
        """For each example the step of length epsilon in which the divergence from its logits z grows fastest."""
        d = _unit(rng.normal_like(u))
        for _ in range(self.iterations):
            d = (self.xi * d).requires_grad_()
            (g,) = torch.autograd.grad(self._divergence(z, student(u + d)), d)
            d = _unit(g)
        return self.epsilon * d

    def steepest(self, student: Network, u: Tensor, rng: Draws) -> tuple[Tensor, Tensor]:
        """The logits of u, and the step of `perturbation` for xi = 0.

        At distance 0 both KLs have the second derivative J' (diag(p) - p p') J, with J the Jacobian of the logits.
        """
        u, d = u.detach().requires_grad_(), _unit(rng.normal_like(u))
        for _ in range(self.iterations):
            try:
                z, dz = student.along(u, d)
            except NotImplementedError as problem:
                raise UserError(f"the network has no derivative for xi=0 ({problem}): set algorithm.xi=0.1.") from None
            p = probabilities(z.detach())
            d = _unit(student.back(z, u, p * (dz - (p * dz).sum(1, keepdim=True))))
        return z, self.epsilon * d

    def _divergence(self, z: Tensor, z_r: Tensor) -> Tensor:
        return kl(probabilities(z), z_r) if self.direction == "clean-perturbed" else kl_of_logits(z_r, z)


def _unit(d: Tensor) -> Tensor:
    """Each example's vector divided by its length; first by its largest entry, since gradients can be tiny."""
    rest = tuple(range(1, d.dim()))
    d = d / d.abs().amax(rest, keepdim=True).clamp_min(torch.finfo(d.dtype).tiny)
    return d / d.square().sum(rest, keepdim=True).add(1e-6).sqrt()
