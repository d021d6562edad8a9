"""Tubes along strands of points: a closed surface that follows them.

At each point of a strand with directions t_i stands a ring of radius r in the plane across t_i, spanned by n_i and t_i × n_i.
The first n is across the axis of the world that t_0 is furthest from; the others are carried along, n_i ∝ n_{i−1} −
(n_{i−1}·t_i) t_i, so that the tube does not twist. Where two strands cross, so do their tubes.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gradsim.geometry.mesh import Mesh

SIDES = 6


class Tubes:
    """A surface around strands.

    Args:
        strands: Points of each, two at least, in order.
        rest: All points at rest (n, 3) [m].
        radius: [m], for the shape at rest.
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
        """Its vertices (worlds, frames, k, 3) from the points (worlds, frames, n, 3) and the radius (worlds,) [m]."""
        turns = 2 * math.pi * torch.arange(SIDES, dtype=x.dtype, device=x.device) / SIDES
        wheel = torch.stack([torch.cos(turns), torch.sin(turns)], -1)
        tubes = []
        for strand in self.strands:
            points = x[:, :, strand]
            tangents = _directions(points)
            normals = _carried(tangents)
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
    """Unit vectors (..., count, 3) along a strand: of the sum of the directions of both neighbours."""
    each = _unit(points[..., 1:, :] - points[..., :-1, :])
    both = torch.cat([each[..., :1, :], each[..., 1:, :] + each[..., :-1, :], each[..., -1:, :]], -2)
    return _unit(both)


def _carried(tangents: Tensor) -> Tensor:
    first = tangents[..., 0, :]
    axis = torch.nn.functional.one_hot(first.abs().argmin(-1), 3).to(first.dtype)
    normals = [_across(axis, first)]
    for t in tangents[..., 1:, :].unbind(-2):
        normals.append(_across(normals[-1], t))
    return torch.stack(normals, -2)


def _across(n: Tensor, t: Tensor) -> Tensor:
    return _unit(n - (n * t).sum(-1, keepdim=True) * t)


def _unit(x: Tensor) -> Tensor:
    """x/|x|, and 0 where x is: its derivative is finite there."""
    square = x.square().sum(-1, keepdim=True)
    there = square > 0
    return torch.where(there, x / torch.where(there, square, 1.0).sqrt(), 0.0)
