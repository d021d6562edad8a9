"""Minima elsewhere that explain the data as well as the answer, so that nothing in the data tells which is the truth.

A body on a hinge swings alike with its center of mass at two distances from the axis (Kater's pendulum: their product is I/m), and with several unknowns there
may be more such twins. Each is a sharp minimum, which the curvature at one of them does not show. So where starts
of a search ended, other than at the answer û, is compared with it:

    (u − û)ᵀ A (u − û) > 25        far beyond the error bars
    χ²(u) − χ²(û) < 10             with noise: a mass of more than 1 % of the answer's, if they are equally wide

Of frames without noise it has to leave no more than rounding does, or than the answer does. An angle and the same a turn on are one place.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

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
SAME = 1e-4  # of a logarithm or range: ends so near to one another come to one minimum
OTHER_STEPS = 10.0  # times what counts as alike, on the time steps of a search: these move χ² of two minima apart
OTHER_STEPS_CLEAN = 100.0  # times what the answer leaves on those steps, without noise
ANGLE, ROTATION = (
    "rad",
    ".rotation_vector.x",
)  # unit of what is the same a turn on; ending of the first of three numbers that are so together


@dataclass(frozen=True)
class OtherMinima:
    """Minima besides the answer, the lowest first.

    Args:
        u: Solver coordinates (minima, unknowns).
        cost: χ² (minima,).
        std: Standard deviations of each by its curvature (minima, unknowns).
        ends: Rows of the ends that came to each, among all ends.
        decisive: χ² below which a minimum is better than the answer.
    """

    u: Tensor
    cost: Tensor
    std: Tensor
    ends: list[list[int]]
    decisive: float = -math.inf

    def __len__(self) -> int:
        return len(self.u)

    @property
    def starts(self) -> list[int]:
        """Number of ends that came to each."""
        return [len(rows) for rows in self.ends]

    @property
    def is_better(self) -> bool:
        """True if the data are explained better by the lowest of them than by the answer."""
        return self.cost[0].item() < self.decisive

    def among(self, samples: Tensor) -> "OtherMinima | None":
        """Those about which samples of the posterior (samples, unknowns) are; None where there are none."""
        off = (samples - self.u[:, None]).abs() <= FAR * self.std[:, None]
        rows = off.all(2).any(1).nonzero()[:, 0].tolist()
        ends = [self.ends[k] for k in rows]
        return replace(self, u=self.u[rows], cost=self.cost[rows], std=self.std[rows], ends=ends) if rows else None

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

    def words(self, space: Ranges, answer: Tensor, std: Tensor, cost: float) -> str:
        """A note: where they and the answer (unknowns,), with its standard deviations and χ², are, and what would tell them apart."""
        places = []
        minima = zip([answer, *self.u], [std, *self.std], [cost, *self.cost.tolist()], strict=True)
        for u, spread, other in minima:
            numbers = space.numbers(torch.stack([u, u + spread]))
            parts = (
                f"{name} = {with_error(value, abs(error - value))}" + (f" {unit}" if unit else "")
                for name, unit, value, error in zip(space.names, space.units, *numbers.tolist(), strict=True)
            )
            places.append(", ".join(parts) + (f" (χ² {other - cost:+.2g})" if places else ""))
        return (
            f"The data are explained as well in {len(places)} places: {'; '.join(places)}. Nothing in them tells which is the truth. Narrow a range "
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


@dataclass(frozen=True)
class Limits:
    """Costs up to which minima other than the answer count.

    Args:
        most: χ² of a minimum that explains the data as well as the answer.
        decisive: χ² below which one explains them better.
        answer: The answer (unknowns,) on the time steps of the search.
        most_there: χ² on those steps beyond which an end is hopeless.
    """

    most: float
    decisive: float
    answer: Tensor
    most_there: float

    @classmethod
    def of(cls, problem: Problem, u: Tensor, cost: float, variance: float = 1.0, searched: Problem | None = None):
        """Those of an answer; arguments as for `other_minima`."""
        clean = problem.observation.noise_floor(problem.frames).level < NOISELESS_LEVEL
        most, decisive, explained = cost + ALIKE * variance, cost - variance, 0.0
        if clean:
            explained = max(solved_cost(problem, problem.frames), rounding_cost(problem, u, problem.frames))
            most = max(NOISELESS_SHARE * cost, explained)
            decisive = cost / NOISELESS_SHARE if cost > explained else -math.inf
        if searched is None or searched is problem:
            return cls(most, decisive, u, most)
        minimum = _at_minima(searched, u[None])
        lowest = minimum.cost[0].item()
        most_there = max(OTHER_STEPS_CLEAN * lowest, explained) if clean else lowest + OTHER_STEPS * ALIKE * variance
        return cls(most, decisive, minimum.u[0], most_there)


def other_minima(
    problem: Problem,
    u: Tensor,
    cost: float,
    information: Tensor,
    ends: Tensor,
    variance: float = 1.0,
    searched: Problem | None = None,
    limits: Callable[[], Limits] | None = None,
) -> OtherMinima | None:
    """Minima besides the answer that explain the data as well; None where there are none.

    Args:
        problem: At the time step of the answer.
        u: The answer (unknowns,).
        cost: Its χ².
        information: About it (unknowns, unknowns), whitened by the noise.
        ends: Where starts of the search ended (starts, unknowns).
        variance: Variance of the whitened residuals.
        searched: The problem at the time steps of the search, where these are longer: ends that are hopeless there are left.
        limits: Returns the costs up to which minima count, where something else needs them, too.
    """
    ends, members = _distinct(problem, ends)
    away = _is_elsewhere(problem, ends, u[None], information[None]).nonzero()[:, 0]
    ends, members = ends[away], [members[k] for k in away]
    if not len(ends):
        return None
    bounds = limits() if limits else Limits.of(problem, u, cost, variance, searched)
    if searched is not None and searched is not problem:
        at_search = _at_minima(searched, ends, bounds.most_there)
        near = _without_turns(problem.space, at_search.u, bounds.answer[None])
        off = ((near - bounds.answer) / problem.space.unit).abs().amax(1)
        keep = ((at_search.cost <= bounds.most_there) & (off > SAME)).nonzero()[:, 0]
        ends, members = at_search.u[keep], [members[k] for k in keep]
        if not len(ends):
            return None
    iterates = _at_minima(problem, ends, bounds.most)
    order = iterates.cost.argsort()
    order = order[iterates.cost[order] <= bounds.most]
    if not len(order):
        return None
    iterates, members = iterates[order], [members[k] for k in order]
    _, A, _ = problem.linearize(iterates.u, problem.frames)
    A = A / variance
    centers, informations, rows, came = u[None], information[None], list[int](), list[list[int]]()
    for k, place in enumerate(iterates.u):
        away = _is_elsewhere(problem, place.expand(len(centers), -1), centers, informations)
        if not away.all():
            if len(centers) > 1 and away[0]:
                came[int((~away[1:]).nonzero()[0])] += members[k]
        elif len(rows) < MOST:
            rows, came = [*rows, k], [*came, list(members[k])]
            centers, informations = torch.cat([centers, place[None]]), torch.cat([informations, A[[k]]])
    if not rows:
        return None
    std = _std(A[rows])
    minima = OtherMinima(iterates.u[rows], iterates.cost[rows], std, came, bounds.decisive)
    return minima if any(minima.open(u, _std(information))) else None


def _at_minima(problem: Problem, ends: Tensor, bound: float = math.inf) -> Population:
    """Minima below places (ends, unknowns); those that will stay beyond a bound of χ² are left on the way."""
    least = least_decrease(problem)
    start = Population.at(ends)
    return descend(problem, start, problem.frames, "pixels", ITERATIONS, min_decrease=least, bound=bound)[0]


def _distinct(problem: Problem, ends: Tensor) -> tuple[Tensor, list[list[int]]]:
    """Ends (ends, unknowns) without those near another, and the rows of each and of these."""
    shares, firsts, rows = ends / problem.space.unit, list[int](), list[list[int]]()
    for k, share in enumerate(shares):
        near = ((shares[firsts] - share).abs().amax(1) < SAME).nonzero()[:, 0]
        if len(near):
            rows[int(near[0])].append(k)
        else:
            firsts, rows = [*firsts, k], [*rows, [k]]
    return ends[firsts], rows


def _without_turns(space: Ranges, points: Tensor, centers: Tensor) -> Tensor:
    """Points (n, unknowns) with angles, and rotation vectors of which all three numbers are unknown, as near to centers (n or 1, unknowns) as whole turns make them."""
    points, columns = points.clone(), {name: k for k, name in enumerate(space.names)}
    angles = {k for k, unit in enumerate(space.units) if unit == ANGLE and not space.logarithmic[k]}
    for name in columns:
        vector = [columns.get(f"{name.removesuffix('.x')}.{letter}", -1) for letter in "xyz"]
        if name.endswith(ROTATION) and angles.issuperset(vector):
            angles -= set(vector)
            part = points[:, vector]
            turns = torch.tensor([-1.0, 0.0, 1.0]).double() * math.tau
            by_length = turns / torch.linalg.norm(part, dim=1, keepdim=True).clamp(min=APART)
            same = part[:, None] * (1 + by_length)[..., None]
            nearest = (same - centers[:, None, vector]).square().sum(2).argmin(1)
            points[:, vector] = same[torch.arange(len(points)), nearest]
    for k in angles:
        points[:, k] -= math.tau * ((points[:, k] - centers[:, k]) / math.tau).round()
    return points


def _std(information: Tensor) -> Tensor:
    """Standard deviations (..., unknowns) by information (..., unknowns, unknowns)."""
    return torch.linalg.pinv(information, hermitian=True).diagonal(dim1=-2, dim2=-1).clamp(min=0).sqrt()


def _is_elsewhere(problem: Problem, points: Tensor, centers: Tensor, information: Tensor) -> Tensor:
    """True for points (n, unknowns) far beyond the error bars of centers (n or 1, unknowns), with their information."""
    off = _without_turns(problem.space, points, centers) - centers
    distance = torch.einsum("ki,kij,kj->k", off, information.expand(len(off), -1, -1), off)
    return (distance > FAR**2) & ((off / problem.space.unit).abs().amax(1) > APART)
