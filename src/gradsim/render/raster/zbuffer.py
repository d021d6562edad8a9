"""Z-buffer: nearest triangle at every pixel centre."""

from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import lane_of, specialize
from gradsim.engine.launch import array, replay
from gradsim.render.raster.fragments import Fragments
from gradsim.render.view import View

if TYPE_CHECKING:
    from gradsim.render.raster import zbuffer_kernels
else:
    zbuffer_kernels = "gradsim.render.raster.zbuffer_kernels"

CULL = {"none": 0, "back": 1, "front": 2}  # faces to leave out, by the visible side


def rasterize(view: View, cull: str = "none") -> Fragments:
    """Rasterize: the nearest triangle at every pixel centre.

    Triangles may reach through the near plane and behind the camera. Depths are compared in single precision; of two
    equally near triangles the first in the table of faces wins.

    Args:
        view: Triangles of all images.
        cull: Faces to leave out: "none", "back" or "front".

    Raises:
        ValueError: If `cull` is none of these.
    """
    return Fragments.of(view, nearest(view, cull))


def nearest(view: View, cull: str = "none") -> Tensor:
    """The table of `rasterize` (images, height, width), int64: see `zbuffer_kernels.py`."""
    if cull not in CULL:
        raise ValueError(f"cull is {cull!r}; use one of {', '.join(CULL)}.")
    clip, faces = view.clip.detach(), view.faces
    code = _code(clip.dtype)
    key = torch.zeros(len(clip), view.height, view.width, dtype=torch.int64, device=clip.device)
    # back faces of a solid are never visible from outside
    side = "back" if cull == "none" and view.is_solid else cull
    args = [array(code.Corner, clip), array(wp.vec3i, faces), view.near, CULL[side], array(wp.int64, key)]
    replay(code.nearest, len(clip) * len(faces), args, str(clip.device))
    return key


@cache
def _code(dtype: torch.dtype) -> ModuleType:
    return specialize(zbuffer_kernels, lane_of(dtype))
