"""Mesh regularizers and a smoothing preconditioner for surface optimization.

    laplacian = mean |x_i − mean of its neighbours|²      over vertices (Taubin 1995; in Liu et al. 2019 as a sum)
    flatness  = mean (1 − n_a · n_b)²                     over edges, n of the two faces (Kato et al. 2018, as a sum)

Both are 0 on a flat, regular grid. The first also shrinks and evens out triangles; the second only flattens edges and is
scale-invariant. They are means, so their weights need no change when a mesh is refined.

    x = S u,    S = (1 + λ L)⁻¹,    L = degrees − adjacency                      (Nicolet et al. 2021, "Large steps in
                                                                                  inverse rendering of geometry")

Optimize u in place of the vertices x. The gradient of an image, nonzero only at vertices of the outline, then moves their
neighbours as well, and large steps do not fold the mesh. S is invertible: u = S⁻¹ x exists for every x.
"""

import torch
from torch import Tensor

from gradsim.render.shading.lights import unit


def laplacian(vertices: Tensor, faces: Tensor) -> Tensor:
    """Mean squared distance of vertices from the mean of their neighbours [m²], (...); 0 without inner vertices.

    Args:
        vertices: (..., n, 3) [m]. Vertices on the boundary of an open sheet, and those of no face, do not count.
        faces: (m, 3).
    """
    n = vertices.shape[-2]
    keys, count = _edge_keys(faces, n).unique(return_counts=True)
    ends = torch.stack([keys // n, keys % n])
    source, neighbour = ends.flatten(), ends.flip(0).flatten()
    degree = source.bincount(minlength=n)
    total = torch.zeros_like(vertices).index_add(-2, source, vertices[..., neighbour, :])
    inner = degree > 0
    inner[ends[:, count == 1].flatten()] = False
    offset = (vertices - total / degree.clamp_min(1)[:, None])[..., inner, :]
    return offset.square().sum(-1).sum(-1) / max(offset.shape[-2], 1)


def flatness(vertices: Tensor, faces: Tensor) -> Tensor:
    """Mean of (1 − cos)² of the angle between adjacent faces (...), from 0 to 4; 0 without inner edges.

    Args:
        vertices: (..., n, 3) [m].
        faces: (m, 3), consistently oriented. A degenerate face counts as turned by a right angle.
    """
    a, b, c = vertices[..., faces.long(), :].unbind(-2)
    normals = unit(torch.linalg.cross(b - a, c - a))
    keys, order = _edge_keys(faces, vertices.shape[-2]).sort()
    same = (keys[1:] == keys[:-1]).nonzero()[:, 0]
    left, right = order[same] // 3, order[same + 1] // 3
    bend = 1 - (normals[..., left, :] * normals[..., right, :]).sum(-1)
    return bend.square().sum(-1) / max(len(left), 1)


def _edge_keys(faces: Tensor, n: int) -> Tensor:
    """Integer key (3 m,) of each edge of each face, the same in both directions; n vertices in all."""
    ends = faces.long()[:, [[0, 1], [1, 2], [2, 0]]].flatten(0, 1).sort(1).values
    return ends[:, 0] * n + ends[:, 1]


def smoothing(faces: Tensor, vertices: int, strength: float) -> tuple[Tensor, Tensor]:
    """S and its inverse 1 + λ L, dense (n, n) float64; for up to some thousand vertices.

    Args:
        faces: Triangles (m, 3).
        vertices: n.
        strength: λ, at least 0; smoothing length is about √λ edges.

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
