"""Pictures that smoke is to form, and the smoke at the start: shapes drawn by their signed distance.

A box is 1 m wide, x to the right and y downwards. Inside is 1, outside 0, with an edge of the same width [m] on all grids.
"""

import math

import torch
from torch import Tensor

EDGE = 0.02  # [m] over which a picture goes from 0.12 to 0.88
LOW = 0.15  # [m] that the disc at the start lies below the middle


def targets(n: int) -> dict[str, Tensor]:
    """The three pictures (n, n)."""
    return {name: _filled(draw(*_places(n))) for name, draw in _SHAPES.items()}


def disc(n: int, mass: Tensor) -> Tensor:
    """Smoke at the start (n, n): a filled disc, below the middle, of the mass Σ ρ that the picture has.

    A flow without divergence makes no smoke, so another mass could not form the picture.
    """
    x, y = _places(n)
    radius = (mass / n**2 / math.pi).sqrt()
    smoke = _filled((x - 0.5).hypot(y - 0.5 - LOW) - radius)
    return smoke * (mass / smoke.sum())


def _places(n: int) -> tuple[Tensor, Tensor]:
    along = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    y, x = torch.meshgrid(along, along, indexing="ij")
    return x, y


def _filled(distance: Tensor) -> Tensor:
    return torch.sigmoid(-4 / EDGE * distance)


def _ring(x: Tensor, y: Tensor) -> Tensor:
    return ((x - 0.5).hypot(y - 0.5) - 0.26).abs() - 0.055


def _blobs(x: Tensor, y: Tensor) -> Tensor:
    return torch.minimum((x - 0.3).hypot(y - 0.36) - 0.19, (x - 0.72).hypot(y - 0.68) - 0.146)


def _letter(x: Tensor, y: Tensor) -> Tensor:
    """A G: an arc from 45° above the right to the right itself, the long way round, and a bar."""
    radius, half = 0.25, 0.06
    begin = -math.pi / 4
    angle = torch.atan2(y - 0.5, x - 0.5)
    end = (x - 0.5 - radius * math.cos(begin)).hypot(y - 0.5 - radius * math.sin(begin))
    open_part = (angle > begin) & (angle < 0)
    arc = torch.where(open_part, end, ((x - 0.5).hypot(y - 0.5) - radius).abs())
    bar = (x - x.clamp(0.55, 0.5 + radius)).hypot(y - 0.52)
    return torch.minimum(arc, bar) - half


_SHAPES = {"ring": _ring, "letter": _letter, "blobs": _blobs}
