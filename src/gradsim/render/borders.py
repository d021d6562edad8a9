"""Edges in pictures at which pixels are divided: outlines of one thing before another, and creases of flat shading."""

from functools import cache
from types import ModuleType

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import lane_of, specialise
from gradsim.engine.launch import array, replay
from gradsim.render.edges import functions, mesh_of
from gradsim.render.lights import unit
from gradsim.render.view import View

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
    behind = specialise("gradsim.render.fragments_kernels", lane_of(dtype)).behind
    bound = functions(dtype, "Edge", "jump", "straight")
    return specialise("gradsim.render.borders_kernels", lane_of(dtype), behind=behind, **bound)
