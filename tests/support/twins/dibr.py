"""DIB-R by its formulas: every face at every pixel, in plain PyTorch, differentiated by autograd. Slow.

A = 1 at covered pixels, else 1 − Π (1 − exp(−d_j² / δ))           (Chen et al. 2019, Eqs. 4 and 5)
"""

import math

import torch
from torch import Tensor
from twins.softras import pixels
from twins.zbuffer import nearest

FAINT = 1e-4  # triangles count where exp(−d² / δ) is at least this


def square_distance(corners: Tensor, p: Tensor) -> Tensor:
    """To the borders of triangles (m, 3, 2) from points (P, 2): (P, m)."""
    sides = []
    for k in range(3):
        begin, way = corners[:, k], corners[:, (k + 1) % 3] - corners[:, k]
        from_begin = p[:, None] - begin
        share = ((from_begin * way).sum(-1) / way.square().sum(-1)).clamp(0, 1)
        sides.append((from_begin - share[..., None] * way).square().sum(-1))
    return torch.stack(sides).amin(0)


def alpha(screen: Tensor, faces: Tensor, height: int, width: int, delta: float) -> Tensor:
    """(height, width)."""
    covered = nearest(screen.detach(), faces, height, width)[0] >= 0
    x = square_distance(screen[faces][..., :2], pixels(height, width)) / delta
    counts = x <= -math.log(FAINT)
    clear = torch.where(counts, -torch.expm1(-torch.where(counts, x, 1.0)), 1.0).prod(1)
    return torch.where(covered, 1.0, 1 - clear).view(height, width)
