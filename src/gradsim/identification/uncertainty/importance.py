"""Importance sampling of exp(−χ²/2) by mixtures of Student's t, which are fitted to what they find.

    w_i ∝ exp(−χ²(u_i)/2) / q(u_i),      q = Σ_k α_k t_ν(u; c_k, S_k S_kᵀ)

The effective sample fraction 1/(n Σ w²) of the normalized weights shows whether q resembles the posterior. Where it does
not, shares, centres and scales are fitted anew to the weighted draws (population Monte Carlo, Cappé et al. 2008).

The ends of a 95 % interval have a fortieth of the mass beyond them, which is ten of 400 draws. If these are independent, that is 10 ± 3, and
intervals hold 94 % in the mean, as few as 90. So draws are points of Sobol's sequence (1967), scrambled (Owen 1995): each
cell of an even grid has as many.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
import torch
from torch import Tensor

from gradsim.identification.problem import Problem

DRAWS = 400  # of a round
FREEDOM = 5.0  # degrees of freedom ν of the t that draws are from: heavier tails than needed
MIN_EFFECTIVE_FRACTION = 0.25  # least effective sample fraction of the weights
ROUNDS = 3  # most rounds, each with a mixture fitted to what the one before found
FITTED = 4  # effective draws for each unknown, from which on a component is fitted to them
COPIES = 10  # samples for each draw, so that each has its weight to a tenth of a draw
NEAREST_TO_END = 2.0**-31  # of a number in 0 … 1, which is half the resolution of Sobol's points
SEEDS = 2**31  # of scrambling


class StudentMixture(NamedTuple):
    """Components: shares α (k,), which sum to 1, centres (k, unknowns), and scales (k, unknowns, unknowns) as columns."""

    share: Tensor
    centre: Tensor
    scale: Tensor

    @classmethod
    def single(cls, centre: Tensor, scale: Tensor) -> "StudentMixture":
        """One component: centre (unknowns,) and scale (unknowns, unknowns)."""
        return cls(torch.ones(1).double(), centre[None], scale[None])

    def draw(self, count: int, rng: np.random.Generator) -> Tensor:
        """Draws (count, unknowns), of each component as many as its share says, to within one, and evenly spread."""
        rows, n = systematic(self.share, count, rng), self.centre.shape[1]
        sequence = torch.quasirandom.SobolEngine(n + 1, scramble=True, seed=int(rng.integers(SEEDS)))
        even = sequence.draw(count, dtype=torch.float64).clamp(NEAREST_TO_END, 1 - NEAREST_TO_END)
        normal = torch.special.ndtri(even[:, :n])
        squared_length = scipy.special.chdtri(FREEDOM, even[:, n:].numpy())  # quantiles of χ² from above
        stretch = torch.tensor(np.sqrt(FREEDOM / squared_length))
        return self.centre[rows] + (self.scale[rows] @ (normal * stretch)[..., None])[..., 0]

    def log_densities(self, u: Tensor) -> Tensor:
        """Logarithms of share times density of each component (draws, k) at u (draws, unknowns), up to one constant."""
        off = torch.linalg.solve(self.scale, (u[:, None] - self.centre)[..., None])[..., 0]
        size = torch.linalg.slogdet(self.scale)[1]
        tail = (FREEDOM + u.shape[1]) / 2 * torch.log1p(off.square().sum(-1) / FREEDOM)
        return self.share.clamp(min=1e-300).log() - size - tail

    def log_density(self, u: Tensor) -> Tensor:
        """Logarithm of the density (draws,) at u (draws, unknowns), up to a constant."""
        return torch.logsumexp(self.log_densities(u), 1)

    def fitted(self, u: Tensor, weight: Tensor) -> "StudentMixture":
        """Fit shares, and components with enough effective draws, to draws (draws, unknowns) with weights that sum to 1."""
        n = u.shape[1]
        part = weight[:, None] * torch.softmax(self.log_densities(u), 1)
        share = part.sum(0)
        weights = part / share.clamp(min=1e-300)
        fit = 1 / weights.square().sum(0).clamp(min=1e-300) >= FITTED * n
        centre = torch.where(fit[:, None], weights.T @ u, self.centre)
        off = u[:, None] - centre
        covariance = torch.einsum("dk,dki,dkj->kij", weights, off, off)
        margin = 1e-4 * torch.diag_embed(covariance.diagonal(dim1=1, dim2=2)) + 1e-24 * torch.eye(n).double()
        scale, failed = torch.linalg.cholesky_ex(covariance + margin)
        scale = torch.where((fit & (failed == 0))[:, None, None], scale, self.scale)
        return StudentMixture(share / share.sum(), centre, scale)


@dataclass(frozen=True)
class WeightedDraws:
    """Draws (n, unknowns), their χ², their weights, which sum to 1, and the effective sample fraction 1/(n Σ w²).

    `mixture` is what they were drawn from.
    """

    u: Tensor
    cost: Tensor
    weight: Tensor
    effective_sample_fraction: float
    mixture: StudentMixture

    def resample(self, count: int, rng: np.random.Generator) -> Tensor:
        """Resample `count` draws by weight (count, unknowns)."""
        return self.u[systematic(self.weight, count, rng)]

    def samples(self, rng: np.random.Generator) -> Tensor:
        """Samples of the posterior (`COPIES` times the draws, unknowns)."""
        return self.resample(COPIES * len(self.u), rng)


def systematic(weight: Tensor, count: int, rng: np.random.Generator) -> Tensor:
    """Systematic resampling: indices, each as often as its weight times `count`, to within one (Kitagawa 1996)."""
    ladder = (rng.random() + np.arange(count)) / count
    return torch.tensor(np.searchsorted(weight.cumsum(0).numpy(), ladder).clip(max=len(weight) - 1))


def importance_sample(
    problem: Problem,
    mixture: StudentMixture,
    frames: int,
    rng: np.random.Generator,
    enough: float = MIN_EFFECTIVE_FRACTION,
    count: int = DRAWS,
) -> WeightedDraws:
    """Draws of exp(−χ²/2) on the first frames with their weights: the round of which most draws count.

    A t that was fitted to few draws may miss tails without saying so, so these are to be moved afterwards.

    Args:
        problem: The problem, with residuals whitened by the true noise.
        mixture: What the first round is drawn from.
        frames: Number of first frames that count.
        rng: Draws everything.
        enough: Effective sample fraction from which on no further round follows.
        count: Draws of a round.
    """
    low, high = problem.space.low, problem.space.high
    best = None
    for _ in range(ROUNDS):
        u = mixture.draw(count, rng)
        inside = ((u >= low) & (u <= high)).all(1)
        cost = torch.where(inside, problem.cost(u.clamp(low, high), frames), torch.inf)
        weight = torch.softmax(-cost / 2 - mixture.log_density(u), 0).nan_to_num(0.0)
        effective_sample_fraction = 1 / (count * weight.square().sum().clamp(min=1e-12)).item()
        if best is None or effective_sample_fraction > best.effective_sample_fraction:
            best = WeightedDraws(u, cost, weight, effective_sample_fraction, mixture)
        if best.effective_sample_fraction > enough:
            break
        flat = min(
            1.0, 4 * best.effective_sample_fraction
        )  # few draws that count are to speak for their neighbours, too
        mixture = best.mixture.fitted(best.u, torch.softmax(flat * best.weight.clamp(min=1e-300).log(), 0))
    assert best is not None
    return best
