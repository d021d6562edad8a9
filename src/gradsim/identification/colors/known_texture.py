"""Textures of a scene (`material.texture`) on the grid of a body: node colors that explain the texture at points all over its surface."""

import math

import numpy as np
import torch

from gradsim.identification.colors.texture import Texture
from gradsim.identification.colors.texture_parts import Grid, Pixels
from gradsim.physics.rigid.body import RigidBody
from gradsim.render.shading.texture import sample

DENSE = 3  # points along a cell
MOST = 24  # points along the edge of a face, at most


@torch.no_grad()
def nodes_of_texture(body: RigidBody, grid: Grid) -> np.ndarray | None:
    """Colors of all nodes (nodes, 3) from the texture of a body; None if it has none.

    Args:
        body: The body.
        grid: Its grid, at scale 1 about the center of mass.
    """
    pattern = body.part.appearance.pattern
    if pattern is None:
        return None
    places, points = pattern.uv[pattern.faces.long()], points_on(body, grid.cell)
    uv = torch.einsum("sk,fkd->fsd", _shares(body, grid.cell), places).flatten(0, 1)
    color = sample(pattern.texture.to(uv), uv).numpy()
    n = len(color)
    pixels = Pixels(color, np.ones(n), np.zeros(n, int), np.zeros((n, 8)), 1)
    return Texture(grid, points, pixels, steps=0).all_nodes()


@torch.no_grad()
def points_on(body: RigidBody, cell: float) -> np.ndarray:
    """Points (n, 3) all over the surface of a body, some along each cell of an edge, at scale 1 about the center of mass."""
    corners = body.rest[body.part.faces.long()]
    points = torch.einsum("sk,fkd->fsd", _shares(body, cell), corners).flatten(0, 1)
    if body.body.shape.sphere:
        center = -torch.tensor(body.centre).to(points)
        points = center + body.body.shape.sphere.radius * torch.nn.functional.normalize(points - center, dim=-1)
    return points.numpy()


def _shares(body: RigidBody, cell: float) -> torch.Tensor:
    """Barycentric coordinates (points, 3) of points on a face."""
    corners = body.rest[body.part.faces.long()]
    longest = (corners - corners.roll(1, 1)).norm(dim=-1).max().item()
    count = min(MOST, max(2, math.ceil(DENSE * longest / cell)))
    k = (torch.arange(count, dtype=corners.dtype) + 0.5) / count
    a, b = (x.flatten() for x in torch.meshgrid(k, k, indexing="ij"))
    inside = a + b < 1
    return torch.stack([1 - a[inside] - b[inside], a[inside], b[inside]], 1)
