"""Tolerances of an approximate answer: how far its numbers are good though the model misses something.

Where one cause c that was fitted (`uncertainty.causes`) leaves nothing that is not explained, the numbers with it, u_c ± σ_c, and
those without it, u, differ by what the model misses. Effects are known to the first order and several causes may explain
the same, so the half width of the 95 % interval about u is

    h = max_c (M |u_c − u| + 1.96 σ_c)       M = 1.5, c: all causes that explain the video

If no cause explains it, nobody knows what the model misses, and there are no tolerances.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from gradsim.identification.uncertainty.causes import Cause
from gradsim.identification.uncertainty.intervals import Z95
from gradsim.identification.unknowns import Ranges

MARGIN = 1.5  # of a shift: effects are of the first order, and a cause may be the neighbour of the true one
LIKELY = 5.0  # typical sizes of a number beyond which it explains the video by chance
LARGEST = 0.1  # relative half width up to which an answer is approximate


def tolerances(space: Ranges, u: Tensor, causes: Sequence[Cause]) -> Tensor | None:
    """Half widths of 95 % intervals about an answer, in solver coordinates (unknowns,); None where it is not approximate.

    Args:
        space: The unknowns.
        u: The answer (unknowns,).
        causes: Of its mismatch, best first.
    """
    if not causes or not causes[0].explained or causes[0].unusual > LIKELY:
        return None
    reach = 1e-6 * space.unit
    if ((u <= space.low + reach) | (u >= space.high - reach)).any():  # the search would have gone on
        return None
    rows = [
        MARGIN * torch.tensor(cause.shift).double().abs() + Z95 * torch.tensor(cause.std).double()
        for cause in causes
        if cause.explained and cause.shift
    ]
    half = torch.stack(rows).amax(0) if rows else torch.full_like(u, torch.inf)
    return half if (relative(space, u, half) <= LARGEST).all() else None


def relative(space: Ranges, u: Tensor, half: Tensor) -> Tensor:
    """Half widths (unknowns,) over the values; those of a value near 0 are large."""
    size = space.numbers(u).abs().clamp(min=1e-300)
    return half / torch.where(torch.tensor(space.logarithmic), 1.0, size)
