"""Colours of pixels that a body touches though it misses their centre: those of its nearest point."""

from functools import cache
from types import ModuleType

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.lanes import lane_of, specialise
from gradsim.engine.launch import array, replay
from gradsim.render.dibr import distances
from gradsim.render.view import View
from gradsim.render.zbuffer import CULL, Fragments


def beside(view: View, wanted: Tensor, cull: str = "none") -> Fragments:
    """The nearest points on the screen of triangles, for pixels that no triangle covers at their centre.

    Args:
        view: What is seen.
        wanted: The pixels (images, height, width); those that no triangle touches get no fragment.
        cull: Faces to leave out: "none", "back" or "front".
    """
    screen, faces = view.screen.detach(), view.faces
    code = _code(screen.dtype)
    key = torch.zeros(wanted.shape, dtype=torch.int64, device=screen.device)
    args = [array(code.Corner, screen), array(wp.vec3i, faces), array(wp.bool, wanted), view.near, CULL[cull]]
    replay(code.beside, len(screen) * len(faces), [*args, array(wp.int64, key)], str(screen.device))
    index = key.view(-1).nonzero()[:, 0]
    face = (0x7FFFFFFF - (key.view(-1)[index] & 0x7FFFFFFF)).int()
    row = index // view.width
    centre = torch.stack([index - row * view.width, row % view.height], -1) + 0.5
    corners = view.screen[(row // view.height)[:, None], faces.long()[face.long()]]
    return Fragments(view, index, face, nearest_place(corners, centre.to(screen)))


def nearest_place(corners: Tensor, pixel: Tensor) -> Tensor:
    """Barycentrics in space, and depth, of the point of a triangle's border that is nearest on the screen (P, 4).

    Args:
        corners: u, v [px] and depth [m] of the corners (P, 3, 3).
        pixel: (P, 2) [px].
    """
    begin, end = corners[..., :2], corners.roll(-1, 1)[..., :2]
    along, way = end - begin, pixel[:, None] - begin
    square = along.square().sum(-1)
    share = ((way * along).sum(-1) / torch.where(square > 0, square, 1.0)).clamp(0.0, 1.0)
    edge = (way - share[..., None] * along).square().sum(-1).argmin(1, keepdim=True)
    s = share.gather(1, edge)
    flat = torch.zeros_like(share).scatter(1, edge, 1 - s).scatter_add(1, (edge + 1) % 3, s)
    weights = flat / corners[..., 2]
    depth = 1 / weights.sum(1, keepdim=True)
    return torch.cat([weights * depth, depth], 1)


@cache
def _code(dtype: torch.dtype) -> ModuleType:
    return specialise("gradsim.render.beside_kernels", lane_of(dtype), **distances(dtype))
