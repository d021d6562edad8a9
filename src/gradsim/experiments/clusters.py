"""Error bars where the errors of pixels belong together.

What is wrong with a mask is wrong with all of its edge at once, and what a model lacks shows in frame after frame; the
plain Fisher information takes each pixel for another witness. Here blocks of consecutive frames are the witnesses:

    jackknife   cov = (G − 1)/G Σ d_g d_gᵀ,   d_g = (A − A_g)⁻¹ g_g          leave each of G blocks out in turn
    bootstrap   d = −(Σ A_b)⁻¹ Σ g_b                                         over blocks drawn with replacement

with A_g = J_gᵀ J_g and g_g = J_gᵀ r_g of a block, at the estimate, where Σ g_g = 0: one Gauss–Newton step in place of a
whole fit (Künsch 1989; Cameron & Miller 2015, whose CR3 is the first).
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Clusters:
    """The information in each frame at an estimate.

    Args:
        matrices: Jᵀ J of each frame (frames, unknowns, unknowns).
        gradients: Jᵀ r of each frame (frames, unknowns).
        prior: Information from priors (unknowns, unknowns), which no block takes away.
    """

    matrices: Tensor
    gradients: Tensor
    prior: Tensor

    @classmethod
    def at(cls, residuals: Tensor, jacobian: Tensor, prior: Tensor) -> "Clusters":
        """From residuals (frames, m) and their derivatives (frames, m, unknowns)."""
        return cls(jacobian.mT @ jacobian, (jacobian.mT @ residuals[..., None])[..., 0], prior)

    @property
    def block(self) -> int:
        """Frames in a block: n^(1/3), the rate that is best for variances of correlated series (Künsch 1989)."""
        return max(1, round(len(self.gradients) ** (1 / 3)))

    def jackknife(self) -> Tensor:
        """Covariance (unknowns, unknowns) by leaving out one block after the other."""
        every = torch.arange(len(self.gradients))
        whole, total = self._sum(every), self.gradients.sum(0)
        moves = torch.stack(
            [
                torch.linalg.solve(whole - self.matrices[g].sum(0), self.gradients[g].sum(0) - total)
                for g in every.split(self.block)
            ]
        )
        moves = moves - moves.mean(0)
        return (len(moves) - 1) / len(moves) * moves.T @ moves

    def bootstrap(self, rng: np.random.Generator, draws: int = 500) -> Tensor:
        """Standard deviations (unknowns,) over moving blocks; half the width of their middle 68 %."""
        count, block = len(self.gradients), self.block
        first = rng.integers(0, count - block + 1, (draws, -(-count // block)))
        frames = torch.tensor(first[..., None] + np.arange(block)).flatten(1)[:, :count]
        moves = torch.stack([-torch.linalg.solve(self._sum(f), self.gradients[f].sum(0)) for f in frames])
        low, high = moves.quantile(torch.tensor([0.1587, 0.8413], dtype=moves.dtype), 0)
        return (high - low) / 2

    def independent(self, variance: float) -> Tensor:
        """Standard deviations (unknowns,) if pixels had independent errors of this variance, in units of σ²."""
        return torch.linalg.inv(self.matrices.sum(0) / variance + self.prior).diagonal().sqrt()

    def _sum(self, frames: Tensor) -> Tensor:
        return self.matrices[frames].sum(0) + self.prior
