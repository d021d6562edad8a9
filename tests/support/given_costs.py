"""Problems whose cost is a given function, for samplers of known posteriors."""

from types import SimpleNamespace
from typing import Any

import torch

from gradsim.identification.problem import Effort

COVARIANCE = torch.tensor([[1.0, 0.6], [0.6, 2.0]]).double()
CENTER = torch.tensor([1.0, -2.0]).double()
PRECISION = torch.linalg.inv(COVARIANCE)


class Costs:
    """A problem whose cost of the first frames is given, frame by frame; bounds far away."""

    def __init__(self, *costs, n=2):
        self.first, self.frames, self.effort = costs, len(costs), Effort()
        self.ends = list(range(1, self.frames + 1))
        wide = torch.full((n,), 200.0).double()
        self.space = SimpleNamespace(low=-wide, high=wide, logarithmic=[False] * n)

    def cost(self, u, frames, residual="pixels"):
        return self.first[frames - 1](u) if frames else 0 * u.sum(1)

    def stretch(self, first, last):
        return lambda u: self.cost(u, last) - self.cost(u, first)

    def costs(self, u, stretches):
        return [stretch(u) for stretch in stretches]

    def linearizations(self, u, stretches):
        """The Hessian, halved, in place of JᵀJ: what it is need not be exact for a Langevin step."""
        parts = []
        for stretch in stretches:
            slope = torch.func.grad(lambda one, stretch=stretch: stretch(one[None])[0] / 2)
            parts.append((stretch(u), torch.func.vmap(torch.func.jacrev(slope))(u), torch.func.vmap(slope)(u)))
        return parts

    def linearize(self, u, frames, residual="pixels"):
        return self.linearizations(u, [self.stretch(0, frames)])[0]


def problem(whole, part=None, n=2) -> Any:
    """`whole` on two frames, `part` on the first of them."""
    return Costs(part or whole, whole, n=n)


def gaussian(u):
    return torch.einsum("wi,ij,wj->w", u - CENTER, PRECISION, u - CENTER)


def parabolas(u, *valleys):
    """χ² of round valleys (place of every unknown, σ, height): the least of their parabolas."""
    return torch.stack([((u - at) / std).square().sum(1) + height for at, std, height in valleys]).amin(0)
