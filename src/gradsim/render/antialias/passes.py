"""Pixels that a body touches though it misses their centre: they show its nearest point.

Edges in pictures at which pixels are divided: outlines of one thing before another, and creases of flat shading.

Colours of pixels mixed with those of their neighbours.
"""

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import lane_of, members, specialize
from gradsim.engine.launch import array, arrays, replay
from gradsim.engine.operation import operation
from gradsim.render.coverage.edges import functions, mesh_of
from gradsim.render.raster.zbuffer import CULL
from gradsim.render.shading.lights import unit
from gradsim.render.view import View

if TYPE_CHECKING:
    from gradsim.render.antialias import conservative_kernels, edge_kernels, neighbour_mix_kernels
    from gradsim.render.raster import fragment_kernels, triangle_kernels
else:
    conservative_kernels = "gradsim.render.antialias.conservative_kernels"
    edge_kernels = "gradsim.render.antialias.edge_kernels"
    neighbour_mix_kernels = "gradsim.render.antialias.neighbour_mix_kernels"
    fragment_kernels = "gradsim.render.raster.fragment_kernels"
    triangle_kernels = "gradsim.render.raster.triangle_kernels"


def add_touched(view: View, key: Tensor, alpha: Tensor, cull: str = "none") -> None:
    """Put into a table of `zbuffer.nearest` the pixels that triangles touch but whose centre none covers.

    Args:
        view: What was rasterised.
        key: The table (images, height, width), int64.
        alpha: Share of each pixel that is covered (images, height, width); pixels of 0 are left as they are.
        cull: Faces to leave out: "none", "back" or "front".
    """
    clip = view.clip.detach()
    code = _code(clip.dtype)
    faces, edges = mesh_of(view.faces)
    given = [
        array(code.Corner, clip),
        faces,
        edges,
        array(wp.bool, view.is_front),
        array(code.Scalar, alpha.detach()),
    ]
    args = [*given, view.near, CULL[cull], array(wp.int64, key)]
    replay(code.beside, len(clip) * edges.shape[0], args, str(clip.device))


@cache
def _code(dtype: torch.dtype) -> ModuleType:
    near = members(specialize(triangle_kernels, lane_of(dtype)), "to_segment", "centre")
    cut = members(specialize(fragment_kernels, lane_of(dtype)), "behind", "NEARNESS")
    return specialize(conservative_kernels, lane_of(dtype), **functions(dtype, "jump"), **near, **cut)


STRAIGHT = 1 - 1e-6  # cosine of the angle between faces, from which on they are one plane


def creases(view: View, edges: Tensor, flat: Tensor) -> Tensor:
    """Edges between two flat faces that are turned to the same side, but not the same way: (k, 3), int32.

    Args:
        view: What is seen.
        edges: See `outlines`.
        flat: Faces (m,).

    Returns:
        Image, edge, and 1 if the faces show their outer sides, else -1, for each.
    """
    face, back = edges[:, 2].long(), edges[:, 3].long()
    inner = (face >= 0) & (back >= 0) & flat[face] & flat[back]
    a, b, c = view.points.detach()[:, view.faces.long()].unbind(2)
    normals = unit(torch.linalg.cross(b - a, c - a))
    bent = (normals[:, face] * normals[:, back]).sum(-1) < STRAIGHT
    front = view.is_front
    seen = front[:, face] if view.is_solid else torch.ones_like(bent)
    found = (inner & bent & seen & (front[:, face] == front[:, back])).nonzero()
    turned = torch.where(front[found[:, 0], face[found[:, 1]]], 1, -1)
    return torch.cat([found, turned[:, None]], 1).int()


def outlines(view: View) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Edges over which layers change.

    Returns:
        All edges (e, 4); by how much layers change over them (images, e); image and edge of those where they do (k, 2);
        where those of each image begin, and the end (images + 1). All int32.
    """
    edges, code = wp.to_torch(mesh_of(view.faces)[1]), borders_code(torch.float64)
    turn = torch.empty(len(view.clip), len(edges), dtype=torch.int32, device=view.clip.device)
    args = [array(wp.vec4i, edges), array(wp.bool, view.is_front), array(wp.int32, turn)]
    replay(code.turns, turn.numel(), args, str(turn.device))
    found = turn.nonzero()
    begin = torch.searchsorted(found[:, 0].contiguous(), torch.arange(len(turn) + 1, device=turn.device))
    return edges, turn, found.int(), begin.int()


@cache
def borders_code(dtype: torch.dtype) -> ModuleType:
    """The template `borders_kernels.py`."""
    behind = specialize(fragment_kernels, lane_of(dtype)).behind
    bound = functions(dtype, "Edge", "jump", "straight")
    return specialize(edge_kernels, lane_of(dtype), behind=behind, **bound)


def mix(colours: Tensor, shares: Tensor, alpha: Tensor, owner: Tensor, rows: Tensor) -> Tensor:
    """Colours (P, channels) of fragments, each with some of its neighbours'; differentiable by the first three.

    Args:
        colours: (P, channels).
        shares: Of the neighbours in each fragment (P, 5), see `antialiased_kernels.py`.
        alpha: Share of every pixel that is covered (images, height, width).
        owner: See `Fragments`, (P, 4).
        rows: See `Fragments`, (images, height, width).
    """
    return _mix(colours, shares.to(colours), alpha, owner, rows)[0]


class _Mix:
    """A program from colours, shares of neighbours, alpha, and owners and rows of fragments to mixed colours."""

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [tuple(inputs[0].shape)]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        colours = inputs[0]
        code, mixed = mix_code(colours.dtype), colours.clone()
        replay(code.mix, len(colours), [*self._given(code, inputs), array(code.Scalar, mixed)], str(colours.device))
        return [mixed]

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        colours, shares, alpha, _, _ = inputs
        code = mix_code(colours.dtype)
        results = adjoints[0].clone(), torch.zeros_like(shares), torch.zeros_like(alpha)
        args = [*self._given(code, inputs), *(array(code.Scalar, x) for x in (adjoints[0], *results))]
        replay(code.mix_adjoint, len(colours), args, str(colours.device))
        return [*results, None, None]

    def _given(self, code: ModuleType, inputs: Sequence[Tensor]) -> list:
        return arrays((code.Scalar, code.Scalar, code.Scalar, wp.vec4i, wp.int32), inputs)


_mix = operation(_Mix())


@cache
def mix_code(dtype: torch.dtype) -> ModuleType:
    """The template `mix_kernels.py`."""
    return specialize(neighbour_mix_kernels, lane_of(dtype))
