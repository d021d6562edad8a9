"""Textures of a scene (`material.texture`) on the grid of a body: node colors that explain the texture at points all over its surface."""

import math

import numpy as np
import torch

from gradsim.identification.colors.texture import Grid, Pixels, Texture
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
    corners = body.rest[body.part.faces.long()]
    places = pattern.uv[pattern.faces.long()]
    longest = (corners - corners.roll(1, 1)).norm(dim=-1).max().item()
    count = min(MOST, max(2, math.ceil(DENSE * longest / grid.cell)))
    k = (torch.arange(count, dtype=corners.dtype) + 0.5) / count
    a, b = (x.flatten() for x in torch.meshgrid(k, k, indexing="ij"))
    inside = a + b < 1
    shares = torch.stack([1 - a[inside] - b[inside], a[inside], b[inside]], 1)
    points = torch.einsum("sk,fkd->fsd", shares, corners).flatten(0, 1)
    if body.body.shape.sphere:
        center = -torch.tensor(body.centre).to(points)
        points = center + body.body.shape.sphere.radius * torch.nn.functional.normalize(points - center, dim=-1)
    uv = torch.einsum("sk,fkd->fsd", shares, places).flatten(0, 1)
    color = sample(pattern.texture.to(uv), uv).numpy()
    n = len(color)
    pixels = Pixels(color, np.ones(n), np.zeros(n, int), np.zeros((n, 8)), 1)
    return Texture(grid, points.numpy(), pixels, steps=0).all_nodes()
