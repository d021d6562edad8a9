"""Which vertices may come near which triangles before the next frame: a search among boxes that hold their ways.

Every vertex moves inside the box of some places on its way; a triangle inside that of its corners. A vertex may touch the
triangles whose box is within `reach` of its own. Each world is searched by itself, in one tree for all; the pairs found
are those of all worlds together, in order, so that they depend on nothing but the places.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.launch import replay
from gradsim.errors import InputError
from gradsim.physics.contact.broad_phase_kernels import count, fill
from gradsim.physics.contact.vertex_triangle import weights
from gradsim.runtime.warp_init import init_warp

MAX_PAIRS = 2_000_000  # pairs; each takes time in every step


@dataclass(frozen=True, eq=False)
class Candidates:
    """Vertices and triangles that may touch.

    A vertex never touches a triangle that it belongs to, nor one that is nearer than `apart` at rest: neighbours on a fine
    mesh.

    Args:
        vertices: (k,).
        faces: (m, 3).
        rest: All vertices at rest (n, 3) [m].
        apart: Least distance at rest [m].
    """

    vertices: Tensor
    faces: Tensor
    rest: Tensor
    apart: float = 0.0

    def near(self, places: Sequence[Tensor], reach: float) -> Tensor:
        """Pairs (n, 4): a vertex, and the three corners of a triangle.

        Args:
            places: Positions (worlds, n, 3) [m] on the way of all vertices.
            reach: Largest distance of two boxes [m].

        Raises:
            InputError: If there are too many pairs to continue.
        """
        known = self._search(places, reach)
        return self._pairs(known[~torch.isin(known, self._never)])

    @cached_property
    def _never(self) -> Tensor:
        """Numbers (vertex · faces + face) of the excluded pairs."""
        known = self._search([self.rest[None].double()], self.apart)
        pairs = self._pairs(known)
        corners = self.rest.double()[pairs]
        foot = (weights(corners)[..., None] * corners[:, 1:]).sum(1)
        incident = (pairs[:, 1:] == pairs[:, :1]).any(1)
        return known[incident | (torch.linalg.vector_norm(corners[:, 0] - foot, dim=1) < self.apart)]

    def _pairs(self, known: Tensor) -> Tensor:
        m = len(self.faces)
        return torch.cat([self.vertices[known // m, None], self.faces[known % m]], 1)

    def _search(self, places: Sequence[Tensor], reach: float) -> Tensor:
        init_warp()
        device = str(places[0].device)
        low, high = (torch.stack(list(places)).detach().double() for _ in range(2))
        low, high = low.amin(0), high.amax(0)
        slack = 1e-6 * torch.maximum(low.abs(), high.abs()).amax().item() + 1e-30  # the tree is of float32
        corners = (low[:, self.faces].amin(2), high[:, self.faces].amax(2))
        worlds, m = len(low), len(self.faces)
        boxes = [y.reshape(-1, 3).float().contiguous() for y in corners]
        groups = torch.arange(worlds, dtype=torch.int32, device=low.device).repeat_interleave(m)
        vec = lambda y: wp.from_torch(y.float().contiguous(), dtype=wp.vec3)
        tree = wp.Bvh(*(vec(y) for y in boxes), groups=wp.from_torch(groups))
        bounds = [vec(y) for y in (low[:, self.vertices] - reach - slack, high[:, self.vertices] + reach + slack)]
        counts = torch.zeros(worlds, len(self.vertices), dtype=torch.int32, device=low.device)
        replay(count, tuple(counts.shape), [tree.id, *bounds, wp.from_torch(counts)], device)
        total = int(counts.sum(dtype=torch.int64))
        if total > MAX_PAIRS * worlds:
            raise InputError(
                f"{total} pairs of vertices and triangles may touch within a frame; at most {MAX_PAIRS} are followed. Give "
                f"more frames per second, so that they move less in one, or less thickness."
            )
        end = counts.flatten().cumsum(0, dtype=torch.int32).reshape(counts.shape)
        pair = torch.zeros(total, 2, dtype=torch.int32, device=low.device)
        if total:
            arguments = [tree.id, *bounds, wp.from_torch(end), m, wp.from_torch(pair, dtype=wp.vec2i)]
            replay(fill, tuple(counts.shape), arguments, device)
        return torch.unique(pair[:, 0].long() * m + pair[:, 1])


__all__ = ["Candidates"]
