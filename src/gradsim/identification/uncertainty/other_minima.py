"""Minima elsewhere that explain the data as well as the answer, so that nothing in the data tells which is the truth.

A body on a hinge swings alike with its center of mass at two distances from the axis (Kater's pendulum: their product is I/m), and with several unknowns there
may be more such twins. Each is a sharp minimum, which the curvature at one of them does not show. So where starts
of a search ended, other than at the answer û, is compared with it:

    (u − û)ᵀ A (u − û) > 25        far beyond the error bars
    χ²(u) − χ²(û) < 10             with noise: a mass of more than 1 % of the answer's, if they are equally wide

Of frames without noise it has to leave no more than rounding does, or than the answer does.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.identification.fit import Estimate
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.solvers.thresholds import NOISELESS_LEVEL, least_decrease, rounding_cost, solved_cost
from gradsim.identification.uncertainty.intervals import Z95
from gradsim.identification.unknowns import Ranges
from gradsim.numerics.formatting import with_error

FAR = 5.0  # standard deviations from the answer, beyond which another minimum is not within its error bars
APART = 1e-6  # of a logarithm or range: least distance, as of frames without noise error bars are only nominal
ALIKE = 10.0  # difference of χ² up to which noise may have chosen between two minima
NOISELESS_SHARE = 2.0  # times what the answer leaves of frames without noise
ITERATIONS = 30  # linearizations on the way to a minimum on the time steps of the answer
MOST = 8  # minima besides the answer


@dataclass(frozen=True)
class OtherMinima:
    """Minima besides the answer, the lowest first.

    Args:
        u: Solver coordinates (minima, unknowns).
        cost: χ² (minima,).
        std: Standard deviations of each by its curvature (minima, unknowns).
        starts: How many starts of the search ended at each.
    """

    u: Tensor
    cost: Tensor
    std: Tensor
    starts: list[int]

    def __len__(self) -> int:
        return len(self.u)

    def open(self, u: Tensor, std: Tensor) -> list[bool]:
        """True for unknowns in which a minimum differs from the answer u with its standard deviations (unknowns,)."""
        return ((self.u - u).abs() > FAR * torch.maximum(self.std, std)).any(0).tolist()

    def widened(self, space: Ranges, u: Tensor, std: Tensor, estimates: dict[str, Estimate]) -> dict[str, Estimate]:
        """Estimates whose intervals hold all minima; those that differ among them are not identifiable.

        The standard deviation is that of the minima about their mean, all alike, and of each about itself.
        """
        places, spread = torch.cat([u[None], self.u]), torch.cat([std[None], self.std])
        total = (places.var(0, correction=0) + spread.square().mean(0)).sqrt()
        ends = torch.stack([places - Z95 * spread, places + Z95 * spread])
        low, high = (space.numbers(x) for x in (ends[0].amin(0), ends[1].amax(0)))
        widened = dict(estimates)
        for k, differs in enumerate(self.open(u, std)):
            e = estimates[space.names[k]]
            if differs:
                wide = total[k].item() * (e.value if space.logarithmic[k] else 1.0)
                interval = low[k].item(), high[k].item()
                widened[space.names[k]] = Estimate(e.value, wide, interval, e.unit, e.low, e.high, False, e.truth)
        return widened

    def covariance(self, u: Tensor, covariance: Tensor) -> Tensor:
        """Covariance (unknowns, unknowns) of the answer u, whose own is given, and the minima, all alike."""
        off = torch.cat([u[None], self.u])
        off = off - off.mean(0)
        return covariance + off.T @ off / len(off)

    def words(self, space: Ranges, cost: float) -> str:
        """A note: where they are, and what would tell them apart."""
        places = []
        for u, std, other in zip(self.u, self.std, self.cost.tolist(), strict=True):
            numbers = space.numbers(torch.stack([u, u + std]))
            parts = (
                f"{name} = {with_error(value, abs(error - value))}" + (f" {unit}" if unit else "")
                for name, unit, value, error in zip(space.names, space.units, *numbers.tolist(), strict=True)
            )
            places.append(f"{', '.join(parts)} (χ² {other - cost:+.2g})")
        return (
            f"The data are explained as well elsewhere: {'; '.join(places)}. Nothing in them tells which is the truth. Narrow a range "
            "so that it leaves one, fix an unknown or give it a prior, or record another motion or view."
        )

    def result(self, space: Ranges) -> list[dict]:
        """For `result.json`."""
        rows = zip(self.u, self.std, self.cost.tolist(), self.starts, strict=True)
        return [
            {
                "values": dict(zip(space.names, space.numbers(u).tolist(), strict=True)),
                "relative_std": dict(zip(space.names, (std / space.unit).tolist(), strict=True)),
                "chi2": cost,
                "starts": starts,
            }
            for u, std, cost, starts in rows
        ]


def other_minima(
    problem: Problem, u: Tensor, cost: float, information: Tensor, ends: Tensor, variance: float = 1.0
) -> OtherMinima | None:
    """Minima besides the answer that explain the data as well; None where there are none.

    Args:
        problem: At the time step of the answer.
        u: The answer (unknowns,).
        cost: Its χ².
        information: About it (unknowns, unknowns), whitened by the noise.
        ends: Where starts of the search ended (starts, unknowns).
        variance: Variance of the whitened residuals.
    """
    ends = ends[_is_elsewhere(problem, ends, u[None], information[None])]
    if not len(ends):
        return None
    clean = problem.observation.noise_floor(problem.frames).level < NOISELESS_LEVEL
    most = cost + ALIKE * variance
    if clean:
        explained = max(solved_cost(problem, problem.frames), rounding_cost(problem, u, problem.frames))
        most = max(NOISELESS_SHARE * cost, explained)
    iterates, _ = descend(
        problem, Population.at(ends), problem.frames, "pixels", ITERATIONS, min_decrease=least_decrease(problem)
    )
    iterates = iterates[iterates.cost.argsort()]
    iterates = iterates[iterates.cost <= most]
    if not len(iterates.cost):
        return None
    _, A, _ = problem.linearize(iterates.u, problem.frames)
    A = A / variance
    centers, informations, rows, starts = u[None], information[None], [], []
    for k, place in enumerate(iterates.u):
        away = _is_elsewhere(problem, place.expand(len(centers), -1), centers, informations)
        if not away.all():
            if len(centers) > 1 and away[0]:
                starts[int((~away[1:]).nonzero()[0])] += 1
        elif len(rows) < MOST:
            rows, starts = [*rows, k], [*starts, 1]
            centers, informations = torch.cat([centers, place[None]]), torch.cat([informations, A[[k]]])
    if not rows:
        return None
    std = _std(A[rows])
    minima = OtherMinima(iterates.u[rows], iterates.cost[rows], std, starts)
    return minima if any(minima.open(u, _std(information))) else None


def _std(information: Tensor) -> Tensor:
    """Standard deviations (..., unknowns) by information (..., unknowns, unknowns)."""
    return torch.linalg.pinv(information, hermitian=True).diagonal(dim1=-2, dim2=-1).clamp(min=0).sqrt()


def _is_elsewhere(problem: Problem, points: Tensor, centers: Tensor, information: Tensor) -> Tensor:
    """True for points (n, unknowns) far beyond the error bars of centers (n or 1, unknowns), with their information."""
    off = points - centers
    distance = torch.einsum("ki,kij,kj->k", off, information.expand(len(off), -1, -1), off)
    return (distance > FAR**2) & ((off / problem.space.unit).abs().amax(1) > APART)
