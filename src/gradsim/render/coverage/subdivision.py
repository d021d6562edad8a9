"""Subdivision of triangles, so that edges that a lens or a shutter bends are drawn as chains of short ones."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from gradsim.geometry.surface import Appearance, Part

MESHES = 64  # cached subdivisions


def subdivide(points: Tensor, parts: tuple[Part, ...], pieces: list[int]) -> tuple[Tensor, tuple[Part, ...]]:
    """Cut the edges of each part into pieces of equal length; differentiable.

    Args:
        points: Vertices (..., n, d), part after part.
        parts: Parts with their faces.
        pieces: Number of pieces of an edge, of each part.

    Returns:
        Points (..., n', d), and parts with their faces, uniform color and no texture.
    """
    if all(count == 1 for count in pieces):
        return points, parts
    columns, cut, first = [], [], 0
    for part, count in zip(parts, pieces, strict=True):
        faces, corners, weights = lattice(part.faces, part.size, count)
        old = points[..., part.vertices, :]
        a, b, c = (old[..., corners[:, k], :] * weights[:, k, None].to(points) for k in range(3))
        new = a + b + c
        columns.append(torch.cat([old, new], -2) if len(corners) else old)
        n = columns[-1].shape[-2]
        look = part.appearance if count == 1 else Appearance(part.appearance.color)
        cut.append(replace(part, vertices=slice(first, first + n), faces=faces, appearance=look))
        first += n
    return torch.cat(columns, -2), tuple(cut)


def lattice(faces: Tensor, count: int, pieces: int) -> tuple[Tensor, Tensor, Tensor]:
    """Triangles whose edges are cut into pieces.

    Args:
        faces: Triangles (m, 3).
        count: Number of their vertices; new ones are numbered from there.
        pieces: Number of pieces of an edge.

    Returns:
        Triangles (m pieces², 3), and of each new vertex three old ones (k, 3) and their weights (k, 3).
    """
    return _lattice(faces.cpu().numpy().astype(np.int64).tobytes(), count, pieces)


@lru_cache(MESHES)
def _lattice(table: bytes, count: int, pieces: int) -> tuple[Tensor, Tensor, Tensor]:
    faces = np.frombuffer(table, np.int64).reshape(-1, 3)
    index: dict[tuple, int] = {}
    cut, corners, weights = [], [], []

    def vertex(face: tuple[int, int, int], place: tuple[int, int, int]) -> int:
        """Number of the vertex at barycentric coordinates `place`/pieces; those of an edge are shared."""
        used = sorted((corner, share) for corner, share in zip(face, place, strict=True) if share)
        if len(used) == 1:
            return used[0][0]
        key = tuple(used)
        if key not in index:
            index[key] = len(index)
            padded = [*used, *[(used[0][0], 0)] * (3 - len(used))]
            corners.append([corner for corner, _ in padded])
            weights.append([share / pieces for _, share in padded])
        return count + index[key]

    for face in faces.tolist():
        at = lambda i, j, face=tuple(face): vertex(face, (pieces - i - j, i, j))
        for i in range(pieces):
            for j in range(pieces - i):
                cut.append([at(i, j), at(i + 1, j), at(i, j + 1)])
                if i + j < pieces - 1:
                    cut.append([at(i + 1, j), at(i + 1, j + 1), at(i, j + 1)])
    return (
        torch.tensor(cut, dtype=torch.int64).reshape(-1, 3),
        torch.tensor(corners, dtype=torch.int64).reshape(-1, 3),
        torch.tensor(weights, dtype=torch.float64).reshape(-1, 3),
    )
