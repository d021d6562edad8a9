"""Lower bound of χ² of a film, by the frames before its first contact.

    χ²(u) ≥ min_v χ²_flight(v),      all u

Contact cuts the likelihood into valleys, and a search may have ended in the wrong one: then samples of the posterior are a second search, which
takes minutes. But a motion in flight is smooth in its unknowns, and its frames have one minimum. Where these alone leave more than noise would leave
of the whole film, no valley explains it: the noise is louder than stated, or camera, clock or forces are wrong.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from gradsim.identification.problem import Problem
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.identification.solvers.thresholds import SAME_COST
from gradsim.identification.uncertainty.residual_diagnostics import chi2_limit, first_contact

STARTS, MIN_AGREEING = 8, 3  # that the frames of the flight are fitted from, and that have to come to one minimum
ITERATIONS, RTOL = 20, 1e-6  # linearizations; relative difference of χ² of one minimum
MIN_FLIGHT = 4  # frames
MARGIN = 1.5  # times what noise would leave of the whole film


class Flight(NamedTuple):
    """Frames before the first contact, and χ² that they leave at their minimum, for each residual of the whole film that carries information."""

    frames: int
    chi2_per_n: float


def refuting_flight(problem: Problem, u: Tensor, starts: Tensor, informative: float) -> Flight | None:
    """The flight of a film, where its frames alone leave more than noise would leave of all; None if they do not, or a body is held.

    Args:
        problem: Of one clip, with residuals whitened by the stated noise.
        u: The answer (unknowns,).
        starts: Other points (starts, unknowns) that the flight is fitted from.
        informative: Number of residuals of the whole film that carry information.
    """
    trajectory = problem.trajectory(u)
    if not all(system.in_free_flight for system in trajectory.systems):
        return None
    contact = first_contact(trajectory)
    frames = problem.frames if contact is None else contact - 1
    if frames < MIN_FLIGHT:
        return None
    starts = torch.cat([u[None], starts[: STARTS - 1]])
    cost = descend(problem, Population.at(starts), frames, "pixels", ITERATIONS)[0].cost
    if (cost < cost.min() + SAME_COST + RTOL * cost.min()).sum() < MIN_AGREEING:
        return None
    noise = problem.observation.noise_floor(frames).cost
    flight = Flight(frames, (cost.min().item() - noise) / max(1.0, informative))
    return flight if flight.chi2_per_n > MARGIN * chi2_limit(max(1.0, informative)) else None
