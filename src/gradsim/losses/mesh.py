"""How rough a surface is: what keeps it in shape where pictures say nothing.

    laplacian = mean |x_i − mean of its neighbours|²      over vertices (Taubin 1995; in Liu et al. 2019 as a sum)
    flatness  = mean (1 − n_a · n_b)²                     over edges, n of the two faces (Kato et al. 2018, as a sum)

Both are 0 on a flat, regular grid. The first also shrinks and evens out triangles, the second only flattens edges, and is
the same at any size. As means, their weights stay good when a mesh is refined.

Steps that keep a surface smooth (Nicolet et al. 2021, "Large steps in inverse rendering of geometry").

    x = S u,    S = (1 + λ L)⁻¹,    L = degrees − adjacency

Descend on u in place of the vertices x. A gradient that an image has at a few vertices only, those of the outline, then
moves those around them too, and steps may be large without folds; what u = S⁻¹ x of any x can be reached.
"""

import torch
from torch import Tensor

from gradsim.render.shading.lights import unit


def laplacian(vertices: Tensor, faces: Tensor) -> Tensor:
    """Mean squared distance of vertices from the middle of their neighbours [m²], (...).

    Args:
        vertices: (..., n, 3) [m]. Those at the rim of an open sheet, and those of no face, do not count; 0 if none does.
        faces: (m, 3).
    """
    n = vertices.shape[-2]
    keys, count = _sides(faces, n).unique(return_counts=True)
    ends = torch.stack([keys // n, keys % n])
    here, there = ends.flatten(), ends.flip(0).flatten()
    neighbours = here.bincount(minlength=n)
    total = torch.zeros_like(vertices).index_add(-2, here, vertices[..., there, :])
    inner = neighbours > 0
    inner[ends[:, count == 1].flatten()] = False
    apart = (vertices - total / neighbours.clamp_min(1)[:, None])[..., inner, :]
    return apart.square().sum(-1).sum(-1) / max(apart.shape[-2], 1)


def flatness(vertices: Tensor, faces: Tensor) -> Tensor:
    """Mean of (1 − cos)² of the angle by which the surface turns across its edges (...), from 0 to 4; 0 without any.

    Args:
        vertices: (..., n, 3) [m].
        faces: (m, 3), neighbours in the same sense. A face without an area counts as turned by a right angle.
    """
    a, b, c = vertices[..., faces.long(), :].unbind(-2)
    normals = unit(torch.linalg.cross(b - a, c - a))
    keys, order = _sides(faces, vertices.shape[-2]).sort()
    same = (keys[1:] == keys[:-1]).nonzero()[:, 0]
    left, right = order[same] // 3, order[same + 1] // 3
    turned = 1 - (normals[..., left, :] * normals[..., right, :]).sum(-1)
    return turned.square().sum(-1) / max(len(left), 1)


def _sides(faces: Tensor, n: int) -> Tensor:
    """A number (3 m,) for each side of each face, the same for both directions; n vertices in all."""
    ends = faces.long()[:, [[0, 1], [1, 2], [2, 0]]].flatten(0, 1).sort(1).values
    return ends[:, 0] * n + ends[:, 1]


def smoothing(faces: Tensor, vertices: int, strength: float) -> tuple[Tensor, Tensor]:
    """S and its inverse 1 + λ L (n, n) float64, dense: for some thousand vertices.

    Args:
        faces: Triangles (m, 3).
        vertices: n.
        strength: λ, at least 0: a step reaches about √λ edges far.

    Raises:
        ValueError: If the strength is negative.
    """
    if strength < 0:
        raise ValueError(f"strength is {strength}; it needs to be at least 0.")
    ends = faces.long()
    adjacent = torch.zeros(vertices, vertices, dtype=torch.float64, device=faces.device)
    for first, second in ((0, 1), (1, 2), (2, 0)):
        adjacent[ends[:, first], ends[:, second]] = adjacent[ends[:, second], ends[:, first]] = 1.0
    inverse = torch.eye(vertices).to(adjacent) + strength * (torch.diag(adjacent.sum(1)) - adjacent)
    return torch.linalg.inv(inverse), inverse
