"""Information on unknowns that masks would give whose outlines are off by a stated size, before there is a film.

It is that of `uncertainty.outline` with variances that are assumed in place of measured ones: shifts of the whole outline, deformations
that fall with the square of their harmonic from the third on, and an offset of all outlines with its prior.
"""

import torch
from torch import Tensor

from gradsim.identification.problem import Problem
from gradsim.identification.uncertainty.outline import OFFSET, SHARED_SHARE, sandwich
from gradsim.identification.uncertainty.outline_sums import HARMONICS, balanced_inverse, sums_by_frame
from gradsim.numerics.memory import Memory

WAVY = 1 / 2  # variance of a deformation of the second or third harmonic over that of a shift


def expected_information(problem: Problem, u: Tensor, size: float, shift: float, correlation: float) -> Tensor:
    """Information (unknowns, unknowns) without priors, the offset of all outlines eliminated.

    Args:
        problem: Of one clip and camera with `Masks`; its data do not matter.
        u: Unknowns at which it is (unknowns,).
        size: RMS displacement of an outline [px].
        shift: RMS shift of a frame's whole outline along each axis [px].
        correlation: ρ of a harmonic in one frame with the next.
    """
    n, px = len(u), problem.observation.parts[""].silhouettes.binning  # pyright: ignore[reportAttributeAccessIssue] -- Masks
    frames = sums_by_frame(problem, u)
    wavy = WAVY * torch.tensor([min(1.0, (2.5 / k) ** 2) for k in range(2, HARMONICS + 1)]).double()
    power = torch.cat([torch.ones(2).double(), wavy.repeat_interleave(2), torch.tensor([WAVY]).double()])
    power = power * (shift / px) ** 2
    rest = max((size / px) ** 2 - power[::2].sum().item(), 0.1 * (size / px) ** 2)
    shared = torch.eye(2).double() * (SHARED_SHARE * size / px) ** 2
    H, M = sandwich(frames._replace(rest=rest), power, Memory(correlation), shared)
    K = H @ balanced_inverse(M) @ H
    K[n, n] += (px / OFFSET) ** 2
    return K[:n, :n] - torch.outer(K[:n, n], K[n, :n]) / K[n, n]
