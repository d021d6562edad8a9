"""Images of triangles with colors at their vertices: fragments, interpolation and compositing in one pass."""

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

import torch
import warp as wp
from torch import Tensor

from gradsim.engine.kernel_program import KernelProgram
from gradsim.engine.lanes import lane_of, members, specialize
from gradsim.engine.launch import array
from gradsim.engine.operation import may_be_differentiated, operation
from gradsim.render.view import View

if TYPE_CHECKING:
    from gradsim.render.raster import fragment_kernels, vertex_color_kernels
else:
    fragment_kernels = "gradsim.render.raster.fragment_kernels"
    vertex_color_kernels = "gradsim.render.raster.vertex_color_kernels"

CHANNELS = 3
POINTS = ("MAX_KEY", "TOUCHED_RANK", "at_foot", "back_to_pixels", "cross", "flat_adjoint", "foot", "relative")


def paint(view: View, key: Tensor, colors: Tensor, alpha: Tensor, background: Tensor) -> Tensor:
    """Image (images, 3, height, width): alpha · color + (1 − alpha) · background; differentiable but by `key`.

    The same as `composite` of `Fragments.interpolate`, for views with all vertices beyond the near plane.

    Args:
        view: Triangles of all images.
        key: Table of the visible triangles, see `zbuffer.nearest`.
        colors: RGB of the vertices (images or 1, n, 3).
        alpha: (images, height, width); ignored in pixels without a triangle.
        background: (images or 1, 3, height or 1, width or 1).
    """
    # not detached, although the operation has no derivative by it: a second one has to raise, and so has a tangent
    image = _paint(view.clip, colors, alpha, background, view.faces, key)[0]
    if may_be_differentiated(background):
        clear = 1 - torch.where(key > 0, alpha, 0.0)[:, None]
        image = image + clear * (background - background.detach())  # 0, with the background's derivative
    return image


@cache
def vertex_color_code(dtype: torch.dtype) -> ModuleType:
    """Kernels of `vertex_color_kernels.py`."""
    fragments = members(specialize(fragment_kernels, lane_of(dtype)), *POINTS)
    return specialize(vertex_color_kernels, lane_of(dtype), **fragments)


def _arguments(code: ModuleType, inputs: Sequence[Tensor]) -> list:
    clip, colors, alpha, background, faces, key = inputs
    vertices = array(code.Corner, clip), array(code.Color, colors)
    pixels = *alpha.shape[1:], array(code.Scalar, alpha.view(-1)), array(code.Scalar, background)
    return [*vertices, *pixels, array(wp.vec3i, faces), array(wp.int64, key.view(-1))]


def _image(inputs: Sequence[Tensor]) -> Tensor:
    alpha = inputs[2]
    return alpha.new_empty(len(alpha), CHANNELS, *alpha.shape[1:])


def _gradients(inputs: Sequence[Tensor], _: Tensor) -> list[Tensor]:
    clip, colors, alpha = inputs[:3]
    return [torch.zeros_like(clip), torch.zeros_like(colors), torch.empty_like(alpha)]


_paint = operation(
    KernelProgram(
        "paint",
        code=vertex_color_code,
        arguments=_arguments,
        threads=lambda inputs: len(inputs[2]) * inputs[2].shape[1],
        output=_image,
        gradients=_gradients,
        elements=(("Scalar", (-1,)), "Corner", "Color", ("Scalar", (-1,))),
    )
)
