"""Pixels that a body touches though it misses their centre: they show its nearest point."""

from functools import cache
from types import ModuleType

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import borrowed, lane_of, specialise
from gradsim.engine.launch import array, replay
from gradsim.render.edges import functions, mesh_of
from gradsim.render.view import View
from gradsim.render.zbuffer import CULL


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
    near = borrowed(specialise("gradsim.render.triangle_kernels", lane_of(dtype)), "to_segment", "centre")
    cut = borrowed(specialise("gradsim.render.fragments_kernels", lane_of(dtype)), "behind", "NEARNESS")
    return specialise("gradsim.render.beside_kernels", lane_of(dtype), **functions(dtype, "jump"), **near, **cut)
