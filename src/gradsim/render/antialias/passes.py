"""Passes of the antialiased rasterizer: touched pixels, edges at which pixels are divided, mixing with neighbours.

`add_touched` gives pixels whose centre is not covered the nearest point of a triangle that touches them. `outlines` and
`creases` list the edges that divide pixels: silhouettes before something else, and edges of flat shading. `mix` mixes the
colors of divided pixels with those of their neighbours.
"""

from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.kernel_program import KernelProgram
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
    """Add the pixels that triangles touch without covering their centre to a table of `zbuffer.nearest`, in place.

    Args:
        view: The rasterized triangles.
        key: The table (images, height, width), int64.
        alpha: Coverage of each pixel (images, height, width); pixels of 0 are unchanged.
        cull: Faces to leave out: "none", "back" or "front".
    """
    clip = view.clip.detach()
    code = touched_code(clip.dtype)
    faces, edges = mesh_of(view.faces)
    inputs = [
        array(code.Corner, clip),
        faces,
        edges,
        array(wp.bool, view.is_front),
        array(code.Scalar, alpha.detach()),
    ]
    args = [*inputs, view.near, CULL[cull], array(wp.int64, key)]
    replay(code.mark_touched, len(clip) * edges.shape[0], args, str(clip.device))


@cache
def touched_code(dtype: torch.dtype) -> ModuleType:
    """Kernels of `conservative_kernels.py`."""
    near = members(specialize(triangle_kernels, lane_of(dtype)), "to_segment", "centre")
    cut = members(specialize(fragment_kernels, lane_of(dtype)), "behind", "NEARNESS")
    return specialize(conservative_kernels, lane_of(dtype), **functions(dtype, "jump"), **near, **cut)


COPLANAR_COSINE = 1 - 1e-6  # cosine of the angle between faces that count as one plane


def creases(view: View, edges: Tensor, flat: Tensor) -> Tensor:
    """Edges between two flat faces that show the same side but have different normals: (k, 3), int32.

    Args:
        view: Triangles of all images.
        edges: See `outlines`.
        flat: Faces (m,).

    Returns:
        Image, edge, and 1 if the faces show their outer sides, else -1.
    """
    face, back = edges[:, 2].long(), edges[:, 3].long()
    inner = (face >= 0) & (back >= 0) & flat[face] & flat[back]
    a, b, c = view.points.detach()[:, view.faces.long()].unbind(2)
    normals = unit(torch.linalg.cross(b - a, c - a))
    bent = (normals[:, face] * normals[:, back]).sum(-1) < COPLANAR_COSINE
    front = view.is_front
    visible = front[:, face] if view.is_solid else torch.ones_like(bent)
    listed = (inner & bent & visible & (front[:, face] == front[:, back])).nonzero()
    side = torch.where(front[listed[:, 0], face[listed[:, 1]]], 1, -1)
    return torch.cat([listed, side[:, None]], 1).int()


def outlines(view: View) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Edges across which the number of layers changes.

    Returns:
        All edges (e, 4); change of layers across them (images, e); image and edge of the nonzero ones (k, 2), and their
        offsets by image (images + 1). All int32.
    """
    edges, code = wp.to_torch(mesh_of(view.faces)[1]), edge_code(torch.float64)
    turn = torch.empty(len(view.clip), len(edges), dtype=torch.int32, device=view.clip.device)
    args = [array(wp.vec4i, edges), array(wp.bool, view.is_front), array(wp.int32, turn)]
    replay(code.turns, turn.numel(), args, str(turn.device))
    listed = turn.nonzero()
    begin = torch.searchsorted(listed[:, 0].contiguous(), torch.arange(len(turn) + 1, device=turn.device))
    return edges, turn, listed.int(), begin.int()


@cache
def edge_code(dtype: torch.dtype) -> ModuleType:
    """Kernels of `edge_kernels.py`."""
    behind = specialize(fragment_kernels, lane_of(dtype)).behind
    bound = functions(dtype, "Edge", "jump", "straight")
    return specialize(edge_kernels, lane_of(dtype), behind=behind, **bound)


def mix(colors: Tensor, shares: Tensor, alpha: Tensor, owner: Tensor, rows: Tensor) -> Tensor:
    """Mix colors (P, channels) of fragments with those of their neighbours; differentiable by the first three.

    Args:
        colors: (P, channels).
        shares: Shares of the neighbours in each fragment (P, 5), see `kernels.py`.
        alpha: Coverage of each pixel (images, height, width).
        owner: See `Fragments`, (P, 4).
        rows: See `Fragments`, (images, height, width).
    """
    return _mix(colors, shares.to(colors), alpha, owner, rows)[0]


@cache
def mix_code(dtype: torch.dtype) -> ModuleType:
    """Kernels of `neighbour_mix_kernels.py`."""
    return specialize(neighbour_mix_kernels, lane_of(dtype))


_mix = operation(
    KernelProgram(
        "mix",
        code=mix_code,
        arguments=lambda code, inputs: arrays((*[code.Scalar] * 3, wp.vec4i, wp.int32), inputs),
        threads=lambda inputs: len(inputs[0]),
        output=lambda inputs: inputs[0].clone(),
        gradients=lambda inputs, adjoint: [adjoint.clone(), *map(torch.zeros_like, inputs[1:3])],
        elements=("Scalar",) * 4,
    )
)
