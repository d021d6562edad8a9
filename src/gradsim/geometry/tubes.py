"""Tubes along strands of points: a closed surface that follows them.

Each point of a strand with tangents t_i has a ring of radius r in the plane normal to t_i, spanned by n_i and t_i × n_i.
The first n is normal to the world axis that t_0 is furthest from; the others are transported, n_i ∝ n_{i−1} −
(n_{i−1}·t_i) t_i, so that the tube does not twist. Tubes of crossing strands intersect.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gradsim.geometry.mesh import Mesh

SIDES = 6


class Tubes:
    """Surface of tubes around strands.

    Args:
        strands: Indices of the points of each strand, in order, at least two.
        rest: Points at rest (n, 3) [m].
        radius: Radius at rest [m].
    """

    def __init__(self, strands: Sequence[np.ndarray], rest: np.ndarray, radius: float):
        self.strands = [torch.tensor(strand) for strand in strands]
        faces, first = [], 0
        for strand in strands:
            faces.append(_faces(len(strand)) + first)
            first += len(strand) * SIDES
        around = self.around(torch.tensor(rest)[None, None], torch.tensor([radius], dtype=torch.float64))
        self.mesh = Mesh(around[0, 0].numpy(), np.concatenate(faces))

    def around(self, x: Tensor, radius: Tensor) -> Tensor:
        """Vertices (worlds, frames, k, 3) from points (worlds, frames, n, 3) and radii (worlds,) [m]."""
        turns = 2 * math.pi * torch.arange(SIDES, dtype=x.dtype, device=x.device) / SIDES
        wheel = torch.stack([torch.cos(turns), torch.sin(turns)], -1)
        tubes = []
        for strand in self.strands:
            points = x[:, :, strand]
            tangents = _directions(points)
            normals = _transported(tangents)
            frame = torch.stack([normals, torch.linalg.cross(tangents, normals)], -2)
            rings = points[..., None, :] + radius[:, None, None, None, None] * (wheel @ frame)
            tubes.append(rings.flatten(2, 3))
        return torch.cat(tubes, 2)


def _faces(count: int) -> np.ndarray:
    """Triangles of one tube with lids, counter-clockwise from outside."""
    ring = SIDES * np.arange(count - 1)[:, None]
    k, after = np.arange(SIDES), (np.arange(SIDES) + 1) % SIDES
    a, b, c, d = ring + k, ring + after, ring + SIDES + after, ring + SIDES + k
    sides = np.concatenate([np.stack([a, b, c], -1).reshape(-1, 3), np.stack([a, c, d], -1).reshape(-1, 3)])
    lid = np.stack([np.zeros(SIDES - 2, int), k[1:-1], k[2:]], -1)
    return np.concatenate([sides, lid[:, ::-1], lid + SIDES * (count - 1)])


def _directions(points: Tensor) -> Tensor:
    """Unit tangents (..., count, 3) of a strand, from the directions to both neighbours."""
    segments = _unit(points[..., 1:, :] - points[..., :-1, :])
    both = torch.cat([segments[..., :1, :], segments[..., 1:, :] + segments[..., :-1, :], segments[..., -1:, :]], -2)
    return _unit(both)


def _transported(tangents: Tensor) -> Tensor:
    first = tangents[..., 0, :]
    axis = torch.nn.functional.one_hot(first.abs().argmin(-1), 3).to(first.dtype)
    normals = [_across(axis, first)]
    for t in tangents[..., 1:, :].unbind(-2):
        normals.append(_across(normals[-1], t))
    return torch.stack(normals, -2)


def _across(n: Tensor, t: Tensor) -> Tensor:
    return _unit(n - (n * t).sum(-1, keepdim=True) * t)


def _unit(x: Tensor) -> Tensor:
    """x/|x|, and 0 with derivative 0 where x is 0."""
    square = x.square().sum(-1, keepdim=True)
    nonzero = square > 0
    return torch.where(nonzero, x / torch.where(nonzero, square, 1.0).sqrt(), 0.0)
