"""All valleys of a likelihood that a cloud of samples came by, and a mixture of Student's t over them.

A cloud of a hundred that is led through narrow valleys loses those with a smaller share of the mass, one resampling after
the other. But each of its samples marks the valley that it is in, so least squares from all of them lists the minima. Each
has the mass of a normal distribution (Laplace),

    m_k ∝ exp(−χ²_k/2) / √det A_k,      A = JᵀJ

which weights correct (`importance_sample`).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.identification.problem import Problem
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.uncertainty.fisher import WIDEST
from gradsim.identification.uncertainty.importance import StudentMixture

ITERATIONS = 12  # linearizations on the way to a minimum; samples begin near it
ARRIVED = 0.1  # decrease of χ² in an iteration at or below which a descent ends
MAX_CHI2_GAP = 25.0  # difference of χ² to the best minimum: a valley of a mass of 4e-6 at most of an equally wide one
APART = 3.0  # σ between two minima of different valleys
MOST = 40  # valleys, the deepest


@dataclass(frozen=True)
class Valleys:
    """Minima, deepest first.

    Args:
        u: Solver coordinates (valleys, unknowns).
        cost: χ² (valleys,).
        information: A = JᵀJ (valleys, unknowns, unknowns).
        visits: How many of the starts ended in each (valleys,).
    """

    u: Tensor
    cost: Tensor
    information: Tensor
    visits: Tensor

    def mixture(self) -> StudentMixture:
        """One t for each valley, with its mass as share."""
        scale = torch.stack([principal_axes(A) for A in self.information])
        mass = torch.softmax(torch.linalg.slogdet(scale)[1] - (self.cost - self.cost.min()) / 2, 0)
        return StudentMixture(mass, self.u, scale)

    def of(self, u: Tensor) -> int:
        """Number of the valley whose minimum is u (unknowns,), within 3 σ; −1 if none is."""
        apart = _distance(u - self.u, self.information)
        nearest = int(apart.argmin())
        return nearest if apart[nearest] < APART else -1


def find_valleys(problem: Problem, starts: Tensor) -> Valleys:
    """The minima that least squares on the whole clip ends in.

    Args:
        problem: The problem, with residuals whitened by the true noise.
        starts: Where it begins (starts, unknowns).
    """
    iterates = Population.at(starts)
    iterates, _ = descend(
        problem, iterates, problem.frames, "pixels", ITERATIONS, min_decrease=ARRIVED, tries=2, foretold=False
    )
    rows = (iterates.cost <= iterates.cost.min() + MAX_CHI2_GAP).nonzero()[:, 0]
    rows = rows[iterates.cost[rows].argsort()]
    _, information, _ = problem.linearize(iterates.u[rows], problem.frames)
    minima: list[int] = []
    visits: list[int] = []
    for k, u in enumerate(iterates.u[rows]):
        apart = _distance(u - iterates.u[rows[minima]], information[minima])
        if (apart < APART).any():
            visits[int(apart.argmin())] += 1
        elif len(minima) < MOST:
            minima, visits = [*minima, k], [*visits, 1]
    iterates, information = iterates[rows[minima]], information[minima]
    return Valleys(iterates.u, iterates.cost, information, torch.tensor(visits))


def principal_axes(fisher: Tensor) -> Tensor:
    """Principal axes of the information, one σ long, as columns."""
    eigenvalues, axes = torch.linalg.eigh(fisher)
    return axes * eigenvalues.clamp(min=WIDEST**-2).rsqrt()


def _distance(off: Tensor, information: Tensor) -> Tensor:
    """Mahalanobis distance (n,) of differences (n, unknowns)."""
    return torch.einsum("ki,kij,kj->k", off, information, off).clamp(min=0).sqrt()
